/**
 * Deletes checkpoints by rule, and the states of optimizers of old ones: what bounds the disk of a long run.
 *
 * A rule is the server's or the model's own (`contract/jobs/keep-rule.ts`); both keep everything unless somebody says otherwise. It deletes only
 * steps of models that it is for, never the newest, nor what somebody named, published or marked, or what a job needs. Rows go at once, files by the
 * sweep, after its grace. States of optimizers are two thirds of a checkpoint, and only a job that goes on from its step reads them.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import type { Logger } from '#base/logging/logger.js'
import { KEEP_RULE_FORM, type KeepRule, keptSteps, type MeasuredStep, parseKeepRule } from '#contract/jobs/keep-rule.js'
import { deleteCheckpointRows, listCheckpoints } from '#service/storage/checkpoints.js'
import type { Database, DatabaseHandle } from '#service/storage/database.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import { findModel } from '#service/storage/models.js'
import { type JobRecord, listUnfinishedJobs } from '#service/storage/training-jobs.js'
import {
  dropOldOptimizers,
  findKeepRule,
  listKeptModels,
  listNamedSteps,
} from '#service/storage/upkeep/kept-checkpoints.js'
import { referenceOfJob } from '../job-options.js'

export interface KeepOptions {
  readonly db: DatabaseHandle
  readonly logger: Logger
  /** The server's rule, for models that have none of their own. */
  readonly rule: string
  /** Newest checkpoints of a model that keep the state of their optimizer. */
  readonly optimizers: number
}

/** @param param the field or setting that the text is of. @throws {InvalidRequestError} `invalid_value` */
export function assertKeepRule(text: string, param: string): void {
  const rule = parseKeepRule(text)
  if (typeof rule !== 'string') return
  throw new InvalidRequestError('invalid_value', `${param} is no rule: ${rule}, expected ${KEEP_RULE_FORM}`, { param })
}

/** Looks at every model once. */
export async function dropByRule({ db, logger, rule, optimizers }: KeepOptions): Promise<void> {
  const dropped = await inTransaction(db, (transaction) => dropOldOptimizers(transaction, optimizers))
  if (dropped > 0) logger.info({ checkpoints: dropped }, 'checkpoints.optimizers_dropped')
  const adapters = namedAdapters(await listUnfinishedJobs(db, null))
  for (const { modelId, rule: own } of await listKeptModels(db)) {
    // most models have no rule, or one that keeps all: nothing is written for them
    const parsed = readRule(own ?? rule)
    if (parsed === null) continue
    const steps = await inTransaction(db, (transaction) => dropOf(transaction, { modelId, rule: parsed, adapters }))
    if (steps.length > 0) logger.info({ model_id: modelId, steps }, 'checkpoints.dropped')
  }
}

/** @returns null where it deletes nothing, as one that cannot be read */
function readRule(text: string): KeepRule | null {
  const rule = parseKeepRule(text)
  return typeof rule === 'string' ? null : rule
}

/** @returns the steps that were deleted */
async function dropOf(db: Database, drop: Drop): Promise<readonly number[]> {
  const gone = await stepsOf(db, drop)
  await deleteCheckpointRows(db, drop.modelId, gone)
  return gone
}

/**
 * The steps of a model that a rule deletes as things stand.
 *
 * @param next a step that is to come, of which nothing is measured yet; default none
 */
export async function stepsToDrop(
  db: Database,
  modelId: string,
  text: string,
  next?: number,
): Promise<readonly number[]> {
  const rule = readRule(text)
  if (rule === null) return []
  return await stepsOf(db, { modelId, rule, next, adapters: namedAdapters(await listUnfinishedJobs(db, null)) })
}

interface Drop {
  readonly modelId: string
  readonly rule: KeepRule
  readonly next?: number | undefined
  /** What unfinished jobs of any model are compared with. */
  readonly adapters: readonly NamedAdapter[]
}

async function stepsOf(db: Database, { modelId, rule, next, adapters }: Drop): Promise<readonly number[]> {
  const there = await measuredSteps(db, modelId)
  const steps = [...there, ...(next === undefined ? [] : [{ step: next, metrics: {} }])]
  const kept = keptSteps(steps, rule)
  const named = await listNamedSteps(db, modelId)
  const isReferred = await referredSteps(db, modelId, { adapters, newest: there.at(-1)?.step ?? 0 })
  return steps.flatMap(({ step }) => (kept.has(step) || named.has(step) || isReferred(step) ? [] : [step]))
}

/** A step of a model of this name, in whichever of its entity's projects. */
interface NamedAdapter {
  readonly entity: string
  readonly name: string
  readonly step: number
}

function namedAdapters(jobs: readonly JobRecord[]): readonly NamedAdapter[] {
  return jobs.flatMap((job) => {
    const reference = referenceOfJob(job)
    if (reference?.kind !== 'adapter') return []
    // [entity/][project/]name:step3, or :v3
    const [path = '', step = ''] = reference.address.split(':').slice(-2)
    return [{ entity: job.entity, name: path.split('/').at(-1) ?? '', step: Number(step.replace(/^\D+/, '')) }]
  })
}

/** Which steps of a model unfinished jobs are compared with, or may be once they begin. */
async function referredSteps(
  db: Database,
  modelId: string,
  { adapters, newest }: Pick<Drop, 'adapters'> & { readonly newest: number },
): Promise<(step: number) => boolean> {
  const jobs = await listUnfinishedJobs(db, modelId)
  const model = await findModel(db, modelId)
  const named = adapters.filter(({ entity, name }) => entity === model?.entity && name === model.name)
  const steps = new Set(named.map(({ step }) => step))
  let from = Number.POSITIVE_INFINITY
  for (const job of jobs) {
    const reference = referenceOfJob(job)
    if (reference?.kind === 'step') steps.add(reference.step)
    // one that waits, or is tried again, begins at the newest step that there is by then
    else if (reference?.kind === 'lag')
      from = Math.min(from, Math.min(job.parentStep ?? newest, newest) - reference.lag)
  }
  return (step) => step >= from || steps.has(step)
}

/** All of them, ascending. */
async function measuredSteps(db: Database, modelId: string): Promise<readonly MeasuredStep[]> {
  const steps: MeasuredStep[] = []
  for (let after: string | undefined; ; ) {
    const { items, hasMore } = await listCheckpoints(db, modelId, { after, limit: 500, order: 'asc' })
    for (const { step, metrics } of items) steps.push({ step, metrics })
    after = items.at(-1)?.id
    if (!hasMore) return steps
  }
}

/** Steps of a sentence. */
const NAMED_STEPS = 10

/** What a plan says of the steps that go once its job has ended; empty where none does. */
export async function keepWarnings(
  { db, keepRule }: { readonly db: DatabaseHandle; readonly keepRule: string },
  { id, step }: { readonly id: string; readonly step: number },
): Promise<readonly string[]> {
  const own = await findKeepRule(db, id)
  const rule = own ?? keepRule
  const gone = await stepsToDrop(db, id, rule, step + 1)
  if (gone.length === 0) return []
  const more = gone.length > NAMED_STEPS ? ` and ${gone.length - NAMED_STEPS} more` : ''
  const steps = `${gone.length === 1 ? 'step' : 'steps'} ${gone.slice(0, NAMED_STEPS).join(', ')}${more}`
  return [`the ${own === null ? "server's" : "model's"} rule "${rule}" deletes ${steps} when this job has ended`]
}
