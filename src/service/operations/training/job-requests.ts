/**
 * Requests for training jobs, checked as far as the server can without the model's tokenizer: what creating a job and
 * planning one have in common.
 */

import { AppError } from '#base/errors/errors.js'
import { type JsonObject, withoutNulls } from '#base/util/json.js'
import type { JobKind } from '#contract/wire/job-words.js'
import { assertNoUnusedOptions, assertSupportedOptions } from '#contract/wire/option-notes.js'
import type { CreateDpoJobRequest, CreateSftJobRequest } from '#contract/wire/training-jobs.js'
import { countPreferenceExamples } from '#formats/rows/examples/preference-example.js'
import { countSftExamples, type RowOptions } from '#formats/rows/examples/sft-example.js'
import { createDataNotes, notesOfRows } from '#formats/rows/notes/data-notes.js'
import { assertLearningRateCount, sftBatchCount } from '#formats/rows/sft-data.js'
import type { ReceivedGroups } from '#service/bodies/body-store.js'
import type { ModelRecord } from '#service/storage/models.js'
import type { NewJob } from '#service/storage/training-jobs.js'
import {
  assertValidationOptions,
  resolveDpoConfig,
  resolveRlConfig,
  resolveSftConfig,
} from '#training/hyperparameters.js'
import { resolvedConfig } from '#training/resolved-config.js'
import type { Principal, ServiceContext } from '../context.js'
import { requireModel } from '../models/models.js'
import { assertAdapterShape } from './adapter-shape.js'
import { assertKlReference, assertReferenceStep } from './kl-reference.js'
import { type DataAddress, resolveTrainingData } from './training-data.js'
import { checkPolicyVersions, checkTokenIds } from './trajectory-groups.js'

/** A request that may become a job. */
export interface CheckedRequest {
  readonly kind: JobKind
  readonly model: ModelRecord
  /** As submitted, nulls removed. */
  readonly config: JsonObject
  /** Every option the job would run with. */
  readonly resolvedConfig: JsonObject
  /** Parameters of the base model; null where nobody knows them. */
  readonly baseParameters: number | null
}

/** The stored rows of a job, and what is worth saying of them. */
export type StoredRows = Pick<NewJob, 'inputSha256' | 'validationSha256' | 'sourceUrl' | 'dataNotes'>

/** Checks every row of some kind of data and says how many there are. */
type CountRows = (source: AsyncIterable<Uint8Array>, options: RowOptions) => Promise<number>

interface CheckedRows {
  readonly exampleCount: number
  readonly notes: readonly string[]
}

/** What the check of groups works with, and that of rows. */
type GroupsContext = Pick<ServiceContext, 'db' | 'blobs' | 'engines' | 'baseModels' | 'modelFacts'>
type RowsContext = Pick<ServiceContext, 'db' | 'blobs' | 'modelFacts' | 'trainingDataRoot' | 'remoteData'>
export type JobRequestContext = GroupsContext & RowsContext

/** Checks a request for an RL job. @throws {AppError} what is wrong with it */
export async function checkRlRequest(
  context: GroupsContext,
  principal: Principal,
  groups: ReceivedGroups<'POST /v1/preview/training-jobs'>,
): Promise<CheckedRequest> {
  const { request } = groups
  const model = await requireModel(context, principal, request.model_id)
  const config = withoutNulls(request.experimental_config ?? {})
  const hyperparameters = resolveRlConfig(config)
  assertSupportedOptions('rl', config)
  if (request.strict === true) assertNoUnusedOptions('rl', config)
  await assertAdapterShape(context, model, hyperparameters.lora)
  await assertKlReference(context, principal, model, hyperparameters)
  checkPolicyVersions(groups, model.step)
  const engine = context.engines.started().find(({ baseModel }) => baseModel === model.baseModel)
  checkTokenIds(groups, model.baseModel, engine?.loaded()?.vocabularySize)
  return await describeOptions(context, 'rl', model, config)
}

