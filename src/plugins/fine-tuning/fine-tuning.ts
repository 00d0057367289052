/**
 * OpenAI's fine-tuning API: each job is an ordinary SFT or preference job of an ordinary model, and a row that keeps
 * OpenAI's fields of the request, to be shown again.
 */

import { randomBytes } from 'node:crypto'
import { setImmediate as othersTurn } from 'node:timers/promises'
import { AppError, InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import { MAX_METADATA } from '#contract/wire/compatible/metadata.js'
import { DEFAULT_PAGE_LIMIT, type List, toList } from '#contract/wire/list.js'
import { countPreferenceExamples } from '#formats/rows/examples/preference-example.js'
import { countSftExamples } from '#formats/rows/examples/sft-example.js'
import { digestOf } from '#service/operations/access/request-digest.js'
import { ownerOf } from '#service/operations/access/tenant.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import { resolvePolicy } from '#service/operations/generation/chat/served-models.js'
import type { ModelService } from '#service/operations/models/models.js'
import type { CreateHeaders, TrainingJobService } from '#service/operations/training/training-jobs.js'
import { findCheckpoint } from '#service/storage/checkpoints.js'
import type { Database } from '#service/storage/database.js'
import { listEvents } from '#service/storage/events.js'
import { findFile } from '#service/storage/files.js'
import { findIdempotent, type IdempotencyScope, rememberIdempotent } from '#service/storage/idempotency.js'
import type { ModelRecord } from '#service/storage/models.js'
import { unknownCursor } from '#service/storage/paging.js'
import { findJob, findJobs, type JobRecord } from '#service/storage/training-jobs.js'
import { chooseHyperparameters, methodOf } from './hyperparameters.js'
import {
  type FineTuningRecord,
  findFineTuningByDigest,
  findFineTuningJob,
  insertFineTuningJob,
  listFineTuningJobs,
  setTrainedTokens,
} from './storage/jobs.js'
import {
  fromFineTuningId,
  toFineTuningCheckpoint,
  toFineTuningEvent,
  toFineTuningId,
  toFineTuningJob,
} from './to-openai.js'
import {
  type CreateFineTuningJobRequest,
  type FineTuningCheckpoint,
  type FineTuningEvent,
  type FineTuningJob,
  type FineTuningPageQuery,
  JOB_KIND_OF_METHOD,
} from './wire.js'

interface FineTuningService {
  create(principal: Principal, request: CreateFineTuningJobRequest, headers: CreateHeaders): Promise<FineTuningJob>
  get(principal: Principal, id: string): Promise<FineTuningJob>
  list(principal: Principal, query: FineTuningPageQuery): Promise<List<FineTuningJob>>
  cancel(principal: Principal, id: string): Promise<FineTuningJob>
  /** Newest first. */
  events(principal: Principal, id: string, query: FineTuningPageQuery): Promise<List<FineTuningEvent>>
  checkpoints(principal: Principal, id: string, query: FineTuningPageQuery): Promise<List<FineTuningCheckpoint>>
}

/** Project of models made for keys that belong to none. */
const DEFAULT_PROJECT = 'fine-tuning'
/** A create the client says it repeats is the same one within this time. */
const RETRY_WINDOW_MS = 30 * 60_000
/** Jobs read at once while some with certain metadata are looked for. */
const METADATA_PAGE = 100
const EVENT_PREFIX = 'ftevent-'

export function createFineTuningService(
  context: Pick<ServiceContext, 'db' | 'blobs' | 'ids' | 'clock' | 'baseModels' | 'modelFacts'>,
  { models, trainingJobs }: { readonly models: ModelService; readonly trainingJobs: TrainingJobService },
): FineTuningService {
  const { db } = context

  async function create(
    principal: Principal,
    request: CreateFineTuningJobRequest,
    headers: CreateHeaders,
  ): Promise<FineTuningJob> {
    assertSupported(request)
    const method = methodOf(request)
    const count = method === 'supervised' ? countSftExamples : countPreferenceExamples
    const key = headers.idempotencyKey
    const requestDigest = digestOf([request as JsonObject])
    const scope = key === null ? null : { ...ownerOf(principal), scope: 'fine-tuning-jobs' as const, key }
    const before = await findRepeated(db, principal, { scope, requestDigest, isRetry: headers.isRetry })
    if (before !== null) return toWire(before, await findJob(db, before.jobId))
    const exampleCount = await countExamples(principal, { field: 'training_file', id: request.training_file, count })
    if (request.validation_file !== null && request.validation_file !== undefined) {
      await countExamples(principal, { field: 'validation_file', id: request.validation_file, count })
    }
    const { model, baseModel } = await resolvePolicy(context, principal, request.model)
    const parameters = await context.modelFacts.parametersOf(baseModel)
    const chosen = chooseHyperparameters(request, { parameters, exampleCount })
    const trained = model ?? (await draftModel(principal, request, baseModel))
    const newModel = model === null ? trained : undefined
    try {
      const job = await trainingJobs.create(
        JOB_KIND_OF_METHOD[method],
        principal,
        {
          model_id: trained.id,
          training_data_url: request.training_file,
          validation_data_url: request.validation_file ?? null,
          config: chosen.config as never,
        },
        {
          // repeated creates are told apart here: two of the same words are two jobs
          idempotencyKey: `fine-tuning ${context.ids.uuid()}`,
          isRetry: false,
          newModel,
          also: async (transaction, jobId) => {
            const first = await findRepeated(transaction, principal, { scope, requestDigest, isRetry: false })
            if (first !== null) throw new RepeatedCreate(first)
            if (scope !== null) await rememberIdempotent(transaction, scope, requestDigest, jobId)
            await insertFineTuningJob(transaction, {
              jobId,
              entity: trained.entity,
              project: trained.project,
              requestDigest,
              request: request as JsonObject,
              trainedName: `${trained.entity}/${trained.project}/${trained.name}`,
              hyperparameters: chosen.shown,
            })
          },
        },
      )
      return await get(principal, toFineTuningId(job.id))
    } catch (error) {
      // the same request came twice at once, and this is the second
      if (error instanceof RepeatedCreate) return toWire(error.first, await findJob(db, error.first.jobId))
      throw error
    }
  }

  async function countExamples(
    principal: Principal,
    {
      field,
      id,
      count,
    }: {
      readonly field: 'training_file' | 'validation_file'
      readonly id: string
      readonly count: typeof countPreferenceExamples
    },
  ): Promise<number> {
    const file = await findFile(db, principal, { id })
    if (file === null) {
      throw new InvalidRequestError('file_not_found', `${field} "${id.slice(0, 100)}" was not found`, {
        param: field,
        hint: 'upload it with POST /v1/files and purpose fine-tune',
      })
    }
    if (file.purpose !== 'fine-tune') {
      throw new InvalidRequestError(
        'invalid_file_purpose',
        `${field} must have the purpose "fine-tune", "${file.filename.slice(0, 100)}" has "${file.purpose}"`,
        { param: field },
      )
    }
    return count(await context.blobs.openRead(file.sha256))
  }

  async function draftModel(
    principal: Principal,
    request: CreateFineTuningJobRequest,
    baseModel: string,
  ): Promise<ModelRecord> {
    const part = (request.suffix ?? baseModel.split('/').at(-1) ?? 'model').replaceAll(/[^\p{L}\p{N}._-]+/gu, '-')
    return models.draft(principal, {
      project: principal.project ?? principal.usageProject ?? DEFAULT_PROJECT,
      name: `${part}-${randomBytes(4).toString('hex')}`,
      base_model: baseModel,
      return_existing: false,
    })
  }

  async function require(principal: Principal, id: string): Promise<{ record: FineTuningRecord; job: JobRecord }> {
    const jobId = fromFineTuningId(id)
    const record = await findFineTuningJob(db, principal, jobId)
    const job = record === null ? null : await findJob(db, jobId)
    if (record === null || job === null) {
      throw new NotFoundError('fine_tuning_job_not_found', `Could not find fine tune: ${id.slice(0, 100)}`, {
        param: 'fine_tuning_job_id',
      })
    }
    return { record, job }
  }

  /** The training job of the fine-tuning job after which a list goes on. */
  async function requireCursor(principal: Principal, after: string): Promise<string> {
    const jobId = fromFineTuningId(after)
    if ((await findFineTuningJob(db, principal, jobId)) === null) throw unknownCursor(after)
    return jobId
  }

  async function toWire(record: FineTuningRecord, job: JobRecord | null | undefined): Promise<FineTuningJob> {
    if (job === null || job === undefined)
      throw new AppError('internal', 'internal_error', 'a fine-tuning job has no training job')
    const isDone = job.status === 'completed' && record.trainedTokens === null
    const trainedTokens = isDone ? await countTrainedTokens(job.id) : record.trainedTokens
    return toFineTuningJob({ ...record, trainedTokens }, job, context.clock.nowMs())
  }

  /** Tokens the job trained on, over all its steps; counted once and remembered. */
  async function countTrainedTokens(jobId: string): Promise<number> {
    let total = 0
    let after: string | undefined
    for (;;) {
      const page = await listEvents(db, jobId, { after, limit: 1000 })
      for (const { data } of page.items) total += Number(data['num_trainable_tokens'] ?? 0)
      after = page.items.at(-1)?.id
      if (!page.hasMore) break
      await othersTurn()
    }
    await setTrainedTokens(db, jobId, total)
    return total
  }

  async function get(principal: Principal, id: string): Promise<FineTuningJob> {
    const { record, job } = await require(principal, id)
    return toWire(record, job)
  }

  return {
    create,
    get,
    list: async (principal, query) => {
      const wanted = metadataFilter(query)
      const limit = query.limit ?? DEFAULT_PAGE_LIMIT
      const found: FineTuningJob[] = []
      let after = query.after === undefined ? undefined : await requireCursor(principal, query.after)
      for (;;) {
        const page = await listFineTuningJobs(db, principal, { after, limit: wanted === null ? limit : METADATA_PAGE })
        const jobs = await findJobs(
          db,
          page.items.map(({ jobId }) => jobId),
        )
        for (const record of page.items) {
          if (wanted !== null && !wanted(record.request['metadata'])) continue
          if (found.length === limit) return toList(found, true)
          found.push(await toWire(record, jobs.get(record.jobId)))
        }
        after = page.items.at(-1)?.jobId
        if (!page.hasMore || wanted === null) return toList(found, page.hasMore)
        // metadata has no index
        await othersTurn()
      }
    },
    cancel: async (principal, id) => {
      const { job } = await require(principal, id)
      try {
        await trainingJobs.cancel(principal, job.id)
      } catch (error) {
        if (!(error instanceof AppError) || error.code !== 'job_already_finished') throw error
        // OpenAI answers 400 here, and its clients repeat a 409
        throw new InvalidRequestError('job_already_finished', `Job has already ${job.status}: ${id.slice(0, 100)}`)
      }
      return get(principal, id)
    },
    events: async (principal, id, query) => {
      const { record, job } = await require(principal, id)
      const page = await listEvents(db, job.id, {
        after: query.after?.startsWith(EVENT_PREFIX) === true ? query.after.slice(EVENT_PREFIX.length) : query.after,
        limit: query.limit ?? DEFAULT_PAGE_LIMIT,
        order: 'desc',
      })
      const events = page.items.map((event) => toFineTuningEvent(event, job, record.trainedName))
      return toList(events, page.hasMore)
    },
    checkpoints: async (principal, id, query) => {
      const { record, job } = await require(principal, id)
      const checkpoint = job.step === null ? null : await findCheckpoint(db, job.modelId, job.step)
      const all = checkpoint === null ? [] : [toFineTuningCheckpoint(checkpoint, job, record.trainedName)]
      const { after } = query
      if (after === undefined) return toList(all, false)
      if (all.every(({ id }) => id !== after)) throw unknownCursor(after)
      return toList<FineTuningCheckpoint>([], false)
    },
  }
}

/** Rolls back the transaction of a create that another one came before. */
class RepeatedCreate extends Error {
  readonly first: FineTuningRecord
  constructor(first: FineTuningRecord) {
    super('the request was repeated')
    this.first = first
  }
}

/**
 * The job this request made before: by its key, or by its words when the client says that it sends them again.
 *
 * @throws {ConflictError} `idempotency_key_reused`
 */
async function findRepeated(
  db: Database,
  principal: Principal,
  {
    scope,
    requestDigest,
    isRetry,
  }: { readonly scope: IdempotencyScope | null; readonly requestDigest: string; readonly isRetry: boolean },
): Promise<FineTuningRecord | null> {
  if (scope !== null) {
    const id = await findIdempotent(db, scope, requestDigest)
    return id === null ? null : findFineTuningJob(db, principal, id)
  }
  return isRetry ? findFineTuningByDigest(db, principal, { requestDigest, withinMs: RETRY_WINDOW_MS }) : null
}

/** @throws {InvalidRequestError} `unsupported_parameter` for what would have no effect */
function assertSupported(request: CreateFineTuningJobRequest): void {
  const unsupported = (param: string, hint: string) =>
    new InvalidRequestError('unsupported_parameter', `${param} is not supported here`, { param, hint })
  if ((request.integrations ?? []).length > 0) {
    throw unsupported('integrations', 'metrics are events of the job: GET /v1/fine_tuning/jobs/{id}/events')
  }
  if (Object.keys(request.metadata ?? {}).length > MAX_METADATA) {
    throw new InvalidRequestError('invalid_value', `metadata must have at most ${MAX_METADATA} keys`, {
      param: 'metadata',
    })
  }
}

/** OpenAI's `metadata[name]=value`, and `metadata=null` for jobs without any; null when neither is asked for. */
function metadataFilter(query: FineTuningPageQuery): ((metadata: unknown) => boolean) | null {
  const wanted = Object.entries(query).flatMap(([key, value]) => {
    const name = /^metadata\[(.*)\]$/.exec(key)?.[1]
    return name === undefined ? [] : [[name, value] as const]
  })
  const wantsNone = query['metadata'] === 'null'
  if (wanted.length === 0 && !wantsNone) return null
  return (metadata) => {
    const has = typeof metadata === 'object' && metadata !== null ? (metadata as Record<string, unknown>) : null
    if (wantsNone) return has === null
    return wanted.every(([name, value]) => has !== null && Object.hasOwn(has, name) && has[name] === value)
  }
}
