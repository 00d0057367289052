/**
 * Triggers count the models of each base model: whatever comes and goes, the counts are those of the rows.
 */

import { afterEach, beforeEach, expect, test } from 'vitest'
import { createRng } from '#base/util/rng.js'
import type { OpenDatabase } from '#service/storage/database.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import { countModelsOf } from '#service/storage/models.js'
import { openDatabase } from '../../../support/service/with-plugins.js'

let database: OpenDatabase
beforeEach(async () => {
  database = await openDatabase(':memory:')
})
afterEach(() => database.close())

test('models that come and go are counted by base model, entity and project', async () => {
  const { db } = database
  const rng = createRng(7)
  const pick = <T>(values: readonly T[]): T => values[rng.integer(values.length)] as T
  for (let i = 0; i < 300; i += 1) {
    const base = { entity: pick(['a', 'b']), project: pick(['p', 'q', 'r']), base_model: pick(['x', 'y']) }
    await db
      .insertInto('models')
      .values({ id: `m${i}`, name: `n${i}`, run_id: 'r', step: 0, ...base })
      .execute()
    if (rng.uniform() < 0.6)
      await db
        .deleteFrom('models')
        .where('id', '=', `m${rng.integer(i + 1)}`)
        .execute()
  }
  const rows = await db.selectFrom('models').selectAll().execute()
  const count = (base: string, entity?: string, project?: string) =>
    rows.filter(
      (row) =>
        row.base_model === base && row.entity === (entity ?? row.entity) && row.project === (project ?? row.project),
    ).length
  for (const base of ['x', 'y', 'none']) {
    expect(await countModelsOf(db, base)).toBe(count(base))
    for (const entity of ['a', 'b']) {
      expect(await countModelsOf(db, base, { entity, project: null })).toBe(count(base, entity))
      for (const project of ['p', 'q', 'r', 's']) {
        expect(await countModelsOf(db, base, { entity, project })).toBe(count(base, entity, project))
      }
    }
  }
  await db.deleteFrom('models').execute()
  expect(await db.selectFrom('model_counts').selectAll().execute()).toEqual([])
})

test('a model that could not be inserted is not counted', async () => {
  const { db } = database
  const model = { id: 'm', entity: 'a', project: 'p', name: 'n', base_model: 'x', run_id: 'r', step: 0 }
  await db.insertInto('models').values(model).execute()
  await expect(
    db
      .insertInto('models')
      .values({ ...model, id: 'other' })
      .execute(),
  ).rejects.toThrow('UNIQUE')
  const failed = inTransaction(db, async (transaction) => {
    await transaction
      .insertInto('models')
      .values({ ...model, id: 'third', name: 'third' })
      .execute()
    throw new Error('given up')
  })
  await expect(failed).rejects.toThrow('given up')
  expect(await countModelsOf(db, 'x')).toBe(1)
})
