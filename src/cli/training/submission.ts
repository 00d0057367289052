/**
 * What `train rl`, `train sft` and `train dpo` have in common: hyperparameters from flags, the upload of rows, and the job's
 * submission, report and watching.
 */

import { basename } from 'node:path'
import type { JsonObject, JsonValue } from '#base/util/json.js'
import { JOB_DEFINITIONS, optionNames } from '#contract/jobs/kinds.js'
import {
  advisedOptions,
  measuredRate,
  millions,
  openPasses,
  publishedRate,
  type RowsAtHand,
  sizeDefaults,
} from '#contract/jobs/size-defaults.js'
import { findUnknownOptions } from '#contract/jobs/unused-options.js'
import { command } from '#contract/wire/command-words.js'
import type { JobKind } from '#contract/wire/job-words.js'
import type { Model } from '#contract/wire/models.js'
import type { TrainingPlan } from '#contract/wire/training/plan.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import type { Client } from '#sdk/client/client.js'
import { parametersOf } from '#sdk/client/model-size.js'
import type { CommandContext } from '../command/context.js'
import type { RowReader } from '../input/convert-file.js'
import { displayPath, openInput, readJsonObject } from '../input/input-file.js'
import { shortName } from '../names/model-reference.js'
import { UsageError } from '../terminal/errors.js'
import { plural } from '../terminal/format.js'
import { showPlan } from '../terminal/plan-output.js'
import { startProgress } from '../terminal/progress.js'
import { withFormulas } from './formula-file.js'
import { givenOptions } from './option-flags.js'

export type Hyperparameters = Record<string, JsonValue>

/**
 * `--config` and `--set`, below what flags of their own say; those without a value say nothing.
 *
 * @param also what a flag says besides its option
 * @throws {UsageError} `unknown_option`: the API takes a name it does not know and says so, a person has mistyped it
 */
export async function collectHyperparameters(
  { io }: CommandContext,
  kind: JobKind,
  flags: { readonly config: string | undefined; readonly set: readonly (readonly [string, JsonValue])[] },
  also: JsonObject = {},
): Promise<Hyperparameters> {
  const open: JsonObject = {
    ...(flags.config === undefined ? {} : await readJsonObject(flags.config, io)),
    ...Object.fromEntries(flags.set),
  }
  assertKnown(kind, open)
  return await withFormulas(kind, { ...open, ...also, ...givenOptions(kind, flags, open) })
}

function assertKnown(kind: JobKind, options: JsonObject): void {
  const unknown = findUnknownOptions(kind, options)
  if (unknown.length === 0) return
  throw new UsageError('unknown_option', unknown.map(({ message }) => message).join('; '), {
    param: unknown[0]?.path.join('.'),
    hint: `options of a job of this kind: ${optionNames(kind).join(', ')}`,
  })
}

/** The published rates are meant for models from this many parameters on. */
const LARGE = 1_500_000_000

