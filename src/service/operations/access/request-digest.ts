/**
 * What makes two requests the same one for an `Idempotency-Key`.
 */
import { createHash } from 'node:crypto'

/** SHA-256 of a checked request, hex: fields in the order of its schema, whatever the order they were sent in. */
export function digestOf(request: unknown): string {
  return createHash('sha256').update(JSON.stringify(request)).digest('hex')
}
