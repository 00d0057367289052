/**
 * The store of responses where the database takes none: a disk without room, by a database that may not grow.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import { systemIds } from '#base/util/ids.js'
import type { Response } from '#contract/wire/inference/responses.js'
import { createResponseStore, type StoredResponse } from '#service/operations/generation/responses/response-store.js'
import { openDatabase } from '#service/storage/database.js'
import { until } from '../../../../../support/until.js'

const OWNER = { entity: 'local', project: null }
const OTHER = { entity: 'others', project: null }

function responseOf(id: string, text: string): StoredResponse {
  const message = { type: 'message', id: `msg_${id}`, role: 'assistant', status: 'completed', content: [{ text }] }
  return { response: { id, output: [message] } as unknown as Response, items: [] }
}

it('keeps what a full disk did not take, for its owner, until it is deleted, and writes what fits', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-responses-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true, maxRetries: 20 }))
  const path = join(directory, 'db.sqlite3')
  const { db, close } = await openDatabase(path, { maxPages: 400 })
  const store = createResponseStore({ db, ids: systemIds, logger: createLogger({ level: 'silent' }) })
  const rows = async () =>
    (await db.selectFrom('stored_responses').select('response_id').orderBy('id').execute()).map(
      (row) => row.response_id,
    )
  await store.put(OWNER, responseOf('first', 'a'))
  expect(await rows()).toEqual(['first'])
  // its answer is not held for ever, and who goes on from it finds it here
  const large = responseOf('large', 'x'.repeat(2_000_000))
  await store.put(OWNER, large)
  expect(await rows()).toEqual(['first'])
  expect(await store.find(OWNER, 'large')).toEqual(large)
  expect(await store.findItem(OWNER, 'msg_large')).toEqual(large.response.output[0])
  expect(await store.find(OTHER, 'large')).toBeNull()
  expect(await store.delete(OTHER, 'large')).toBe(false)
  expect(await store.delete(OWNER, 'large')).toBe(true)
  expect(await store.find(OWNER, 'large')).toBeNull()
  await store.put(OWNER, responseOf('last', 'b'))
  // a write that was on its way with the large one fails first
  await until(async () => (await rows()).length === 2, 'the row of the last one')
  expect(await rows()).toEqual(['first', 'last'])
  await store.stop()
  await close()
})
