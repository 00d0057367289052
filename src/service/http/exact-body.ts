/**
 * Sends JSON whose numbers are written as the client or the model wrote them. Knows nothing of what they mean.
 */
import { stringifyExact } from '#base/json/exact-json.js'
import type { JsonValue } from '#base/util/json.js'
import type { RequestContext } from './environment.js'

/** The answer as JSON. */
export function sendExact(c: RequestContext, value: object): Response {
  return c.body(exactText(value), 200, { 'content-type': 'application/json' })
}

/** The text of an answer, or of one event of a stream. */
export function exactText(value: object): string {
  return stringifyExact(value as JsonValue)
}
