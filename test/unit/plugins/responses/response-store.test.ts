/**
 * The store of responses where the database takes none, or not all: a disk without room, by a database that may not grow.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import { type IdSource, systemIds } from '#base/util/ids.js'
import { createResponseStore, type ResponseStore, type ResponseStoreTuning } from '#plugins/responses/response-store.js'
import { responseTables } from '#plugins/responses/storage/tables.js'
import type { StoredResponse } from '#plugins/responses/waiting-responses.js'
import type { Response } from '#plugins/responses/wire.js'
import type { DatabaseHandle } from '#service/storage/database.js'
import { openDatabase } from '../../../support/service/with-plugins.js'
import { until } from '../../../support/until.js'

const OWNER = { entity: 'local', project: null }
const OTHER = { entity: 'others', project: null }
/** More than the database has room for. */
const LARGE = 2_000_000
const NEVER_MS = 3_600_000
/** A write that nothing hinders ends within it on any machine. */
const PATIENCE_MS = 30_000

function responseOf(id: string, text: string): StoredResponse {
  const message = { type: 'message', id: `msg_${id}`, role: 'assistant', status: 'completed', content: [{ text }] }
  return { response: { id, output: [message] } as unknown as Response, items: [] }
}

interface Opened {
  readonly db: DatabaseHandle
  readonly store: ResponseStore
  /** Of those that are stored, by id. */
  readonly rows: () => Promise<string[]>
  /** Lines of the log by their event. */
  readonly said: (event: string) => Record<string, unknown>[]
}

const silent = createLogger({ level: 'silent' })

async function open(tuning: Partial<ResponseStoreTuning> = {}, ids: IdSource = systemIds): Promise<Opened> {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-responses-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true, maxRetries: 20 }))
  const { db, close } = await openDatabase(join(directory, 'db.sqlite3'), { maxPages: 400 })
  onTestFinished(() => close())
  const lines: Record<string, unknown>[] = []
  const logger = createLogger({ destination: { write: (line) => void lines.push(JSON.parse(line)) } })
  const store = createResponseStore({ db, ids, logger }, { patienceMs: PATIENCE_MS, ...tuning })
  onTestFinished(() => store.stop())
  return {
    db,
    store,
    rows: async () =>
      (
        await responseTables(db).selectFrom('stored_responses').select('response_id').orderBy('response_id').execute()
      ).map((row) => row.response_id),
    said: (event) => lines.filter((line) => line['event'] === event),
  }
}

