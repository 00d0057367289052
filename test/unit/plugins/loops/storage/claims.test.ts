/**
 * Which loops get the next processes: one entity's many wait behind the first of others.
 */
import { afterEach, beforeEach, expect, it } from 'vitest'
import { claimLoop, listDueLoops } from '#plugins/loops/storage/claims.js'
import { insertLoop } from '#plugins/loops/storage/loops.js'
import { loopTables } from '#plugins/loops/storage/tables.js'
import { createJobFixture, type JobFixture } from '../../../../support/service/job-fixture.js'

let fixture: JobFixture
beforeEach(async () => {
  fixture = await createJobFixture()
})
afterEach(() => fixture.close())

async function insert(id: string, entity: string): Promise<void> {
  const { modelId } = fixture.newJob()
  const spec = { modelId } as Parameters<typeof insertLoop>[1]['spec']
  await insertLoop(fixture.db, { id, owner: { entity, project: 'p', keyId: null }, spec })
}

it('take turns by entity, the oldest of each first', async () => {
  for (const id of ['1', '2', '3', '4', '5']) await insert(id, 'many')
  await insert('6', 'few')
  await insert('7', 'few')
  expect(await listDueLoops(fixture.db, 4)).toEqual(['1', '6', '2', '7'])
})

it('count what runs already, as long as its lease does', async () => {
  for (const id of ['1', '2', '3']) await insert(id, 'many')
  await insert('4', 'few')
  await claimLoop(fixture.db, '1', 60_000)
  await claimLoop(fixture.db, '2', 60_000)
  expect(await listDueLoops(fixture.db, 2)).toEqual(['4', '3'])
  await loopTables(fixture.db).updateTable('loops').set({ lease_until_ms: 0 }).execute()
  expect(await listDueLoops(fixture.db, 4)).toEqual(['1', '4', '2', '3'])
})
