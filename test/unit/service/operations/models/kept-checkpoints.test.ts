/**
 * Checkpoints and states of optimizers that go by rule, on a real database: what is named, used or newest stays.
 */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import { systemIds } from '#base/util/ids.js'
import type { JsonObject } from '#base/util/json.js'
import { markTables } from '#plugins/marks/storage/tables.js'
import { assertKeepRule, dropByRule, keepWarnings } from '#service/operations/models/kept-checkpoints.js'
import { checkpointsStamp, insertCheckpoint, listSteps } from '#service/storage/checkpoints.js'
import { insertJob, type NewJob } from '#service/storage/training-jobs.js'
import { setKeepRule } from '#service/storage/upkeep/kept-checkpoints.js'
import { createJobFixture, type JobFixture } from '../../../../support/service/job-fixture.js'

let fixture: JobFixture
beforeEach(async () => {
  fixture = await createJobFixture()
})
afterEach(() => fixture.close())

const NAMES = ['adapter_config.json', 'adapter_model.safetensors', 'manifest.json', 'optimizer.safetensors']

async function addSteps(modelId: string, rewards: readonly number[]): Promise<void> {
  for (const [i, reward] of rewards.entries()) {
    const step = i + 1
    await insertCheckpoint(fixture.db, {
      ...{
        id: systemIds.uuid(),
        modelId,
        step,
        kind: 'rl',
        jobId: `${modelId} ${step}`,
        adapterDigest: `${modelId} ${step}`,
      },
      ...{ metrics: { 'val/reward': reward }, templateKwargs: {} },
      files: NAMES.map((name) => ({ name, sha256: 'a'.repeat(64), sizeBytes: 10 })),
    })
  }
}

const stepsOf = async (modelId: string) => (await listSteps(fixture.db, modelId)).map(({ step }) => step)

const optimizersOf = async (modelId: string): Promise<number[]> => {
  const rows = await fixture.db
    .selectFrom('checkpoint_files as f')
    .innerJoin('checkpoints as c', 'c.id', 'f.checkpoint_id')
    .select('c.step')
    .where('c.model_id', '=', modelId)
    .where('f.name', '=', 'optimizer.safetensors')
    .orderBy('c.step')
    .execute()
  return rows.map(({ step }) => step)
}

const drop = (rule: string, optimizers = 2) =>
  dropByRule({ db: fixture.db, logger: createLogger({ level: 'silent' }), rule, optimizers })

/** A job that waits, and is measured to a reference. */
const addWaiting = (modelId: string, reference: JsonObject, more: Partial<NewJob> = {}) =>
  insertJob(fixture.db, { ...fixture.newJob(modelId, { kl_penalty_coef: 0.1, ...reference }), ...more })

/** A job that runs from a step. */
async function addRunning(modelId: string, parentStep: number, config: JsonObject = {}): Promise<void> {
  const job = fixture.newJob(modelId, config)
  await insertJob(fixture.db, job)
  await fixture.db
    .updateTable('training_jobs')
    .set({ status: 'running', parent_step: parentStep })
    .where('id', '=', job.id)
    .execute()
}

