/**
 * Submitting, reading, following and cancelling training jobs.
 */
import { createHash } from 'node:crypto'
import { isTerminalEvent } from '#api/wire/job-words.js'
import { DEFAULT_PAGE_LIMIT, type List, MAX_PAGE_LIMIT, type PageQuery, toList } from '#api/wire/list.js'
import { assertNoUnusedOptions, assertSupportedOptions } from '#api/wire/option-notes.js'
import type {
  CreateDpoJobRequest,
  CreateSftJobRequest,
  ListTrainingJobsQuery,
  TrainingEvent,
  TrainingJob,
} from '#api/wire/training-jobs.js'
import { AppError, NotFoundError } from '#base/errors.js'
import { type JsonObject, withoutNulls } from '#base/util/json.js'
import type { ReceivedGroups } from '#service/bodies/body-store.js'
import { requestCancel } from '#service/queue/outcome.js'
import { createJob } from '#service/queue/queue.js'
import { listEvents } from '#service/storage/events.js'
import { findJob, type JobRecord, listJobs, type NewJob } from '#service/storage/training-jobs.js'
import { countPreferenceExamples } from '#training/data/examples/preference-example.js'
import { countSftExamples } from '#training/data/examples/sft-example.js'
import { assertLearningRateCount, sftBatchCount } from '#training/data/sft-data.js'
import {
  assertValidationOptions,
  resolveDpoConfig,
  resolveRlConfig,
  resolveSftConfig,
} from '#training/hyperparameters.js'
import { isOwn } from '../access/tenant.js'
import type { Principal, ServiceContext } from '../context.js'
import { requireModel } from '../models.js'
import { toWireEvent, toWireJob } from '../to-wire.js'
import { assertAdapterShape } from './adapter-shape.js'
import { dataWarnings } from './data-warnings.js'
import { assertKlReference, assertReferenceStep } from './kl-reference.js'
import { createQueueForecast } from './queue-forecast.js'
import { rewardWarnings } from './reward-warnings.js'
import { type DataAddress, resolveTrainingData } from './training-data.js'
import { checkPolicyVersions, withGroups } from './trajectory-groups.js'

/** Headers that decide whether a create is a repetition. */
export interface CreateHeaders {
  readonly idempotencyKey: string | null
  /** `x-stainless-retry-count` above 0. */
  readonly isRetry: boolean
}

export interface TrainingJobService {
  /** Takes the groups over, also when it fails. */
  createRl(principal: Principal, groups: ReceivedGroups<'createRlJob'>, headers: CreateHeaders): Promise<TrainingJob>
  createSft(principal: Principal, request: CreateSftJobRequest, headers: CreateHeaders): Promise<TrainingJob>
  createDpo(principal: Principal, request: CreateDpoJobRequest, headers: CreateHeaders): Promise<TrainingJob>
  get(principal: Principal, id: string): Promise<TrainingJob>
  list(principal: Principal, query: ListTrainingJobsQuery): Promise<List<TrainingJob>>
  cancel(principal: Principal, id: string): Promise<TrainingJob>
  events(principal: Principal, id: string, query: PageQuery): Promise<List<TrainingEvent>>
  /** Events after `after` as they happen; ends after the terminal one or when `signal` aborts. */
  follow(principal: Principal, id: string, after: string | undefined, signal: AbortSignal): AsyncIterable<TrainingEvent>
}

/** Checks every row of some kind of data and says how many there are. */
type CountRows = (source: AsyncIterable<Uint8Array>) => Promise<number>

/** Longest wait for a notice before the events are read anyway. */
const FOLLOW_POLL_MS = 500

