/**
 * Rows of training sessions: a request that comes as its session ends, and the order of sessions whose ids are no times. A real database and the real queue.
 */
import { afterEach, beforeEach, expect, it } from 'vitest'
import { createRunRequests } from '#plugins/tinker/run-requests.js'
import type { Principal } from '#service/operations/context.js'
import type { DatabaseHandle } from '#service/storage/database.js'
import { insertClientSession } from '#service/storage/training-sessions/client-sessions.js'
import { findSessionRequest } from '#service/storage/training-sessions/session-requests.js'
import {
  failTrainingSession,
  insertTrainingSession,
  listHeldElsewhere,
  pageTrainingSessions,
  takeSession,
} from '#service/storage/training-sessions/training-sessions.js'
import { createJobFixture, type JobFixture } from '../../../support/service/job-fixture.js'

const PRINCIPAL: Principal = {
  ...{ keyId: 'k', keyPrefix: 'ty_k', sessionId: null, scope: 'write', usageProject: null },
  ...{ entity: 'local', project: null },
}
let fixture: JobFixture
beforeEach(async () => {
  fixture = await createJobFixture()
  await insertClientSession(fixture.db, {
    ...{ id: 's', entity: 'local', project: 'p', keyId: 'k', tags: [], userMetadata: {} },
    ...{ sdkVersion: 'test', displayName: null },
  })
})
afterEach(() => fixture.close())

const addSession = (id: string) =>
  insertTrainingSession(fixture.db, {
    ...{ id, entity: 'local', project: 'p', clientSessionId: 's', baseModel: 'base', rank: 8, alpha: 8, seed: 1 },
    ...{ trainsMlp: true, trainsAttention: true, userMetadata: {}, modelId: null },
  })

it('sessions are paged newest first, whatever their ids say', async () => {
  const ids = Array.from({ length: 12 }, (_, n) => `s:train:${n}`)
  for (const [n, id] of ids.entries()) {
    await addSession(id)
    // two of one moment follow each other in any one order
    const createdAtMs = 1000 + Math.max(1, n)
    await fixture.db.updateTable('training_sessions').set({ created_at_ms: createdAtMs }).where('id', '=', id).execute()
  }
  const seen: string[] = []
  for (let after: string | undefined; ; after = seen.at(-1)) {
    const page = await pageTrainingSessions(fixture.db, { entity: 'local', project: 'p', after, limit: 5 })
    seen.push(...page.items.map(({ id }) => id))
    if (!page.hasMore) break
  }
  expect(seen).toEqual(ids.toReversed())
})

it('a session of a silent server is free, and counts as held while the database is just back', async () => {
  const { db } = fixture
  const [held, free] = ['s:train:0', 's:train:1']
  await addSession(held)
  await addSession(free)
  await takeSession(db, held, 'a')
  const ids = [held, free]
  expect(await listHeldElsewhere(db, ids, 'b')).toEqual([])
  expect(await listHeldElsewhere(db, ids, 'b', { countsSilent: true })).toEqual([held])
  expect(await listHeldElsewhere(db, ids, 'a', { countsSilent: true })).toEqual([])
})

it('a request whose session ends while it is taken hears of that, and does not wait for ever', async () => {
  await addSession('s:train:0')
  /** As a database whose next transaction waits until the session's end is written. */
  const later = new Proxy(fixture.db, {
    get: (target, name) => {
      const own: unknown = Reflect.get(target, name, target)
      if (name !== 'transaction') return typeof own === 'function' ? own.bind(target) : own
      return () => ({
        execute: async (action: Parameters<ReturnType<DatabaseHandle['transaction']>['execute']>[0]) => {
          await failTrainingSession(target, 's:train:0', 'its owner ended it')
          return target.transaction().execute(action)
        },
      })
    },
  })
  const requests = createRunRequests({ db: later, sessions: { notify: () => undefined } } as never)
  const step = { model_id: 's:train:0', seq_id: 1, adam_params: { learning_rate: 1e-3 } }
  await requests.optimStep(PRINCIPAL, step as never)
  const stored = await findSessionRequest(fixture.db, 's:train:0', 1)
  expect(stored).toMatchObject({ status: 'failed', end: { error: 'its owner ended it' } })
})