describe('checkpoints', () => {
  it('all stay by default; states of optimizers stay at the newest, and where a job begins', async () => {
    const { modelId } = fixture
    const other = await fixture.addModel('other')
    await addSteps(modelId, [1, 2, 3, 4, 5])
    await addSteps(other, [1])
    await addRunning(modelId, 2)
    await drop('all')
    expect(await stepsOf(modelId)).toEqual([1, 2, 3, 4, 5])
    expect(await optimizersOf(modelId)).toEqual([2, 4, 5])
    expect(await optimizersOf(other)).toEqual([1])
    const files = await fixture.db.selectFrom('checkpoint_files').select('name').execute()
    expect(files.filter(({ name }) => name !== 'optimizer.safetensors')).toHaveLength(6 * 3)
  })

  it('go by the rule of the server, or of their model, and only those it does not keep', async () => {
    const { modelId } = fixture
    const [own, all] = [await fixture.addModel('own'), await fixture.addModel('all')]
    for (const id of [modelId, own, all]) await addSteps(id, [1, 9, 3, 4, 5, 6])
    await setKeepRule(fixture.db, own, 'every 3')
    await setKeepRule(fixture.db, all, 'all')
    await drop('last 2, best val/reward')
    expect(await stepsOf(modelId)).toEqual([2, 5, 6])
    expect(await stepsOf(own)).toEqual([3, 6])
    expect(await stepsOf(all)).toEqual([1, 2, 3, 4, 5, 6])
  })

  it('stay that somebody marked, or that a job begins from', async () => {
    const { modelId, db } = fixture
    await addSteps(modelId, [1, 2, 3, 4, 5, 6])
    await addRunning(modelId, 3)
    await markTables(db)
      .insertInto('marks')
      .values({
        ...{ id: systemIds.uuid(), model_id: modelId, source: 'chat', source_id: null, group_index: null },
        ...{ trajectory_index: null, pair_with: null, step: 2, mark: 'good', edited: null, note: null, content: '{}' },
        ...{ created_at_ms: 1, updated_at_ms: 1 },
      } as never)
      .execute()
    await drop('last 1')
    expect(await stepsOf(modelId)).toEqual([2, 3, 6])
  })

  it('stay that an unfinished job is compared with, and no others for its sake', async () => {
    const { modelId } = fixture
    const [lag, running, adapter, other] = [
      ...[await fixture.addModel('lag'), await fixture.addModel('running')],
      ...[await fixture.addModel('adapter'), await fixture.addModel('other')],
    ]
    for (const id of [modelId, lag, running, adapter, other]) await addSteps(id, [1, 2, 3, 4, 5, 6])
    await addWaiting(modelId, { kl_penalty_reference_step: 2 })
    await addWaiting(lag, { kl_penalty_step_lag: 2 })
    await addRunning(running, 4, { kl_penalty_coef: 0.1, kl_penalty_step_lag: 1 })
    await addWaiting(other, { kl_ref_adapter_path: 'wandb-artifact:///local/p/adapter:v3' })
    // of another entity's model of that name it says nothing
    await addWaiting(other, { kl_ref_adapter_path: 'p/adapter:step4' }, { entity: 'stranger' })
    await drop('last 1')
    expect(await stepsOf(modelId)).toEqual([2, 6])
    expect(await stepsOf(lag)).toEqual([4, 5, 6])
    expect(await stepsOf(running)).toEqual([3, 4, 5, 6])
    expect(await stepsOf(adapter)).toEqual([3, 6])
    expect(await stepsOf(other)).toEqual([6])
  })

  it('that will go when a job has ended are what its plan says', async () => {
    const { modelId: id, db } = fixture
    await addSteps(id, [1, 9, 3])
    const said = (keepRule: string) => keepWarnings({ db, keepRule }, { id, step: 3 })
    expect(await said('all')).toEqual([])
    expect(await said('last 4')).toEqual([])
    expect(await said('last 2, best val/reward')).toEqual([
      'the server\'s rule "last 2, best val/reward" deletes step 1 when this job has ended',
    ])
    await setKeepRule(db, id, 'last 1')
    expect(await said('all')).toEqual(['the model\'s rule "last 1" deletes steps 1, 2, 3 when this job has ended'])
  })

  it('of which none goes are no change: neither a rule that keeps all nor one that finds nothing writes', async () => {
    const { modelId, db } = fixture
    const all = await fixture.addModel('all')
    for (const id of [modelId, all]) await addSteps(id, [1, 2])
    await setKeepRule(db, all, 'all')
    const before = await checkpointsStamp(db)
    await drop('last 5')
    expect(await checkpointsStamp(db)).toBe(before)
    await drop('last 1')
    expect(await checkpointsStamp(db)).not.toBe(before)
  })

  it('are left alone by a rule that says nothing, which is refused', async () => {
    await addSteps(fixture.modelId, [1, 2])
    await drop('nonsense')
    expect(await stepsOf(fixture.modelId)).toEqual([1, 2])
    expect(() => assertKeepRule('last 0', 'rule')).toThrow(/rule is no rule: "last 0".*expected all, or parts of/)
  })
})