/** What is advised, and what was measured for base models of this size, where nobody says otherwise. Of the latter a person hears of it: it is not the published default. */
export async function addSizeDefaults(
  { output, signal }: Pick<CommandContext, 'output' | 'signal'>,
  client: Client,
  job: {
    readonly kind: JobKind
    readonly baseModel: string
    readonly hyperparameters: Hyperparameters
    /** A supervised job's examples, where they were read here. */
    readonly rows?: Omit<RowsAtHand, 'parameters'> | undefined
  },
): Promise<void> {
  const { kind, baseModel, hyperparameters, rows } = job
  Object.assign(hyperparameters, advisedOptions(kind, hyperparameters))
  const parameters = await parametersOf(client, baseModel, { signal })
  if (rows !== undefined) {
    const passes = openPasses(hyperparameters, { ...rows, parameters })
    Object.assign(hyperparameters, passes)
    sayPasses(output, passes, rows)
  }
  const isRateOpen = hyperparameters['learning_rate'] === undefined
  if (hyperparameters['learning_rate'] === 0)
    output.warning('learning_rate is 0: the job measures and moves nothing, its step answers as the one before')
  const chosen = sizeDefaults(kind, hyperparameters, parameters)
  Object.assign(hyperparameters, chosen)
  const names = Object.entries(chosen).map(([name, value]) => `${name} ${value}`)
  const size = parameters === null ? 'of unknown size' : `of ${millions(parameters)}`
  if (names.length > 0) {
    const flags = Object.keys(chosen).map((name) => `--${name.replaceAll('_', '-')}`)
    output.status(
      `${names.join(', ')}, for a base model ${size}; ${flags.join(', ')} ${flags.length === 1 ? 'says' : 'say'} otherwise`,
    )
  }
  const isSmall = parameters === null || (parameters < LARGE && measuredRate(kind, parameters) === null)
  if (isRateOpen && isSmall) {
    const rate = publishedRate(kind).toExponential()
    output.status(
      `learning rate ${rate} is the published default${parameters === null ? '' : ' and small'} for a base model ${size}; --learning-rate changes it`,
    )
  }
}

/** Says how long a job trains, and where that ends. */
function sayPasses(
  output: CommandContext['output'],
  { epochs = 1, early_stopping_patience: patience, validation_split: split }: Readonly<Record<string, number>>,
  { rows }: Pick<RowsAtHand, 'rows'>,
): void {
  const most = `epochs ${epochs}, for ${plural(rows, 'conversation')}`
  if (patience === undefined) {
    if (epochs > 1) output.status(`${most}; --epochs says otherwise`)
    return
  }
  const heldOut = split === undefined ? 'held-out ones' : `${Math.max(1, Math.round(rows * split))} of them, held out,`
  output.status(
    `trains until the loss of ${heldOut} stops falling: at most ${most}; --epochs says how many, --split what is held out`,
  )
}

/** Rows of a file, or of an address the service reads itself. */
export interface Rows<T> {
  /** As given, `-` for standard input; null where it is only an address. */
  readonly path: string | null
  readonly data: Blob | null
  /** What the check of the rows found; null where they were not read. */
  readonly facts: T | null
  readonly url: string | undefined
  /** Whether the rows are no longer those of the file. */
  readonly isConverted?: boolean
}

/**
 * Opens a file of rows and checks all of them, when one was given. Rows of other trainers are converted, and that is said.
 *
 * @param reader what a row has to be
 */
export async function openRows<T>(
  { io, output }: CommandContext,
  { path, url }: { readonly path: string | undefined; readonly url?: string | undefined },
  reader: RowReader<T>,
): Promise<Rows<T>> {
  if (path === undefined) return { path: null, data: null, facts: null, url }
  const name = displayPath(path)
  const { describeForms, readTrainingRows } = await import('../input/convert-file.js')
  const { data, facts, converted } = await readTrainingRows(await openInput(path, io), name, reader)
  if (converted !== null) {
    output.status(`Converted ${name}: ${describeForms(converted)}; trainyard data convert writes it to a file`)
  }
  return { path, data, facts, url, isConverted: converted !== null }
}

/**
 * Where a request finds rows: their own address, or an upload's. For a plan they are part of the request while they are small, so
 * that planning leaves nothing on the server.
 *
 * @param otherwise name of an uploaded file that comes from standard input
 * @returns undefined where there are none
 */
async function addressOfRows(
  { io, output, signal }: CommandContext,
  client: Client,
  {
    rows,
    otherwise,
    isPlanned,
  }: { readonly rows: Rows<unknown>; readonly otherwise: string; readonly isPlanned: boolean },
): Promise<string | undefined> {
  const { data, path, url } = rows
  if (data === null || path === null) return url
  if (isPlanned && data.size <= MAX_INLINE_BYTES) {
    return `data:application/jsonl;base64,${Buffer.from(await data.arrayBuffer()).toString('base64')}`
  }
  const progress = startProgress(io, output.mode === 'human', `Uploading ${displayPath(path)}`)
  // what was converted is JSON Lines, whatever the file is called
  const name = path === '-' || rows.isConverted === true ? otherwise : basename(path)
  return (await client.files.upload(data, name, { signal }).finally(() => progress.stop())).id
}

