/**
 * A service whose way to PostgreSQL is cut, frozen and refused: what it answers is clear, what it acknowledged is there once, what it did not
 * know is found out by a repetition with the same key, and it goes on by itself.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { TrainingEvent } from '#contract/wire/training-jobs.js'
import { hasPostgres, type LocalPostgres, NO_POSTGRES, startPostgres } from '../../../support/local-postgres.js'
import {
  createTestService,
  type TestService,
  type TestServiceOptions,
} from '../../../support/service/create-test-service.js'
import { startTcpProxy, type TcpProxy, throughProxy } from '../../../support/storage/tcp-proxy.js'
import { until } from '../../../support/until.js'

const JOBS = '/v1/preview/training-jobs'
const SFT_JOBS = '/v1/preview/sft-training-jobs'
const CHAT = { model: 'trainyard/tiny-random', messages: [{ role: 'user', content: 'Hi' }], max_tokens: 4 }

describe.skipIf(!hasPostgres())(hasPostgres() ? 'the way to PostgreSQL' : NO_POSTGRES, { timeout: 280_000 }, () => {
  let postgres: LocalPostgres
  let proxy: TcpProxy
  let address: string
  let service: TestService

  beforeAll(async () => {
    postgres = await startPostgres()
  })
  afterAll(() => postgres?.stop())
  beforeEach(async () => {
    proxy = await startTcpProxy(postgres.socket)
    address = await postgres.createDatabase()
  })
  afterEach(async () => {
    await proxy.set('passing')
    proxy.cut = null
    await service.dispose()
    await proxy.stop()
  })

  async function serve(options: TestServiceOptions = {}): Promise<void> {
    const database = throughProxy(address, proxy)
    // an action that is done twice would be cut in the one that does not count
    const seams = { rehearsesTransactions: false }
    service = await createTestService({ database, scripted: false, threads: 1, seams, ...options })
  }

  /** A create of a job with a key of its own. */
  function createOf(model: string, key: string, steps = 1) {
    const json = { model_id: model, training_data_url: rowsFor(steps), config: { batch_size: 1, learning_rate: 1e-3 } }
    const headers = { 'idempotency-key': key }
    return service.json<{ id: string; error?: { code: string } }>(SFT_JOBS, { json, headers })
  }
  const rowsOf = <Row extends object>(statement: string) => postgres.query<Row>(address, statement)
  const isBack = () =>
    until(async () => ((await service.fetch('/v1/preview/models')).status === 200 ? true : null), 'it to answer again')

  it.each(['before', 'after'] as const)(
    'cut %s the database has any statement of a create: an answer of 200 or 503, and one job a key',
    async (when) => {
      // nothing else speaks to the database meanwhile
      await serve({ trainWorkers: 0, tuning: { jobs: { sweepMs: 600_000 } } })
      const model = await service.createModel()
      // by then its statements are prepared
      const before = 12
      for (let time = 0; time < before; time += 1) expect((await createOf(model, `before ${time}`)).status).toBe(200)
      const answers: string[] = []
      // those that were cut: a create that meets none but them has been cut at each of its own
      const known = new Set<string>()
      for (let time = 0; ; time += 1) {
        const at = (text: string): boolean => {
          const statement = statementsIn(text)
          if (!isOfCreate(statement) || known.has(statement)) return false
          known.add(statement)
          return true
        }
        proxy.cut = { when, at }
        const cutsBefore = proxy.cuts
        const { status, body } = await createOf(model, `cut ${time}`)
        proxy.cut = null
        if (proxy.cuts === cutsBefore) break
        answers.push(`${status} ${body.error?.code ?? 'made'}`)
        await isBack()
        const again = await createOf(model, `cut ${time}`)
        expect(again.status).toBe(200)
        if (status === 200) expect(again.body.id).toBe(body.id)
      }
      const cut = [...known].join('\n')
      for (const statement of [
        'start transaction',
        'insert into "training_jobs"',
        'insert into "idempotency',
        'commit',
      ]) {
        expect(cut).toContain(statement)
      }
      for (const answer of answers) expect(answer).toMatch(/^(200 made|503 database_unavailable)$/)
      expect(await rowsOf('select id from training_jobs')).toHaveLength(before + answers.length + 1)
    },
  )

  it('cut at any commit while jobs run: each ends once, each step is told once', async () => {
    // a claim that the server was not told of is given away after it
    await serve({ tuning: { jobs: { leaseMs: 5000 } } })
    const models = await Promise.all(['a', 'b'].map((name) => service.createModel(name)))
    let commits = 0
    const rearm = (): void => {
      // both ways in turn: the database has done it, or has not
      proxy.cut = {
        when: commits % 2 === 0 ? 'after' : 'before',
        at: (text) => {
          if (!text.includes('commit')) return false
          commits += 1
          return commits % 7 === 0
        },
      }
    }
    rearm()
    const arming = setInterval(() => {
      if (proxy.cut === null) rearm()
    }, 5)
    try {
      const ids: string[] = []
      for (let job = 0; job < 4; job += 1) {
        const model = models[job % 2] ?? ''
        const made = await until(async () => {
          const { status, body } = await createOf(model, `job ${job}`, 6)
          expect([200, 503]).toContain(status)
          return status === 200 && body.id
        }, 'the create to be answered')
        ids.push(made)
      }
      for (const id of ids) {
        await until(async () => {
          const { body } = await service.json<{ training_end?: string | null }>(`${JOBS}/${id}`)
          return body.training_end
        }, `the end of job ${id}`)
      }
      clearInterval(arming)
      proxy.cut = null
      expect(proxy.cuts).toBeGreaterThan(2)
      await isBack()
      for (const id of ids) {
        const { body } = await service.json<{ data: TrainingEvent[] }>(`${JOBS}/${id}/events?limit=100`)
        expect(body.data.map(({ type }) => type)).toEqual(eventsFor(6))
      }
      const steps = await rowsOf<{ count: number }>('select count(*)::int as count from checkpoints')
      expect(steps).toEqual([{ count: ids.length }])
    } finally {
      clearInterval(arming)
    }
  })

  it('cut behind the commit of what was used: it is counted once', async () => {
    await serve()
    let chats = 0
    for (const when of ['after', 'before', 'after'] as const) {
      const cutsBefore = proxy.cuts
      let isUsage = false
      proxy.cut = {
        when,
        at: (text) => {
          isUsage ||= text.includes('into "usage_days"')
          return isUsage && text.includes('commit')
        },
      }
      for (let i = 0; i < 3; i += 1) {
        expect((await service.json('/v1/chat/completions', { json: CHAT })).status).toBe(200)
        chats += 1
      }
      await until(() => proxy.cuts > cutsBefore, 'the write of usage to be cut')
      await isBack()
    }
    const countOf = async () => (await service.json<{ total: { requests: number } }>('/v1/usage')).body.total.requests
    await until(async () => (await countOf()) >= chats, 'every chat to be counted')
    expect(await countOf()).toBe(chats)
  })

  it('that refuses the write of what was used, beside others that it takes, loses none of it', async () => {
    await serve({ trainWorkers: 0 })
    await rowsOf(`create function refuse() returns trigger language plpgsql as
      $$ begin raise exception 'no room' using errcode = '53100'; end $$`)
    await rowsOf('create trigger refuses before insert on usage_days for each row execute function refuse()')
    for (let i = 0; i < 3; i += 1) {
      expect((await service.json('/v1/chat/completions', { json: CHAT })).status).toBe(200)
    }
    // transactions that wait for each other go together: the write is among them at least once
    let count = 0
    const end = performance.now() + 3000
    while (performance.now() < end) {
      await Promise.all(Array.from({ length: 16 }, () => service.createModel(`m${count++}`)))
    }
    await rowsOf('drop trigger refuses on usage_days')
    const { body } = await service.json<{ total: { requests: number } }>('/v1/usage')
    expect(body.total.requests).toBe(3)
  })

  it('frozen: what waits is answered when it goes on, what finds no connection with 503; nothing is done twice', async () => {
    await serve()
    const model = await service.createModel()
    await proxy.set('frozen')
    const creates = Array.from({ length: 16 }, (_, i) => createOf(model, `frozen ${i}`))
    // who gets no connection is told so, and the server says that it lives
    const first = await Promise.race(creates)
    expect([first.status, first.body.error?.code]).toEqual([503, 'database_unavailable'])
    expect((await fetch(`${service.url}/v1/health`)).status).toBe(200)
    const ready = await service.json<{ error: { code: string; message: string } }>('/v1/ready')
    expect([ready.status, ready.body.error.code]).toEqual([503, 'not_ready'])
    expect(ready.body.error.message).toContain('database: ')
    await proxy.set('passing')
    const answers = await Promise.all(creates)
    for (const { status } of answers) expect([200, 503]).toContain(status)
    const again = await Promise.all(answers.map((_, i) => createOf(model, `frozen ${i}`)))
    answers.forEach(({ status, body }, i) => {
      if (status === 200) expect(again[i]?.body.id).toBe(body.id)
    })
    expect(new Set(again.map(({ body }) => body.id)).size).toBe(16)
    expect((await service.fetch('/v1/ready')).status).toBe(200)
    expect(await rowsOf('select id from training_jobs')).toHaveLength(16)
    for (const { body } of again) expect((await service.waitForJob(body.id)).status).toBe('completed')
  })

  it('refused while a job runs: reads and creates are told, chats that began end, and the job ends once when it is back', async () => {
    await serve()
    const model = await service.createModel()
    const { body: job } = await createOf(model, 'away', 40)
    await until(async () => (await service.allEvents(job.id)).length > 2, 'steps of the job')
    const json = { ...CHAT, max_tokens: 100, min_tokens: 100, stream: true }
    const stream = await service.fetch('/v1/chat/completions', { json })
    const reader = stream.body?.getReader()
    const decoder = new TextDecoder()
    let text = decoder.decode((await reader?.read())?.value)
    await proxy.set('refusing')
    for (let part = await reader?.read(); part?.done === false; part = await reader?.read()) {
      text += decoder.decode(part.value)
    }
    expect(text).toContain('[DONE]')
    const asked = [await service.fetch(JOBS), await service.fetch('/v1/chat/completions', { json: CHAT })]
    for (const answer of asked) {
      expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '5'])
      expect(await answer.text()).toContain('the database cannot be reached')
    }
    expect((await createOf(model, 'while it is away')).body.error?.code).toBe('database_unavailable')
    await proxy.set('passing')
    await isBack()
    expect(await service.waitForJob(job.id)).toMatchObject({ status: 'completed', attempt: 1 })
    expect((await service.allEvents(job.id)).map(({ type }) => type)).toEqual(eventsFor(40))
    const { body: usage } = await service.json<{ total: { requests: number; completion_tokens: number } }>('/v1/usage')
    expect(usage.total).toMatchObject({ requests: 1, completion_tokens: 100 })
  })
})

function rowsFor(steps: number): string {
  const row = (i: number) => ({
    messages: [
      { role: 'user', content: `What is ${1000 + i}?` },
      { role: 'assistant', content: `It is ${1000 + i}.` },
    ],
  })
  const rows = Array.from({ length: steps }, (_, i) => JSON.stringify(row(i))).join('\n')
  return `data:application/jsonl;base64,${Buffer.from(rows).toString('base64')}`
}

const eventsFor = (steps: number): string[] => [
  'training_started',
  ...Array<string>(steps).fill('gradient_step'),
  'training_ended',
]

/** Not what the service does by itself beside it. */
function isOfCreate(text: string): boolean {
  return /training_jobs|idempotency|start transaction|commit|models/.test(text)
}

/** The statements that a piece of the client's bytes names, without what is given to them. */
function statementsIn(text: string): string {
  const found = text.match(/(start transaction|commit|select|insert|update|delete|with)\b[^\0]*/g) ?? []
  return [...new Set(found)].join('; ')
}
