/** What is asked of the database about no models at all: nothing, for `in ()` is not SQL that every database takes. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { listStepsOf } from '#service/storage/checkpoints.js'
import { openDatabase } from '../../../support/service/with-plugins.js'

test('the steps of no models are told without a statement', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'trainyard-steps-'))
  const database = await openDatabase(join(folder, 'trainyard.sqlite3'))
  await database.close()
  await expect(listStepsOf(database.db, ['a'])).rejects.toThrow()
  expect(await listStepsOf(database.db, [])).toEqual([])
  await rm(folder, { recursive: true, force: true })
})
