/**
 * Requests for training jobs, checked as far as the server can without the model's tokenizer: what creating a job and
 * planning one have in common.
 */

import { AppError } from '#base/errors/errors.js'
import { type JsonObject, withoutNulls } from '#base/util/json.js'
import { JOB_DEFINITIONS, type OptionsOf, readOptions } from '#contract/jobs/kinds.js'
import { assertNoUnusedOptions, assertSupportedOptions } from '#contract/jobs/option-notes.js'
import { assertValidationOptions, recordOptions, resolveOptions } from '#contract/jobs/resolve.js'
import type { JobKind } from '#contract/wire/job-words.js'
import type { CreateDpoJobRequest, CreateSftJobRequest } from '#contract/wire/training-jobs.js'
import { countPreferenceExamples } from '#formats/rows/examples/preference-example.js'
import { countSftExamples, type RowOptions } from '#formats/rows/examples/sft-example.js'
import { countUnpairedExamples } from '#formats/rows/examples/unpaired-example.js'
import { createDataNotes, notesOfRows } from '#formats/rows/notes/data-notes.js'
import { assertLearningRateCount, sftBatchCount } from '#formats/rows/sft-data.js'
import type { ReceivedGroups } from '#service/bodies/body-store.js'
import type { ModelRecord } from '#service/storage/models.js'
import type { NewJob } from '#service/storage/training-jobs.js'
import type { Principal, ServiceContext } from '../context.js'
import { requireModel } from '../models/models.js'
import { assertAdapterShape } from './adapter-shape.js'
import { assertReference } from './kl-reference.js'
import { type DataAddress, resolveTrainingData } from './training-data.js'
import { checkMetricNames, checkPolicyVersions, checkTokenIds, withGroups } from './trajectory-groups.js'

/** What a request for a job of each kind brings. */
export interface JobRequests {
  /** Taken over, also when it fails. */
  readonly rl: ReceivedGroups<'POST /v1/preview/training-jobs'>
  readonly sft: CreateSftJobRequest
  readonly dpo: CreateDpoJobRequest
}

/** A request that may become a job. */
export interface CheckedJob {
  readonly kind: JobKind
  readonly model: ModelRecord
  /** As submitted, nulls removed. */
  readonly config: JsonObject
  /** Every option the job would run with. */
  readonly resolvedConfig: JsonObject
  /** Parameters of the base model; null where nobody knows them. */
  readonly baseParameters: number | null
  /** Where its data lies as long as it is asked about. */
  readonly files: { readonly inputPath: string; readonly validationPath: string | null }
  /** Whether its data is rows that a chat template renders. */
  readonly isRendered: boolean
  /** Keeps its data. */
  store(): Promise<StoredRows>
}

/** The stored rows of a job, and what is worth saying of them. */
export type StoredRows = Pick<NewJob, 'inputSha256' | 'validationSha256' | 'sourceUrl' | 'dataNotes'>

/** What the checks work with. */
export type JobRequestContext = Pick<
  ServiceContext,
  'db' | 'blobs' | 'engines' | 'baseModels' | 'modelFacts' | 'trainingDataRoot' | 'remoteData' | 'artifactRows'
>

/** Who asks, and for a model that is stored with the job that model. */
interface Asked {
  readonly context: JobRequestContext
  readonly principal: Principal
  readonly newModel?: ModelRecord | undefined
}

/** Checks a request and does something with it. */
type Check<K extends JobKind> = <T>(
  asked: Asked,
  request: JobRequests[K],
  use: (job: CheckedJob) => Promise<T>,
) => Promise<T>

