/**
 * Requests of training loops in any order, refused, damaged, repeated or missing, on a real database: each ends, and the
 * loop goes on.
 */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ProtobufWriter } from '#base/protobuf/protobuf-writer.js'
import { decodeFrame } from '#base/util/frame.js'
import { createRng, type Rng } from '#base/util/rng.js'
import { readLoss } from '#plugins/tinker/read-loss.js'
import { createRunRequests } from '#plugins/tinker/run-requests.js'
import { parseBody } from '#service/bodies/parse-body.js'
import type { Principal } from '#service/operations/context.js'
import { alone } from '#service/queue/peers.js'
import { createGapWatch } from '#service/queue/sessions/session-gaps.js'
import { createSessionTurns } from '#service/queue/sessions/session-turns.js'
import { insertClientSession } from '#service/storage/training-sessions/client-sessions.js'
import { findSessionRequest } from '#service/storage/training-sessions/session-requests.js'
import {
  findTrainingSession,
  insertTrainingSession,
  takeSession,
} from '#service/storage/training-sessions/training-sessions.js'
import { createJobFixture, type JobFixture } from '../../../../support/service/job-fixture.js'
import { bodyOf } from '../../../../support/service/with-plugins.js'
import { until } from '../../../../support/until.js'

const PRINCIPAL: Principal = {
  ...{ keyId: 'k', keyPrefix: 'ty_k', sessionId: null, scope: 'write', usageProject: null },
  ...{ entity: 'local', project: null },
}
const GAP_MS = 60_000
const KINDS = ['good', 'good', 'good', 'refused', 'damaged', 'missing'] as const
type Kind = (typeof KINDS)[number]

