/**
 * A fine-tuning job that is created: its files are counted, its base model or model is found, and its training job is stored
 * with the row that keeps its request, once for a request that is repeated.
 */
import type { JsonObject } from '#base/util/json.js'
import { countPreferenceExamples } from '#formats/rows/examples/preference-example.js'
import { countSftExamples } from '#formats/rows/examples/sft-example.js'
import { digestOf } from '#service/operations/access/request-digest.js'
import { ownerOf } from '#service/operations/access/tenant.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import { resolvePolicy } from '#service/operations/generation/chat/served-models.js'
import type { ModelService } from '#service/operations/models/models.js'
import type { CreateHeaders, TrainingJobService } from '#service/operations/training/training-jobs.js'
import { rememberIdempotent } from '#service/storage/idempotency.js'
import { findJob } from '#service/storage/training-jobs.js'
import { findRepeated, modelOf, requireRows } from './create-parts.js'
import { toFineTuningId } from './fine-tuning-id.js'
import { chooseHyperparameters } from './hyperparameters.js'
import type { JobView } from './job-view.js'
import { type FineTuningRecord, fineTuningJobs, insertFineTuningJob } from './storage/jobs.js'
import { type CreateFineTuningJobRequest, type FineTuningJob, JOB_KIND_OF_METHOD, type RowMethod } from './wire.js'

/** What a job is created with. */
export interface JobParts {
  readonly context: Pick<ServiceContext, 'db' | 'blobs' | 'ids' | 'baseModels' | 'modelFacts'>
  readonly models: Pick<ModelService, 'draft'>
  readonly trainingJobs: Pick<TrainingJobService, 'create'>
  readonly view: JobView
}

const FOUND = { byId: fineTuningJobs.find, byDigest: fineTuningJobs.findByDigest }

/** Creates a job; one that was created by the same request before is that one. */
export async function createJob(
  { context, models, trainingJobs, view }: JobParts,
  principal: Principal,
  {
    request,
    method,
    headers,
  }: {
    readonly request: CreateFineTuningJobRequest
    readonly method: RowMethod
    readonly headers: CreateHeaders
  },
): Promise<FineTuningJob> {
  const { db } = context
  const count = method === 'supervised' ? countSftExamples : countPreferenceExamples
  const key = headers.idempotencyKey
  const requestDigest = digestOf([request as JsonObject])
  const scope = key === null ? null : { ...ownerOf(principal), scope: 'fine-tuning-jobs' as const, key }
  const before = await findRepeated(db, principal, { scope, requestDigest, isRetry: headers.isRetry }, FOUND)
  if (before !== null) return view.toWire(before, await findJob(db, before.jobId))
  const countRows = async (field: 'training_file' | 'validation_file', id: string): Promise<number> =>
    count(await context.blobs.openRead((await requireRows(context, principal, { field, id })).sha256))
  const exampleCount = await countRows('training_file', request.training_file)
  if (request.validation_file !== null && request.validation_file !== undefined) {
    await countRows('validation_file', request.validation_file)
  }
  const { model, baseModel } = await resolvePolicy(context, principal, request.model)
  const parameters = await context.modelFacts.parametersOf(baseModel)
  const chosen = chooseHyperparameters(request, method, { parameters, exampleCount })
  const trained = model ?? (await models.draft(principal, modelOf(principal, request, baseModel)))
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
          const first = await findRepeated(transaction, principal, { scope, requestDigest, isRetry: false }, FOUND)
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

/** Rolls back the transaction of a create that another one came before. */
class RepeatedCreate extends Error {
  readonly first: FineTuningRecord
  constructor(first: FineTuningRecord) {
    super('the request was repeated')
    this.first = first
  }
}
