/**
 * A training file of marks that are deleted and changed while they are read.
 */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createMarksFileService } from '#plugins/marks/marks-file.js'
import { deleteMark, putMark } from '#plugins/marks/storage/marks.js'
import type { OpenDatabase } from '#service/storage/database.js'
import { openDatabase } from '../../../../support/service/with-plugins.js'

const OWNER = { entity: 'e', project: 'p' }
const MODEL = 'm1'
interface Preference {
  readonly rejected: readonly { readonly content: string }[]
}
let database: OpenDatabase
beforeEach(async () => {
  database = await openDatabase(':memory:')
  await database.db
    .insertInto('models')
    .values({ id: MODEL, name: 'n', run_id: 'r', step: 0, base_model: 'b', ...OWNER })
    .execute()
})
afterEach(() => database.close())

const idOf = (n: number) => `id-${String(n).padStart(3, '0')}`
const add = (n: number, mark: 'good' | 'bad', prompt: string) =>
  putMark(database.db, {
    id: idOf(n),
    modelId: MODEL,
    source: 'chat',
    sourceId: null,
    group: null,
    trajectory: null,
    pairWith: null,
    step: 0,
    mark,
    edited: null,
    note: null,
    prompt: [{ role: 'user', content: prompt }],
    answer: [{ role: 'assistant', content: `answer ${n}` }],
    other: null,
    tools: null,
  })

/** Makes a file. @param onRow is called after each row, before the next is read */
async function toFile(form: 'sft' | 'dpo', onRow: (count: number) => Promise<void>) {
  const rows: string[] = []
  const upload = async (_: unknown, bytes: AsyncIterable<Uint8Array>) => {
    for await (const part of bytes) {
      rows.push(Buffer.from(part).toString())
      await onRow(rows.length)
    }
    return {} as never
  }
  const service = createMarksFileService(database, { files: { upload } as never })
  const principal = {
    ...OWNER,
    keyId: 'k',
    keyPrefix: '',
    sessionId: null,
    scope: 'write',
    usageProject: null,
  } as const
  return { file: await service.create(principal, { model_id: MODEL, form }, null), rows }
}

test('the last mark of a page may be deleted before the next page is read', async () => {
  for (let n = 0; n < 25; n += 1) await add(n, 'good', `prompt ${n}`)
  const { file } = await toFile('sft', async (count) => {
    for (let n = 0; n < count; n += 1) await deleteMark(database.db, idOf(n))
  })
  expect([file.rows, file.left_out]).toEqual([25, []])
})

test('a mark whose partner is gone meets the next one', async () => {
  await add(0, 'bad', 'other')
  await add(1, 'good', 'other')
  await add(2, 'bad', 'same')
  await add(3, 'bad', 'same')
  for (let n = 4; n < 20; n += 1) await add(n, 'bad', `alone ${n}`)
  await add(20, 'good', 'same')
  await add(21, 'bad', 'first of the next page')
  await add(22, 'good', 'first of the next page')
  const { file, rows } = await toFile('dpo', () => deleteMark(database.db, idOf(2)))
  expect(rows.map((row) => (JSON.parse(row) as Preference).rejected[0]?.content)).toEqual([
    'answer 0',
    'answer 3',
    'answer 21',
  ])
  expect(file.left_out).toEqual([{ reason: 'without_partner', count: 17 }])
})
