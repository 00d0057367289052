/**
 * Addresses from which a browser may fetch one file once: a link cannot carry a header.
 */
import { AppError } from '#base/errors/errors.js'
import { insertOneTime, takeOneTime } from '#service/storage/access/one-time.js'
import type { Principal, ServiceContext } from '../context.js'

/** Query parameter of such an address. */
export const TICKET = 'ticket'

export interface DownloadService {
  /**
   * @param address path and query of what may be fetched
   * @returns the same with a ticket, and when that ends
   */
  create(principal: Principal, address: string): Promise<{ readonly address: string; readonly expiresAt: string }>
  /**
   * Whoever made the ticket; it is gone then.
   *
   * @param address as it was asked for, without the ticket
   * @throws {AppError} `invalid_ticket` for one that was used, is over, or is for another address
   */
  redeem(ticket: string, address: string): Promise<Principal>
}

const LIFE_MS = 60_000

export function createDownloadService(context: Pick<ServiceContext, 'db' | 'ids'>): DownloadService {
  return {
    create: async ({ keyId, scope, sessionId, usageProject }, address) => {
      const right = { keyId, scope, sessionId, usageProject, address }
      const { secret, expiresAtMs } = await insertOneTime(context, 'download', { right, lifeMs: LIFE_MS })
      const joint = address.includes('?') ? '&' : '?'
      return { address: `${address}${joint}${TICKET}=${secret}`, expiresAt: new Date(expiresAtMs).toISOString() }
    },
    redeem: async (ticket, asked) => {
      const found = await takeOneTime(context.db, 'download', ticket)
      if (found !== null && found.address === asked) {
        const { address: _, ...principal } = found
        return principal
      }
      throw new AppError('authentication', 'invalid_ticket', 'the download address was used before or has expired', {
        hint: 'POST /v1/preview/downloads makes another; one gives its file once, within a minute',
      })
    },
  }
}
