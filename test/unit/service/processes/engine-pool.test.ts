/**
 * Which hosts count for a server: its own, not those in which what nodes of tenants answer is read. A host is a link that stays until it is ended.
 */
import { expect, it } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import { systemClock } from '#base/util/clock.js'
import type { EngineNode } from '#inference/host/protocol.js'
import type { EngineLinkListener } from '#service/processes/engine-link.js'
import { createEnginePool } from '#service/processes/engine-pool.js'

const OWNER = { entity: 'tenant', project: null }

it("the server's engines are its own: hosts of tenants' nodes, which may not run, are none of them", async () => {
  const links: EngineLinkListener[] = []
  const pool = createEnginePool({
    configure: (baseModel) => ({
      load: { baseModel } as never,
      open: (listener) => {
        links.push(listener)
        return { pid: links.length, send: () => undefined, kill: () => listener.ended('was ended') }
      },
      logger: createLogger({ level: 'silent' }),
      clock: systemClock,
      maxPendingRequests: 1,
    }),
    hasOwnNodes: () => true,
  })
  const own = pool.engineOf('base')
  own.preload().catch(() => undefined)
  pool.setNodes('base', [{ owner: OWNER, isOperators: false } as EngineNode])
  const theirs = pool.engineOf('base', OWNER as never)
  expect([own.pid(), theirs.pid()]).toEqual([1, null])
  expect(pool.started()).toEqual([own])
  expect(pool.all()).toEqual([own, theirs])
  await pool.stop(0)
})
