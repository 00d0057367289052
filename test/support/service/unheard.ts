/**
 * Stands in for what servers do by a database that they share: a file has nobody to pass anything on to, and no other server.
 */
import { alone } from '#service/queue/peers.js'
import type { SharedDatabase } from '#service/storage/remote-database.js'

export const UNHEARD: Pick<SharedDatabase, 'notify' | 'onDuty' | 'lastingDuty'> = {
  notify: async () => undefined,
  onDuty: alone.onDuty,
  lastingDuty: alone.lastingDuty,
}
