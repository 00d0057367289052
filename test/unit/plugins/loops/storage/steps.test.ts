/**
 * Steps of a loop: thousands of evaluations make no row and no list longer, those of before are moved, and examples are those of
 * the newest evaluation.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Kysely, sql } from 'kysely'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { seriesOf } from '#plugins/loops/handlers.js'
import type { LoopExamples, LoopStep } from '#plugins/loops/loop-service.js'
import { up as createLoops } from '#plugins/loops/migrations/0048-loops.js'
import { up as addSteps } from '#plugins/loops/migrations/0057-loop-steps.js'
import { insertLoop, listLoopSteps } from '#plugins/loops/storage/loops.js'
import {
  findExamples,
  insertStep,
  listEvaluations,
  listNewestEvaluations,
  listSteps,
} from '#plugins/loops/storage/steps.js'
import { loopTables } from '#plugins/loops/storage/tables.js'
import { createJobFixture, type JobFixture } from '../../../../support/service/job-fixture.js'
import { openDatabase } from '../../../../support/service/with-plugins.js'

let fixture: JobFixture
let modelId: string
beforeEach(async () => {
  fixture = await createJobFixture()
  modelId = fixture.newJob().modelId
})
afterEach(() => fixture.close())

async function insert(id: string): Promise<void> {
  const spec = { modelId } as Parameters<typeof insertLoop>[1]['spec']
  await insertLoop(fixture.db, { id, owner: { entity: 'e', project: 'p', keyId: null }, spec })
}

const step = (loopStep: number, validReward: number | null, numbers: LoopStep['numbers'] = {}): LoopStep => ({
  ...{
    loopStep,
    checkpointStep: loopStep,
    jobId: `job-${loopStep}`,
    trainReward: loopStep / 1000,
    validReward,
    numbers,
  },
})
const examples = (answer: string): LoopExamples => ({
  best: [{ prompt: 'p', answer, reward: 1, parts: {}, passes: {}, errors: [] }],
  worst: [],
})

it('have the newest and the best evaluations, whatever their number', async () => {
  await insert('a')
  await insert('b')
  for (let i = 0; i <= 600; i += 1) {
    const reward = i % 2 === 1 ? null : i === 300 || i === 400 ? 9 : i / 1000
    await insertStep(fixture.db, 'a', step(i, reward), reward === null ? null : examples(`at ${i}`))
  }
  const best = await listEvaluations(fixture.db, 'a', { order: 'best', limit: 3 })
  expect(best.map(({ loopStep }) => loopStep)).toEqual([400, 300, 600])
  const newest = await listEvaluations(fixture.db, 'a', { order: 'newest', limit: 2 })
  expect(newest.map(({ loopStep, validReward }) => [loopStep, validReward])).toEqual([
    [600, 0.6],
    [598, 0.598],
  ])
  expect(await listNewestEvaluations(fixture.db, ['a', 'b'])).toEqual(new Map([['a', newest[0]]]))
  expect(await listNewestEvaluations(fixture.db, [])).toEqual(new Map())
  expect((await findExamples(fixture.db, 'a'))?.examples.best[0]?.answer).toBe('at 600')
  expect(await findExamples(fixture.db, 'b')).toBeNull()
  const kept = await loopTables(fixture.db)
    .selectFrom('loop_steps')
    .select('step')
    .where('examples', 'is not', null)
    .execute()
  expect(kept).toEqual([{ step: 600 }])
  expect(new Set(await listLoopSteps(fixture.db, modelId))).toEqual(
    new Set(Array.from({ length: 301 }, (_, i) => 2 * i)),
  )
})

it('are thinned to what a chart draws, with their spikes, and summed over all', async () => {
  await insert('a')
  for (let i = 1; i <= 1000; i += 1) {
    await insertStep(
      fixture.db,
      'a',
      step(i, i === 777 ? 5 : 0.5, { 'tokens/judge/prompt': 3, completion_tokens: 7 }),
      null,
    )
  }
  const all = await listSteps(fixture.db, 'a')
  const shown = seriesOf('a', all, 40)
  expect(shown.steps.length).toBeLessThanOrEqual(80)
  expect([shown.steps[0], shown.steps.at(-1)]).toEqual([1, 1000])
  expect(shown.series['valid_reward']?.[shown.steps.indexOf(777)]).toBe(5)
  expect(shown.job_ids[shown.steps.indexOf(777)]).toBe('job-777')
  expect(shown.totals).toEqual({ 'tokens/judge/prompt': 3000 })
  for (const values of Object.values(shown.series)) expect(values).toHaveLength(shown.steps.length)
  expect(seriesOf('a', all, 1000).steps).toHaveLength(1000)
})

it('of before are moved out of the row of their loop', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'trainyard-test-'))
  const opened = await openDatabase(join(folder, 'before.sqlite3'), { isMigrating: false })
  const db = opened.db as Kysely<unknown>
  await createLoops(db)
  const evaluations = [
    { loopStep: 0, checkpointStep: 4, trainReward: null, validReward: 0.1 },
    { loopStep: 2, checkpointStep: 6, trainReward: 0.1 + 0.2, validReward: 1 / 3 },
  ]
  for (const [id, text] of [
    ['a', JSON.stringify(evaluations)],
    ['b', '[]'],
  ] as const) {
    await sql`insert into loops (id, entity, project, model_id, spec, status, progress, spent, evaluations)
      values (${id}, 'e', 'p', 'm', '{}', 'succeeded', '{}', '{}', ${text})`.execute(db)
  }
  await addSteps(db)
  const { rows } = await sql`select loop_id, step, checkpoint_step, train_reward, valid_reward from loop_steps
    order by step`.execute(db)
  expect(rows).toEqual([
    { loop_id: 'a', step: 0, checkpoint_step: 4, train_reward: null, valid_reward: 0.1 },
    { loop_id: 'a', step: 2, checkpoint_step: 6, train_reward: 0.1 + 0.2, valid_reward: 1 / 3 },
  ])
  const columns = await sql`select name from pragma_table_info('loops')`.execute(db)
  expect(columns.rows).not.toContainEqual({ name: 'evaluations' })
  await opened.close()
  await rm(folder, { recursive: true, force: true })
})
