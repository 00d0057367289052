/**
 * A database, in memory unless the file's tests run on PostgreSQL, with one model, for tests of the queue and of fencing.
 * Each transaction on it is done, undone and done again, as one whose commit was refused.
 */

import { systemIds } from '#base/util/ids.js'
import type { DatabaseHandle } from '#service/storage/database.js'
import { rehearseTransactions } from '#service/storage/in-transaction.js'
import { insertModel } from '#service/storage/models.js'
import type { NewJob } from '#service/storage/training-jobs.js'
import { openTestDatabase } from './database-kind.js'

export interface JobFixture {
  readonly db: DatabaseHandle
  readonly modelId: string
  addModel(name: string): Promise<string>
  newJob(modelId?: string, config?: NewJob['config']): NewJob
  close(): Promise<void>
}

export const ONCE = { idempotencyKey: null, isRetry: false, maxUnfinished: 1000 }

export async function createJobFixture(): Promise<JobFixture> {
  const database = await openTestDatabase()
  const { db } = database
  rehearseTransactions(db)
  async function addModel(name: string): Promise<string> {
    const id = systemIds.uuid()
    await insertModel(db, { id, entity: 'local', project: 'p', name, baseModel: 'base', runId: systemIds.uuid() })
    return id
  }
  const modelId = await addModel('m')
  let counter = 0
  return {
    db,
    modelId,
    addModel,
    newJob: (id = modelId, config = {}) => {
      counter += 1
      return newJobOf(id, `digest ${counter}`, config)
    },
    close: database.close,
  }
}

/** A job that nobody has asked for before. */
export function newJobOf(modelId: string, requestDigest: string, config: NewJob['config'] = {}): NewJob {
  return {
    id: systemIds.uuid(),
    entity: 'local',
    project: 'p',
    usageProject: null,
    modelId,
    kind: 'rl',
    config,
    resolvedConfig: config,
    baseParameters: null,
    weightBytes: null,
    inputSha256: 'a'.repeat(64),
    requestDigest,
    sourceUrl: null,
    dataNotes: [],
    validationSha256: null,
  }
}

/** A worker as the record of a job names it. */
export const TEST_WORKER = { name: 'here', trainer: 'onnx', device: 'cpu', versions: {} }
/** Who claims with no limits. */
export const TEST_LEASE = {
  ...{ owner: 'local-test', leaseMs: 30_000, worker: TEST_WORKER },
  ...{ tenant: null, trainers: ['onnx'], memoryBytes: null },
}