let fixture: JobFixture
let requests: ReturnType<typeof createRunRequests>
beforeEach(async () => {
  fixture = await createJobFixture()
  requests = createRunRequests({ db: fixture.db, sessions: { notify: () => undefined } } as never)
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

/** Sends a request as the route does. */
async function send(id: string, seq: number, kind: Kind): Promise<void> {
  if (kind === 'good') {
    await requests.optimStep(PRINCIPAL, { model_id: id, seq_id: seq, adam_params: { learning_rate: 1e-3 } } as never)
  } else if (kind === 'damaged') {
    const message = new ProtobufWriter().string(1, id).integer(2, seq).finish()
    const body = Uint8Array.of(...message, 0x1a, 0x7f)
    await requests.forwardBackward(PRINCIPAL, readLoss(body), body)
  } else if (kind === 'refused') {
    const body = JSON.stringify({ model_id: id, seq_id: seq, adam_params: { learning_rate: -1 } })
    const parse = async () => parseBody(bodyOf('POST /api/v1/optim_step'), [Buffer.from(body)])
    await parse().catch((refusal: unknown) => requests.refuse(PRINCIPAL, 'optim_step', refusal))
  }
}

function shuffled<T>(list: readonly T[], rng: Rng): T[] {
  return list
    .map((item) => [rng.integer(2 ** 30), item] as const)
    .sort(([a], [b]) => a - b)
    .map(([, item]) => item)
}

const statusOf = async (id: string, seq: number) => (await findSessionRequest(fixture.db, id, seq))?.status

/** What waits has waited for longer than a request is waited for. */
const age = (id: string) =>
  fixture.db
    .updateTable('session_requests')
    .set((e) => ({ created_at_ms: e('created_at_ms', '-', GAP_MS + 1000) }))
    .where('session_id', '=', id)
    .where('status', '=', 'waiting')
    .execute()

/** A worker that does whatever it is told; the numbers it was told, in order. */
async function startWorker(id: string) {
  const { db } = fixture
  await takeSession(db, id, null)
  const session = await findTrainingSession(db, id)
  if (session === null) throw new Error('no session')
  const ended: number[] = []
  const silent = { debug: () => undefined, warn: () => undefined, error: () => undefined }
  const turns = await createSessionTurns({
    ...{ db, session, ids: {} as never, blobs: {} as never, clock: { monotonicMs: () => 0 } },
    ...{ logger: silent as never, saveIntervalMs: 1e9, gapMs: GAP_MS },
    ...{ onEnd: (seq: number) => ended.push(seq), onTaken: () => undefined, requestSweep: () => undefined },
  })
  let isOver = false
  const work = (async () => {
    let order: number | null = null
    while (!isOver) {
      const { head } = decodeFrame(
        await turns.turn({ order, ...(order === null ? {} : { metrics: {} }) }, new Uint8Array()),
      )
      order = (head as { order?: number }).order ?? null
    }
  })()
  const stop = async (): Promise<void> => {
    isOver = true
    turns.stop()
    await work
  }
  return { turns, ended, stop }
}

describe('requests of a training loop', () => {
  it.each(Array.from({ length: 12 }, (_, n) => n))('in any order end, each by its own fault (%i)', async (seed) => {
    const rng = createRng(`gaps ${seed}`)
    const id = `s:train:${seed}`
    await addSession(id)
    const kinds = Array.from({ length: 10 }, (): Kind => KINDS[rng.integer(KINDS.length)] ?? 'good')
    // what is missing at the end nobody waits for
    const plan = [...kinds, 'good' as const].map((kind, i) => [i + 1, kind] as const)
    const sent = plan.filter(([, kind]) => kind !== 'missing')
    const worker = await startWorker(id)
    for (const [seq, kind] of shuffled([...sent, ...sent.slice(0, 3)], rng)) await send(id, seq, kind)
    worker.turns.wake()
    const gap = plan.find(([, kind]) => kind === 'missing')?.[0] ?? plan.length + 1
    const ends = async (before: number) => {
      const all = await Promise.all(sent.filter(([seq]) => seq < before).map(([seq]) => statusOf(id, seq)))
      return all.every((status) => status !== 'waiting')
    }
    await until(() => ends(gap), 'what comes before the gap')
    await age(id)
    worker.turns.wake()
    await until(() => ends(Number.POSITIVE_INFINITY), 'the end of all')
    for (const [seq, kind] of sent) {
      const found = await findSessionRequest(fixture.db, id, seq)
      if (kind === 'refused') expect(found?.end).toMatchObject({ error: expect.stringContaining('learning_rate') })
      else if (kind === 'damaged') expect(found?.end).toMatchObject({ error: expect.stringContaining('protobuf') })
      else if (seq < gap) expect(found?.status).toBe('done')
      else expect(found?.end).toMatchObject({ error: expect.stringContaining(`request ${gap} of the training run`) })
    }
    const good = sent.filter(([seq, kind]) => kind === 'good' && seq < gap).map(([seq]) => seq)
    expect(worker.ended.filter((seq) => seq < gap)).toEqual(good)
    // the one that never came fails should it still come, and the loop goes on
    const next = plan.length + 1
    if (gap < next) {
      await send(id, gap, 'good')
      expect(await statusOf(id, gap)).toBe('failed')
    }
    await send(id, next, 'good')
    worker.turns.wake()
    await until(async () => (await statusOf(id, next)) === 'done', 'the next request')
    await worker.stop()
  })

  it('that wait without a worker are given up, too, and none before its time', async () => {
    const id = 's:train:0'
    await addSession(id)
    const ended: number[] = []
    const watch = createGapWatch({
      ...{ db: fixture.db, logger: {} as never, peers: alone, gapMs: GAP_MS, tryLive: () => false },
      onEnd: (_, seq) => ended.push(seq),
    })
    await send(id, 2, 'good')
    await send(id, 4, 'good')
    await watch.start()
    watch.look()
    await watch.stop()
    expect(ended).toEqual([])
    await age(id)
    watch.look()
    await watch.stop()
    expect(ended.sort()).toEqual([2, 4])
    expect((await findSessionRequest(fixture.db, id, 3))?.end).toEqual({
      error: expect.stringContaining(
        'request 1 of the training run has not come, and those behind it waited 60 s for it',
      ),
      isUserError: true,
    })
    expect((await findTrainingSession(fixture.db, id))?.nextSeq).toBe(5)
  })
})
