/**
 * Submitting, reading, following and cancelling training jobs.
 */
import { createHash } from 'node:crypto'
import { stat } from 'node:fs/promises'
import { NotFoundError } from '#base/errors/errors.js'
import type { Course, JobNumbers } from '#contract/jobs/diagnosis/course.js'
import { diagnoseCourse, sayFinding } from '#contract/jobs/diagnosis/diagnose.js'
import type { CommonOptions } from '#contract/jobs/shared-options.js'
import type { WorkerJob } from '#contract/processes/worker.js'
import { isTerminalEvent, type JobKind } from '#contract/wire/job-words.js'
import { DEFAULT_PAGE_LIMIT, type List, MAX_PAGE_LIMIT, type PageQuery, toList } from '#contract/wire/list.js'
import { jobReportSchema } from '#contract/wire/training/job-report.js'
import type { ListTrainingJobsQuery, TrainingEvent, TrainingJob } from '#contract/wire/training-jobs.js'
import { requestCancel, requestStop } from '#service/queue/outcome.js'
import { type CreateJobOptions, createJob, findRepeated } from '#service/queue/queue.js'
import { templateKwargsOf } from '#service/queue/template-kwargs.js'
import { findCheckpoint } from '#service/storage/checkpoints.js'
import type { Database } from '#service/storage/database.js'
import { listEvents } from '#service/storage/events.js'
import { findKeptData } from '#service/storage/jobs/kept-data.js'
import { findModel, type ModelRecord } from '#service/storage/models.js'
import { findJob, type JobRecord, listJobs, listJobsAndData, type NewJob } from '#service/storage/training-jobs.js'
import { checkEntity, checkProject, isOwn } from '../access/tenant.js'
import type { Principal, ServiceContext } from '../context.js'
import { storeModel } from '../models/models.js'
import { toKeptFacts, toListed, toWireEvent, toWireJob } from '../to-wire.js'
import { dataWarnings } from './data-warnings.js'
import { type CheckedJob, type JobRequestContext, type JobRequests, withCheckedJob } from './job-requests.js'
import { createQueueForecast } from './queue-forecast.js'

/**
 * The least memory that training on a base model takes: its weights alone, as a job computes with them.
 */
const BYTES: Readonly<Record<CommonOptions['precision'], number>> = { f32: 4, bf16: 2, int8: 1 }

/**
 * @param parameters of the base model; null where nobody knows
 * @param precision as the job resolved it
 * @returns bytes; null where nobody knows
 */
function weightBytesOf(parameters: number | null, precision: unknown): number | null {
  return parameters === null ? null : parameters * (BYTES[precision as CommonOptions['precision']] ?? BYTES.int8)
}

// What a job's numbers say beside those of the jobs before it of the same model. Sentences and thresholds:
// `contract/jobs/diagnosis/findings.ts`.

/** Jobs before it that are looked at. */
const MAX_EARLIER = 8

/** Sentences about the course that a model's training takes; none for a job that has not begun. */
async function courseWarnings(db: Database, job: JobRecord): Promise<string[]> {
  if (job.report === null || job.startedAtMs === null) return []
  const { items } = await listJobs(db, {
    entity: job.entity,
    modelId: job.modelId,
    status: 'completed',
    after: job.id,
    limit: MAX_EARLIER,
  })
  // a job of another kind begins a new course: its rewards and losses are of other data
  const other = items.findIndex(({ kind }) => kind !== job.kind)
  const earlier = items.slice(0, other === -1 ? items.length : other).reverse()
  const course: Course = {
    job: await numbersOf(db, job),
    earlier: await Promise.all(earlier.map((each) => numbersOf(db, each))),
  }
  return diagnoseCourse(course).map(sayFinding)
}

async function numbersOf(db: Database, job: JobRecord): Promise<JobNumbers> {
  const { modelId, step, gradientSteps, report, resolvedConfig } = job
  const checkpoint = step === null ? null : await findCheckpoint(db, modelId, step)
  const parsed = jobReportSchema.safeParse(report)
  return {
    step,
    gradientSteps,
    facts: parsed.success ? parsed.data.facts : {},
    metrics: checkpoint?.metrics ?? {},
    validation: parsed.success ? parsed.data.validation.map(({ loss }) => loss) : [],
    quoted: '',
    learningRate: numberOf(resolvedConfig?.['learning_rate']),
    advantageBalance: numberOf(resolvedConfig?.['advantage_balance']),
  }
}

