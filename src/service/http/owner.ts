/**
 * Whose request it is, once it has shown a key, a token or a signature: what it may hold is counted with that entity.
 */
import { AppError } from '#base/errors/errors.js'
import type { ConnectionHandle } from './connections/connections.js'
import type { RequestContext } from './environment.js'

/** @throws {AppError} `too_many_connections` where requests of this entity run on as many connections as are left */
export function noteOwner(c: RequestContext, entity: string): void {
  c.set('owner', entity)
  // only tests call an application without a port
  const { connection } = (c.env ?? {}) as { readonly connection?: ConnectionHandle }
  if (connection === undefined || connection.prove(entity)) return
  throw new AppError('rate_limited', 'too_many_connections', `"${entity}" has a request on too many connections`, {
    hint: 'one entity may use as many as are left for others, half of them where it is alone: wait for answers, or raise --max-connections',
    details: { retry_after_seconds: 1 },
  })
}