/** The request of a job that goes through rows; what the server cannot reach yet is uploaded. */
export async function toRowsRequest(
  context: CommandContext,
  client: Client,
  job: {
    readonly model: Model
    readonly rows: Rows<unknown>
    readonly validation: Rows<unknown>
    readonly hyperparameters: Hyperparameters
    readonly isPlanned: boolean
  },
) {
  const { rows, validation, isPlanned } = job
  const url = await addressOfRows(context, client, { rows, otherwise: 'train.jsonl', isPlanned })
  const otherwise = 'validation.jsonl'
  const validationUrl = await addressOfRows(context, client, { rows: validation, otherwise, isPlanned })
  return {
    model_id: job.model.id,
    training_data_url: url ?? '',
    ...(validationUrl === undefined ? {} : { validation_data_url: validationUrl }),
    config: job.hyperparameters,
  }
}

/** As base64 well below what an address of data may hold. */
const MAX_INLINE_BYTES = 4 * 1024 ** 2

/** A job that is ready to go, before it is known what becomes of it. */
export interface PreparedJob<R> {
  readonly kind: JobKind
  readonly model: Model
  /** What it trains on, in words. */
  readonly counts: string
  /** What it trains on, for `--dry-run --json`. */
  readonly facts: Record<string, JsonValue>
  readonly hyperparameters: Hyperparameters
  /** Uploads what has to be uploaded. */
  toRequest(): Promise<R>
  plan(request: R, call: { readonly signal: AbortSignal }): Promise<TrainingPlan>
  /** Null: there is nothing to train on, and that was said. */
  create(request: R, call: { readonly signal: AbortSignal }): Promise<TrainingJob | null>
}

/** Shows what would be sent, shows what the job would do, or submits it; follows it to its end when it is watched. */
export async function submitJob<R>(
  context: CommandContext,
  client: Client,
  flags: { readonly dryRun: boolean; readonly plan: boolean; readonly watch: boolean },
  job: PreparedJob<R>,
): Promise<void> {
  const { output, signal } = context
  const { model, counts } = job
  if (flags.dryRun) {
    const { facts, kind, hyperparameters } = job
    const key = JOB_DEFINITIONS[kind].root
    return output.result(
      { dry_run: true, model_id: model.id, ...facts, [key]: hyperparameters },
      `Would submit ${counts} to ${model.name} (dry run)\n  ${JSON.stringify(hyperparameters)}`,
      [],
    )
  }
  const request = await job.toRequest()
  if (flags.plan) return showPlan(output, await job.plan(request, { signal }), model.name)
  const created = await job.create(request, { signal })
  if (created === null) return
  await reportSubmitted(context, client, { job: created, model, counts, isWatched: flags.watch })
}

/** Tells of a job that was made, with its warnings. */
async function reportSubmitted(
  context: CommandContext,
  client: Client,
  {
    job,
    model,
    counts,
    isWatched,
  }: {
    readonly job: TrainingJob
    readonly model: Model
    readonly counts: string
    readonly isWatched: boolean
  },
): Promise<void> {
  const { output, config } = context
  for (const warning of job.warnings ?? []) output.warning(warning)
  const text = `Submitted job ${job.id} to ${model.name}: ${counts}`
  if (!isWatched) {
    output.result(job, text, [job.id])
    return output.hint(command`trainyard jobs watch ${job.id}`)
  }
  output.event({ object: 'training_job', ...job }, text)
  const { watchJob } = await import('../views/watch.js')
  await watchJob(context, client, job.id, { said: job.warnings ?? [] })
  output.hint(command`trainyard chat ${shortName(model, config)}`)
}