const CHECK: { readonly [K in JobKind]: Check<K> } = {
  rl: async (asked, groups, use) =>
    await withGroups(asked.context.blobs, groups, async (publish) => {
      const { request, path } = groups
      const { model, ...checked } = await checkOptions('rl', asked, {
        ...request,
        config: withoutNulls(request.experimental_config ?? {}),
      })
      checkPolicyVersions(groups, model.step)
      checkMetricNames(groups)
      const engine = asked.context.engines.started().find(({ baseModel }) => baseModel === model.baseModel)
      checkTokenIds(groups, model.baseModel, engine?.loaded()?.vocabularySize)
      return await use({
        model,
        ...checked,
        files: { inputPath: path, validationPath: null },
        isRendered: false,
        store: async () => {
          const { sha256 } = await publish()
          return { inputSha256: sha256, sourceUrl: null, validationSha256: null, dataNotes: groups.notes }
        },
      })
    }),
  sft: async (asked, request, use) => {
    const experimental = withoutNulls(request.experimental_config ?? {})
    const config: JsonObject = {
      ...withoutNulls(request.config ?? {}),
      ...(Object.keys(experimental).length > 0 ? { experimental_config: experimental } : {}),
    }
    const { options, ...checked } = await checkOptions('sft', asked, { ...request, config })
    const { exampleCount, ...rows } = await receiveRows(asked, request, (source, rowOptions) =>
      countSftExamples(source, { ...rowOptions, assistantTurns: options.assistant_turns }),
    )
    assertLearningRateCount(options.learning_rate, sftBatchCount(exampleCount, options.batch_size) * options.epochs)
    return await use({ ...checked, ...rows })
  },
  dpo: async (asked, request, use) => {
    const config = withoutNulls(request.config ?? {})
    const { options, ...checked } = await checkOptions('dpo', asked, { ...request, config })
    const count = options.loss_type === 'kto' ? countUnpairedExamples : countPreferenceExamples
    const { exampleCount: _count, ...rows } = await receiveRows(asked, request, count)
    return await use({ ...checked, ...rows })
  },
}

/**
 * Checks a request for a job, of a stored model or of a new one, and hands it on; what it brings is dropped unless it is kept.
 *
 * @throws {AppError} what is wrong with it
 */
export async function withCheckedJob<K extends JobKind, T>(
  kind: K,
  asked: Asked,
  request: JobRequests[K],
  use: (job: CheckedJob) => Promise<T>,
): Promise<T> {
  return await CHECK[kind](asked, request, use)
}

/** What can be said of a job before its data is read. */
async function checkOptions<K extends JobKind>(
  kind: K,
  { context, principal, newModel }: Asked,
  request: {
    readonly model_id: string
    /** Without nulls. */
    readonly config: JsonObject
    readonly strict?: boolean | null | undefined
    readonly validation_data_url?: string | null | undefined
  },
): Promise<Omit<CheckedJob, 'files' | 'store' | 'isRendered'> & { readonly options: OptionsOf<K> }> {
  const { config } = request
  const model = newModel ?? (await requireModel(context, principal, request.model_id))
  const resolved = resolveOptions(kind, config)
  const options = readOptions(kind, resolved)
  assertSupportedOptions(kind, config)
  if (request.strict === true) assertNoUnusedOptions(kind, config)
  await assertAdapterShape(context, model, options.lora)
  assertValidationOptions(kind, config, (request.validation_data_url ?? null) !== null)
  const { root, referenceOf } = JOB_DEFINITIONS[kind]
  await assertReference(context, principal, model, { root, reference: referenceOf(resolved) })
  return {
    kind,
    model,
    config,
    options,
    resolvedConfig: recordOptions(kind, resolved),
    baseParameters: await context.modelFacts.parametersOf(model.baseModel),
  }
}

/** Checks every row of some kind of data and says how many there are. */
type CountRows = (source: AsyncIterable<Uint8Array>, options: RowOptions) => Promise<number>

interface CheckedRows {
  readonly exampleCount: number
  readonly notes: readonly string[]
}

/** Stores the rows a job trains and is measured on, and checks every one of them. */
async function receiveRows(
  { context, principal }: Asked,
  { training_data_url: url, validation_data_url: validationUrl = null }: CreateDpoJobRequest,
  count: CountRows,
): Promise<Pick<CheckedJob, 'files' | 'store' | 'isRendered'> & { readonly exampleCount: number }> {
  const { blobs } = context
  const resolve = (address: DataAddress) => resolveTrainingData(context, principal, address)
  const inputSha256 = await resolve({ field: 'training_data_url', url })
  const validationSha256 =
    validationUrl === null ? null : await resolve({ field: 'validation_data_url', url: validationUrl })
  const validation =
    validationSha256 === null ? null : await checkRows(context, 'validation_data_url', validationSha256, count)
  const { exampleCount, notes } = await checkRows(context, 'training_data_url', inputSha256, count)
  return {
    exampleCount,
    isRendered: true,
    files: {
      inputPath: await blobs.localFile(inputSha256),
      validationPath: validationSha256 === null ? null : await blobs.localFile(validationSha256),
    },
    store: async () => ({
      inputSha256,
      validationSha256,
      sourceUrl: sourceOf(url),
      dataNotes: notesOfRows(notes, validation?.notes),
    }),
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
