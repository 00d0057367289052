/**
 * A fine-tuning job that is created: its files are counted, its base model or model is found, and its training job is stored with the row
 * that keeps its request, once for a request that is repeated.
 */
import { randomBytes } from 'node:crypto'
import { InvalidRequestError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import { MAX_METADATA } from '#contract/wire/compatible/metadata.js'
import { countPreferenceExamples } from '#formats/rows/examples/preference-example.js'
import { countSftExamples } from '#formats/rows/examples/sft-example.js'
import { digestOf } from '#service/operations/access/request-digest.js'
import { ownerOf } from '#service/operations/access/tenant.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import { resolvePolicy } from '#service/operations/generation/chat/served-models.js'
import type { ModelService } from '#service/operations/models/models.js'
import type { CreateHeaders, TrainingJobService } from '#service/operations/training/training-jobs.js'
import type { Database } from '#service/storage/database.js'
import { findFile } from '#service/storage/files.js'
import { findIdempotent, type IdempotencyScope, rememberIdempotent } from '#service/storage/idempotency.js'
import type { ModelRecord } from '#service/storage/models.js'
import { findJob } from '#service/storage/training-jobs.js'
import { chooseHyperparameters, methodOf } from './hyperparameters.js'
import type { JobView } from './job-view.js'
import {
  type FineTuningRecord,
  findFineTuningByDigest,
  findFineTuningJob,
  insertFineTuningJob,
} from './storage/jobs.js'
import { toFineTuningId } from './to-openai.js'
import { type CreateFineTuningJobRequest, type FineTuningJob, JOB_KIND_OF_METHOD } from './wire.js'

/** What a job is created with. */
export interface JobParts {
  readonly context: Pick<ServiceContext, 'db' | 'blobs' | 'ids' | 'baseModels' | 'modelFacts'>
  readonly models: Pick<ModelService, 'draft'>
  readonly trainingJobs: Pick<TrainingJobService, 'create'>
  readonly view: JobView
}

/** Project of models made for keys that belong to none. */
const DEFAULT_PROJECT = 'fine-tuning'
/** A create the client says it repeats is the same one within this time. */
const RETRY_WINDOW_MS = 30 * 60_000

/** Creates a job; one that was created by the same request before is that one. */
export async function createJob(
  { context, models, trainingJobs, view }: JobParts,
  principal: Principal,
  { request, headers }: { readonly request: CreateFineTuningJobRequest; readonly headers: CreateHeaders },
): Promise<FineTuningJob> {
  const { db } = context
  assertSupported(request)
  const method = methodOf(request)
  const count = method === 'supervised' ? countSftExamples : countPreferenceExamples
  const key = headers.idempotencyKey
  const requestDigest = digestOf([request as JsonObject])
  const scope = key === null ? null : { ...ownerOf(principal), scope: 'fine-tuning-jobs' as const, key }
  const before = await findRepeated(db, principal, { scope, requestDigest, isRetry: headers.isRetry })
  if (before !== null) return view.toWire(before, await findJob(db, before.jobId))
  const exampleCount = await countExamples(context, principal, {
    field: 'training_file',
    id: request.training_file,
    count,
  })
  if (request.validation_file !== null && request.validation_file !== undefined) {
    await countExamples(context, principal, { field: 'validation_file', id: request.validation_file, count })
  }
  const { model, baseModel } = await resolvePolicy(context, principal, request.model)
  const parameters = await context.modelFacts.parametersOf(baseModel)
  const chosen = chooseHyperparameters(request, { parameters, exampleCount })
  const trained = model ?? (await draftModel(models, principal, { request, baseModel }))
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
    return await view.get(principal, toFineTuningId(job.id))
  } catch (error) {
    // the same request came twice at once, and this is the second
    if (error instanceof RepeatedCreate) return view.toWire(error.first, await findJob(db, error.first.jobId))
    throw error
  }
}

/** How many examples a file has, which are checked. */
async function countExamples(
  { db, blobs }: Pick<ServiceContext, 'db' | 'blobs'>,
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
  return count(await blobs.openRead(file.sha256))
}

/** The model that a job of a base model makes. */
async function draftModel(
  models: Pick<ModelService, 'draft'>,
  principal: Principal,
  { request, baseModel }: { readonly request: CreateFineTuningJobRequest; readonly baseModel: string },
): Promise<ModelRecord> {
  const part = (request.suffix ?? baseModel.split('/').at(-1) ?? 'model').replaceAll(/[^\p{L}\p{N}._-]+/gu, '-')
  return models.draft(principal, {
    project: principal.project ?? principal.usageProject ?? DEFAULT_PROJECT,
    name: `${part}-${randomBytes(4).toString('hex')}`,
    base_model: baseModel,
    return_existing: false,
  })
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
