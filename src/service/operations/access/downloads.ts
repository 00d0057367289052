/**
 * Addresses from which a browser may fetch one file once: a link cannot carry a header.
 */
import { AppError } from '#base/errors/errors.js'
import { findApiKeyById } from '#service/storage/api-keys.js'
import type { Principal, ServiceContext } from '../context.js'
import { createOneTime } from './one-time.js'

/** Query parameter of such an address. */
export const TICKET = 'ticket'

export interface DownloadService {
  /**
   * @param address path and query of what may be fetched
   * @returns the same with a ticket, and when that ends
   */
  create(principal: Principal, address: string): { readonly address: string; readonly expiresAt: string }
  /**
   * Whoever made the ticket; it is gone then.
   *
   * @param address as it was asked for, without the ticket
   * @throws {AppError} `invalid_ticket` for one that was used, is over, or is for another address
   */
  redeem(ticket: string, address: string): Promise<Principal>
}

const LIFE_MS = 60_000

export function createDownloadService(context: Pick<ServiceContext, 'db' | 'ids' | 'clock'>): DownloadService {
  const tickets = createOneTime<{ readonly principal: Principal; readonly address: string }>(context, LIFE_MS)
  return {
    create: (principal, address) => {
      const { secret, expiresAtMs } = tickets.put({ principal, address })
      const joint = address.includes('?') ? '&' : '?'
      return { address: `${address}${joint}${TICKET}=${secret}`, expiresAt: new Date(expiresAtMs).toISOString() }
    },
    redeem: async (ticket, address) => {
      const found = tickets.take(ticket)
      const isValid = found !== null && found.address === address && (await isKey(found.principal))
      if (isValid) return found.principal
      throw new AppError('authentication', 'invalid_ticket', 'the download was begun before, or its address is over', {
        hint: 'POST /v1/preview/downloads makes another; one gives its file once, within a minute',
      })
    },
  }

  async function isKey(principal: Principal): Promise<boolean> {
    return (await findApiKeyById(context.db, principal, principal.keyId)) !== null
  }
}