export function createTrainingJobService(context: ServiceContext): TrainingJobService {
  const { db, ids, blobs, signals } = context
  const forecast = createQueueForecast(db, context.trainWorkers, context.clock)

  async function requireJob(principal: Principal, id: string): Promise<JobRecord> {
    const job = await findJob(db, id)
    if (job === null || !isOwn(principal, job)) {
      throw new NotFoundError('training_job_not_found', `training job "${id.slice(0, 100)}" was not found`)
    }
    return job
  }

  /** Stores the rows a job trains and is measured on, and checks every one of them. */
  async function receiveRows(
    principal: Principal,
    { training_data_url: url, validation_data_url: validationUrl = null }: CreateDpoJobRequest,
    count: CountRows,
  ): Promise<Pick<NewJob, 'inputSha256' | 'validationSha256' | 'sourceUrl'> & { readonly exampleCount: number }> {
    const resolve = (address: DataAddress) => resolveTrainingData(context, principal, address)
    const inputSha256 = await resolve({ field: 'training_data_url', url })
    const validationSha256 =
      validationUrl === null ? null : await resolve({ field: 'validation_data_url', url: validationUrl })
    if (validationSha256 !== null) await checkRows('validation_data_url', validationSha256, count)
    return {
      inputSha256,
      validationSha256,
      // a data: address is the rows themselves, and those are stored already
      sourceUrl: url.startsWith('data:') ? null : url,
      exampleCount: await checkRows('training_data_url', inputSha256, count),
    }
  }

  /** @returns how many rows; an error about validation rows says that they are meant */
  async function checkRows(field: DataAddress['field'], sha256: string, count: CountRows): Promise<number> {
    try {
      return await count(await blobs.openRead(sha256))
    } catch (cause) {
      if (field === 'training_data_url' || !(cause instanceof AppError)) throw cause
      const { category, code, message, hint, details } = cause
      throw new AppError(category, code, `${field}: ${message}`, { cause, hint, details })
    }
  }

  async function submit(job: Omit<NewJob, 'id' | 'requestDigest'>, headers: CreateHeaders): Promise<TrainingJob> {
    const identity = JSON.stringify([
      job.kind,
      job.modelId,
      job.inputSha256,
      job.config,
      ...(job.validationSha256 === null ? [] : [job.validationSha256]),
    ])
    const requestDigest = createHash('sha256').update(identity).digest('hex')
    const created = await createJob(
      db,
      { ...job, id: ids.uuid(), requestDigest },
      { ...headers, maxUnfinished: context.maxQueuedJobs },
    )
    if (created.isNew) context.dispatcher.wake()
    return toWireJob(created.job, [], await forecast.placeOf(created.job))
  }

  async function* follow(
    principal: Principal,
    id: string,
    after: string | undefined,
    signal: AbortSignal,
  ): AsyncGenerator<TrainingEvent> {
    await requireJob(principal, id)
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

  return {
    follow,
    createRl: async (principal, groups, headers) => {
      const { request } = groups
      return withGroups(blobs, groups, async (publish) => {
        const model = await requireModel(context, principal, request.model_id)
        const config = withoutNulls(request.experimental_config ?? {})
        const hyperparameters = resolveRlConfig(config)
        assertSupportedOptions('rl', config)
        if (request.strict === true) assertNoUnusedOptions('rl', config)
        await assertAdapterShape(context, model, hyperparameters.lora)
        await assertKlReference(context, principal, model, hyperparameters)
        checkPolicyVersions(groups, model.step)
        const input = await publish()
        return submit(
          {
            entity: principal.entity,
            project: model.project,
            usageProject: principal.usageProject,
            modelId: model.id,
            kind: 'rl',
            config,
            inputSha256: input.sha256,
            sourceUrl: null,
            validationSha256: null,
          },
          headers,
        )
      })
    },
    createSft: async (principal, request, headers) => {
      const model = await requireModel(context, principal, request.model_id)
      const experimental = withoutNulls(request.experimental_config ?? {})
      const config: JsonObject = {
        ...withoutNulls(request.config ?? {}),
        ...(Object.keys(experimental).length > 0 ? { experimental_config: experimental } : {}),
      }
      const hyperparameters = resolveSftConfig(config)
      assertSupportedOptions('sft', config)
      if (request.strict === true) assertNoUnusedOptions('sft', config)
      await assertAdapterShape(context, model, hyperparameters.lora)
      assertValidationOptions(config, (request.validation_data_url ?? null) !== null)
      const { exampleCount, ...rows } = await receiveRows(principal, request, countSftExamples)
      assertLearningRateCount(
        hyperparameters.learningRate,
        sftBatchCount(exampleCount, hyperparameters.batchSize) * hyperparameters.epochs,
      )
      return submit(
        {
          entity: principal.entity,
          project: model.project,
          usageProject: principal.usageProject,
          modelId: model.id,
          kind: 'sft',
          config,
          ...rows,
        },
        headers,
      )
    },
    createDpo: async (principal, request, headers) => {
      const model = await requireModel(context, principal, request.model_id)
      const config = withoutNulls(request.config ?? {})
      const hyperparameters = resolveDpoConfig(config)
      assertSupportedOptions('dpo', config)
      if (request.strict === true) assertNoUnusedOptions('dpo', config)
      await assertAdapterShape(context, model, hyperparameters.lora)
      assertValidationOptions(config, (request.validation_data_url ?? null) !== null)
      await assertReferenceStep(context, model, hyperparameters.referenceStep)
      const { exampleCount: _, ...rows } = await receiveRows(principal, request, countPreferenceExamples)
      return submit(
        {
          entity: principal.entity,
          project: model.project,
          usageProject: principal.usageProject,
          modelId: model.id,
          kind: 'dpo',
          config,
          ...rows,
        },
        headers,
      )
    },
    get: async (principal, id) => {
      const job = await requireJob(principal, id)
      const [first] = (await listEvents(db, id, { limit: 1 })).items
      const aboutData = first?.type === 'training_started' ? dataWarnings(first.data) : []
      const warnings = [...aboutData, ...(await rewardWarnings(db, job))]
      return toWireJob(job, warnings, await forecast.placeOf(job))
    },
    list: async (principal, query) => {
      const page = await listJobs(db, {
        entity: principal.entity,
        project: principal.project ?? undefined,
        modelId: query.model_id,
        status: query.status,
        after: query.after,
        limit: query.limit ?? DEFAULT_PAGE_LIMIT,
      })
      const jobs = page.items.map(async (job) => toWireJob(job, [], await forecast.placeOf(job)))
      return toList(await Promise.all(jobs), page.hasMore)
    },
    cancel: async (principal, id) => {
      await requireJob(principal, id)
      const job = await requestCancel(db, ids, id)
      signals.notify(id)
      context.dispatcher.wake()
      return toWireJob(job)
    },
    events: async (principal, id, query) => {
      await requireJob(principal, id)
      const page = await listEvents(db, id, { after: query.after, limit: query.limit ?? DEFAULT_PAGE_LIMIT })
      return toList(page.items.map(toWireEvent), page.hasMore)
    },
  }
}