function numberOf(value: unknown): number | null {
  return typeof value === 'number' ? value : null
}

/** Headers that decide whether a create is a repetition. */
export interface CreateHeaders {
  readonly idempotencyKey: string | null
  /** `x-stainless-retry-count` above 0. */
  readonly isRetry: boolean
  /** For callers inside the server: the job's model, if it is stored with the job, all or nothing. */
  readonly newModel?: ModelRecord | undefined
  /** For callers inside the server: what is stored with a new job, all or nothing. */
  readonly also?: CreateJobOptions['also']
}

export interface TrainingJobService {
  create<K extends JobKind>(
    kind: K,
    principal: Principal,
    request: JobRequests[K],
    headers: CreateHeaders,
  ): Promise<TrainingJob>
  get(principal: Principal, id: string): Promise<TrainingJob>
  list(principal: Principal, query: ListTrainingJobsQuery): Promise<List<TrainingJob>>
  cancel(principal: Principal, id: string): Promise<TrainingJob>
  /** Ends it after its gradient step, with a checkpoint. */
  stop(principal: Principal, id: string): Promise<TrainingJob>
  events(principal: Principal, id: string, query: PageQuery): Promise<List<TrainingEvent>>
  /** Events after `after` as they happen; ends after the terminal one or when `signal` aborts. */
  follow(principal: Principal, id: string, after: string | undefined, signal: AbortSignal): AsyncIterable<TrainingEvent>
}

/** Longest wait for a notice before the events are read anyway. */
const FOLLOW_POLL_MS = 500

/** What it works with. */
type Context = JobRequestContext &
  Pick<
    ServiceContext,
    'ids' | 'clock' | 'planner' | 'signals' | 'dispatcher' | 'trainWorkers' | 'maxQueuedJobs' | 'keepTrainingDataMs'
  >

export function createTrainingJobService(context: Context): TrainingJobService {
  const { db, ids, signals } = context
  const forecast = createQueueForecast(
    db,
    () => context.trainWorkers + context.dispatcher.remoteWorkers().length,
    context.clock,
  )

  async function whyUnclaimable(job: JobRecord): Promise<string | null> {
    return context.dispatcher.whyUnclaimable(job, (await findModel(db, job.modelId))?.baseModel ?? null)
  }

  async function requireJob(principal: Principal, id: string): Promise<JobRecord> {
    const job = await findJob(db, id)
    if (job === null || !isOwn(principal, job)) {
      throw new NotFoundError('training_job_not_found', `training job "${id.slice(0, 100)}" was not found`)
    }
    return job
  }

  return {
    follow: async function* (principal, id, after, signal) {
      await requireJob(principal, id)
      yield* followEvents(context, id, after, signal)
    },
    create: async (kind, principal, request, headers) => {
      const asked = { context, principal, newModel: headers.newModel }
      return await withCheckedJob(kind, asked, request, async (checked) => {
        const { job, warnings } = await submit(context, principal, checked, headers)
        return toWireJob(job, warnings, await forecast.placeOf(job))
      })
    },
    get: async (principal, id) => {
      const job = await requireJob(principal, id)
      const [first] = (await listEvents(db, id, { limit: 1 })).items
      const aboutData = first?.type === 'training_started' ? dataWarnings(job.kind, first.data) : []
      const nobody = job.status === 'queued' ? await whyUnclaimable(job) : null
      const warnings = [...aboutData, ...(await courseWarnings(db, job)), ...(nobody === null ? [] : [nobody])]
      const kept = (await findKeptData(db, [job.id])).get(job.id)
      return toWireJob(job, warnings, await forecast.placeOf(job), toKeptFacts(kept, context.keepTrainingDataMs))
    },
    list: async (principal, query) => {
      const page = await listJobsAndData(db, {
        entity: checkEntity(principal, query.entity ?? ''),
        project: checkProject(principal, query.project),
        modelId: query.model_id,
        status: query.status,
        kind: query.kind,
        after: query.after,
        limit: query.limit ?? DEFAULT_PAGE_LIMIT,
      })
      const jobs = page.items.map(async ({ job, kept }) =>
        toWireJob(toListed(job), [], await forecast.placeOf(job), toKeptFacts(kept, context.keepTrainingDataMs)),
      )
      return toList(await Promise.all(jobs), page.hasMore)
    },
    cancel: async (principal, id) => {
      await requireJob(principal, id)
      const job = await requestCancel(db, ids, id)
      signals.notify(id)
      context.dispatcher.wake()
      return toWireJob(job)
    },
    stop: async (principal, id) => {
      await requireJob(principal, id)
      const job = await requestStop(db, id)
      signals.notify(id)
      return toWireJob(job)
    },
    events: async (principal, id, query) => {
      await requireJob(principal, id)
      const page = await listEvents(db, id, { after: query.after, limit: query.limit ?? DEFAULT_PAGE_LIMIT })
      return toList(page.items.map(toWireEvent), page.hasMore)
    },
  }
}