/** Checks a request for an SFT job, of a stored model or of a new one, and stores its rows. @throws {AppError} what is wrong with it */
export async function checkSftRequest(
  context: RowsContext,
  principal: Principal,
  request: CreateSftJobRequest,
  newModel?: ModelRecord,
): Promise<CheckedRequest & { readonly rows: StoredRows }> {
  const model = newModel ?? (await requireModel(context, principal, request.model_id))
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
  const { exampleCount, ...rows } = await receiveRows(context, principal, request, (source, options) =>
    countSftExamples(source, { ...options, assistantTurns: hyperparameters.assistantTurns }),
  )
  assertLearningRateCount(
    hyperparameters.learningRate,
    sftBatchCount(exampleCount, hyperparameters.batchSize) * hyperparameters.epochs,
  )
  return { ...(await describeOptions(context, 'sft', model, config)), rows }
}

/** Checks a request for a preference job, of a stored model or of a new one, and stores its rows. @throws {AppError} what is wrong with it */
export async function checkDpoRequest(
  context: RowsContext,
  principal: Principal,
  request: CreateDpoJobRequest,
  newModel?: ModelRecord,
): Promise<CheckedRequest & { readonly rows: StoredRows }> {
  const model = newModel ?? (await requireModel(context, principal, request.model_id))
  const config = withoutNulls(request.config ?? {})
  const hyperparameters = resolveDpoConfig(config)
  assertSupportedOptions('dpo', config)
  if (request.strict === true) assertNoUnusedOptions('dpo', config)
  await assertAdapterShape(context, model, hyperparameters.lora)
  assertValidationOptions(config, (request.validation_data_url ?? null) !== null)
  await assertReferenceStep(context, model, hyperparameters.referenceStep)
  const { exampleCount: _, ...rows } = await receiveRows(context, principal, request, countPreferenceExamples)
  return { ...(await describeOptions(context, 'dpo', model, config)), rows }
}

/** What a job with these options, which were checked, runs with. */
async function describeOptions(
  { modelFacts }: Pick<ServiceContext, 'modelFacts'>,
  kind: JobKind,
  model: ModelRecord,
  config: JsonObject,
): Promise<CheckedRequest> {
  const baseParameters = await modelFacts.parametersOf(model.baseModel)
  return { kind, model, config, resolvedConfig: resolvedConfig(kind, config), baseParameters }
}

/** Stores the rows a job trains and is measured on, and checks every one of them. */
async function receiveRows(
  context: Pick<ServiceContext, 'db' | 'blobs' | 'trainingDataRoot' | 'remoteData'>,
  principal: Principal,
  { training_data_url: url, validation_data_url: validationUrl = null }: CreateDpoJobRequest,
  count: CountRows,
): Promise<StoredRows & { readonly exampleCount: number }> {
  const resolve = (address: DataAddress) => resolveTrainingData(context, principal, address)
  const inputSha256 = await resolve({ field: 'training_data_url', url })
  const validationSha256 =
    validationUrl === null ? null : await resolve({ field: 'validation_data_url', url: validationUrl })
  const validation =
    validationSha256 === null ? null : await checkRows(context, 'validation_data_url', validationSha256, count)
  const { exampleCount, notes } = await checkRows(context, 'training_data_url', inputSha256, count)
  return {
    inputSha256,
    validationSha256,
    sourceUrl: sourceOf(url),
    dataNotes: notesOfRows(notes, validation?.notes),
    exampleCount,
  }
}

/** The address as it is remembered: not the rows of a data: address, and no signature that opens what it names. */
function sourceOf(url: string): string | null {
  if (url.startsWith('data:')) return null
  return /^https?:/i.test(url) ? url.replace(/[?#].*$/s, '') : url
}

/** Reads all rows; an error about validation rows says that they are meant. */
async function checkRows(
  { blobs }: Pick<ServiceContext, 'blobs'>,
  field: DataAddress['field'],
  sha256: string,
  count: CountRows,
): Promise<CheckedRows> {
  const notes = createDataNotes()
  try {
    const exampleCount = await count(await blobs.openRead(sha256), { notes })
    return { exampleCount, notes: notes.sentences() }
  } catch (cause) {
    if (field === 'training_data_url' || !(cause instanceof AppError)) throw cause
    const { category, code, message, hint, details } = cause
    throw new AppError(category, code, `${field}: ${message}`, { cause, hint, details })
  }
}
