/**
 * Addresses the wandb client sends bytes to and fetches them from: they name what they are for and carry a signature, because
 * the client sends no key there.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { AppError } from '#base/errors/errors.js'
import type { Clock } from '#base/util/clock.js'
import { type Grant, type Ticket, ticketSchema } from './wire.js'

export interface AddressSigner {
  /** A token for the query of the address, good for a day: the client may upload for hours. */
  sign(grant: Grant, entity: string): string
  /** @throws {AppError} `invalid_signature` for a token that is not ours or is too old */
  verify(token: string): Ticket
}

const LIFETIME_MS = 24 * 3600 * 1000

export function createAddressSigner(secret: string, clock: Pick<Clock, 'nowMs'>): AddressSigner {
  const signatureOf = (payload: string) => createHmac('sha256', secret).update(payload).digest()
  return {
    sign: (grant, entity) => {
      const ticket = { grant, entity, expiresAtMs: clock.nowMs() + LIFETIME_MS }
      const payload = Buffer.from(JSON.stringify(ticket)).toString('base64url')
      return `${payload}.${signatureOf(payload).toString('base64url')}`
    },
    verify: (token) => {
      const [payload = '', signature = ''] = token.split('.')
      const given = Buffer.from(signature, 'base64url')
      const expected = signatureOf(payload)
      if (given.length !== expected.length || !timingSafeEqual(given, expected)) throw invalid('is not signed here')
      const ticket = ticketSchema.safeParse(JSON.parse(Buffer.from(payload, 'base64url').toString()))
      if (!ticket.success || ticket.data.expiresAtMs < clock.nowMs()) throw invalid('is too old: ask for a new one')
      return ticket.data
    },
  }
}

function invalid(reason: string): AppError {
  return new AppError('permission', 'invalid_signature', `the address ${reason}`)
}