describe('a response that the database does not take', () => {
  it('is there for its owner, until it is deleted; what fits is written beside it', async () => {
    const { store, rows } = await open({ retryMs: 20 })
    await store.put(OWNER, responseOf('first', 'a'))
    expect(await rows()).toEqual(['first'])
    const large = responseOf('large', 'x'.repeat(LARGE))
    // its answer is held until it is deleted, at most
    const isOver = store.put(OWNER, large)
    expect(await store.find(OWNER, 'large')).toEqual(large)
    expect(await store.get(OWNER, 'large')).toEqual(large.response)
    expect(await store.findItem(OWNER, 'msg_large')).toEqual(large.response.output[0])
    expect(await store.find(OTHER, 'large')).toBeNull()
    await store.put(OWNER, responseOf('last', 'b'))
    expect(await rows()).toEqual(['first', 'last'])
    expect(await store.find(OWNER, 'large')).toEqual(large)
    expect(await store.delete(OTHER, 'large')).toBe(false)
    expect(await store.delete(OWNER, 'large')).toBe(true)
    await isOver
    expect(await store.find(OWNER, 'large')).toBeNull()
    expect(await rows()).toEqual(['first', 'last'])
  })

  it('holds its answer for a while only', async () => {
    const { store, said } = await open({ patienceMs: 1 })
    await store.put(OWNER, responseOf('large', 'x'.repeat(LARGE)))
    await until(() => said('responses.write_failed').length > 0, 'the write to fail')
  })

  it('is tried again by one timer, however many come meanwhile, and once more at the end', async () => {
    const { store, rows, said } = await open({ retryMs: NEVER_MS, patienceMs: 1 })
    await store.put(OWNER, responseOf('large', 'x'.repeat(LARGE)))
    await until(() => said('responses.write_failed').length > 0, 'the write to fail')
    const ids = Array.from({ length: 40 }, (_, i) => `small ${i + 10}`)
    for (const id of ids) await store.put(OWNER, responseOf(id, 'a'))
    expect(said('responses.write_failed')).toHaveLength(1)
    expect(await rows()).toEqual([])
    await store.stop()
    expect(await rows()).toEqual(ids)
    expect(said('responses.write_failed')).toHaveLength(2)
  })

  it('does not come back when it was deleted while those beside it were tried one by one', async () => {
    let deleted: Promise<boolean> | null = null
    let rowsTried = 0
    const ids: IdSource = {
      ...systemIds,
      // one for each row that is tried: the first one, the large one before the other, the large one alone
      uuid: () => {
        rowsTried += 1
        if (rowsTried === 3) deleted = store.delete(OWNER, 'gone')
        return systemIds.uuid()
      },
    }
    const { store, rows, said } = await open({ retryMs: NEVER_MS }, ids)
    const first = store.put(OWNER, responseOf('first', 'a'))
    void store.put(OWNER, responseOf('large', 'x'.repeat(LARGE)))
    const gone = store.put(OWNER, responseOf('gone', 'b'))
    await Promise.all([first, gone])
    await until(() => said('responses.write_failed').length > 0, 'the large one to fail alone')
    expect(await deleted).toBe(true)
    expect(await store.find(OWNER, 'gone')).toBeNull()
    expect(await rows()).toEqual(['first'])
    await store.delete(OWNER, 'large')
  })

  it('is dropped when all are too large together: the oldest of the entity that holds most, and that is said', async () => {
    const { store, said } = await open({ retryMs: NEVER_MS, patienceMs: 1, mostWaitingBytes: 2.5 * LARGE })
    // none is written while the timer waits, so that another's is the oldest
    await store.put(OWNER, responseOf('first', 'x'.repeat(LARGE)))
    await until(() => said('responses.write_failed').length > 0, 'the write to fail')
    await store.put(OTHER, responseOf('other', 'a'))
    await store.delete(OWNER, 'first')
    for (const id of ['one', 'two', 'three']) await store.put(OWNER, responseOf(id, 'x'.repeat(LARGE)))
    await store.put(OTHER, responseOf('other too', 'b'))
    expect(await store.find(OWNER, 'one')).toBeNull()
    for (const id of ['two', 'three']) expect((await store.get(OWNER, id))?.id).toBe(id)
    for (const id of ['other', 'other too']) expect((await store.get(OTHER, id))?.id).toBe(id)
    expect(said('responses.dropped')).toMatchObject([{ entity: 'local', responses: 1 }])
  })
})

it('a response over the limit of its entity is not taken, and those that are there stay', async () => {
  const { store, rows, said } = await open({ limits: { count: 10, sizeBytes: 100_000 } })
  await store.put(OWNER, responseOf('small', 'a'))
  await store.put(OWNER, responseOf('large', 'x'.repeat(100_000)))
  await store.put(OWNER, responseOf('too', 'b'))
  expect(await store.find(OWNER, 'large')).toBeNull()
  await store.stop()
  expect(await rows()).toEqual(['small', 'too'])
  expect(said('responses.not_stored')).toMatchObject([{ response: 'large', limit_bytes: 100_000 }])
})

it('what is too much goes with a later write where its end has failed', async () => {
  const { db, store, rows, said } = await open({ limits: { count: 32, sizeBytes: 1_000_000 } })
  // of a server that had other limits
  const earlier = createResponseStore({ db, ids: systemIds, logger: silent }, { patienceMs: PATIENCE_MS })
  const ids = Array.from({ length: 40 }, (_, i) => `${i + 10}`)
  await Promise.all(ids.map((id) => earlier.put(OWNER, responseOf(id, 'a'))))
  await earlier.stop()
  await sql`create trigger kept before delete on stored_responses begin select raise(abort, 'kept'); end`.execute(db)
  await store.put(OWNER, responseOf('50', 'a'))
  await until(() => said('responses.trim_failed').length > 0, 'the end to fail')
  expect(await rows()).toHaveLength(41)
  await sql`drop trigger kept`.execute(db)
  await store.put(OWNER, responseOf('51', 'a'))
  await until(async () => (await rows()).length === 32, 'what is too much to go')
  expect(await rows()).toContain('51')
  expect(said('responses.write_failed')).toEqual([])
})