/** What a chat template refuses is said here: a job would leave it out, or end with it. */
async function checkRendering(
  { db, baseModels, planner }: Context,
  { keyId }: Principal,
  { kind, model, resolvedConfig, files, isRendered }: CheckedJob,
): Promise<readonly string[]> {
  const base = baseModels.find((entry) => entry.name === model.baseModel)
  if (!isRendered || base === undefined || (await stat(base.sourcePath).catch(() => null)) === null) return []
  const templateKwargs = templateKwargsOf(resolvedConfig, await findCheckpoint(db, model.id, model.step))
  return await planner.checkRows(keyId, {
    job: {
      kind,
      config: { ...resolvedConfig } as WorkerJob['config'],
      base_model: { name: base.name },
      template_kwargs: templateKwargs as WorkerJob['config'],
    },
    sourcePath: base.sourcePath,
    ...files,
  })
}

/** Stores it, or finds the one that it repeats. */
async function submit(
  context: Context,
  principal: Principal,
  checked: CheckedJob,
  headers: CreateHeaders,
): Promise<{ readonly job: JobRecord; readonly warnings: readonly string[] }> {
  const { db, ids, signals } = context
  const { kind, model, config, resolvedConfig, baseParameters, store } = checked
  const { newModel } = headers
  const job: Omit<NewJob, 'id' | 'requestDigest'> = {
    entity: principal.entity,
    project: model.project,
    usageProject: principal.usageProject,
    modelId: model.id,
    kind,
    config,
    resolvedConfig,
    baseParameters,
    weightBytes: weightBytesOf(baseParameters, resolvedConfig['precision']),
    ...(await store()),
    keepsData: context.keepTrainingDataMs > 0,
  }
  const identity = JSON.stringify([
    job.kind,
    job.modelId,
    job.inputSha256,
    job.config,
    ...(job.validationSha256 === null ? [] : [job.validationSha256]),
  ])
  const requestDigest = createHash('sha256').update(identity).digest('hex')
  const row = { ...job, id: ids.uuid(), requestDigest }
  const options: CreateJobOptions = {
    ...headers,
    keyProject: principal.project,
    maxUnfinished: context.maxQueuedJobs,
    ...(newModel === undefined ? {} : { before: (transaction) => storeModel(context, transaction, newModel) }),
  }
  // what is sent again is answered at once
  const isRepeated = (await findRepeated(db, row, options)) !== null
  const warnings = isRepeated ? [] : await checkRendering(context, principal, checked)
  const created = await createJob(db, row, options)
  if (created.isNew) {
    signals.notify(created.job.id)
    context.dispatcher.wake()
  }
  return { job: created.job, warnings }
}

async function* followEvents(
  { db, signals }: Context,
  id: string,
  after: string | undefined,
  signal: AbortSignal,
): AsyncGenerator<TrainingEvent> {
  let cursor = after
  while (!signal.aborted) {
    const page = await listEvents(db, id, { after: cursor, limit: MAX_PAGE_LIMIT })
    for (const event of page.items) {
      cursor = event.id
      yield toWireEvent(event)
      if (isTerminalEvent(event.type)) return
    }
    if (page.hasMore) continue
    // a cursor at or behind the terminal event: nothing will ever follow
    const job = await findJob(db, id)
    if (page.items.length === 0 && job !== null && job.endedAtMs !== null) return
    await signals.wait(id, FOLLOW_POLL_MS, signal)
  }
}
