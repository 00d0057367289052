/**
 * What `train rl`, `train sft` and `train dpo` have in common: hyperparameters from flags, rows uploaded, a job told of and watched.
 */
import { basename } from 'node:path'
import type { Client } from '#api/client/client.js'
import type { Model } from '#api/wire/models.js'
import type { TrainingJob } from '#api/wire/training-jobs.js'
import type { JsonValue } from '#base/util/json.js'
import type { CommandContext } from '../command/context.js'
import { displayPath, readJsonObject } from '../input/input-file.js'
import { adviseLearningRate } from '../input/learning-rate.js'
import { shortName } from '../input/model-reference.js'
import { addressForPlan } from '../input/plan-data.js'
import { startProgress } from '../terminal/progress.js'
import { watchJob } from '../terminal/watch.js'

export type Hyperparameters = Record<string, JsonValue>

/** `--config` and `--set`, below what flags of their own say; those without a value say nothing. */
export async function collectHyperparameters(
  { io }: CommandContext,
  flags: { readonly config: string | undefined; readonly set: readonly (readonly [string, JsonValue])[] },
  named: Readonly<Record<string, JsonValue | undefined>>,
): Promise<Hyperparameters> {
  const given = Object.entries(named).flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const]))
  return {
    ...(flags.config === undefined ? {} : await readJsonObject(flags.config, io)),
    ...Object.fromEntries(flags.set),
    ...Object.fromEntries(given),
  }
}

/** Puts in a learning rate where none was given and one is known for the model, and says so. */
export function addLearningRate(
  { output }: CommandContext,
  hyperparameters: Hyperparameters,
  rates: { readonly baseModel: string; readonly published: number; readonly tinyRate?: number },
): void {
  if (hyperparameters['learning_rate'] !== undefined) return
  const advice = adviseLearningRate(rates.baseModel, rates.published, rates.tinyRate)
  if (advice.learningRate !== null) hyperparameters['learning_rate'] = advice.learningRate
  if (advice.said !== null) output.status(advice.said)
}

/**
 * Uploads rows; for a plan they are part of the request while they are small.
 *
 * @param path as given, `-` for standard input
 * @param otherwise the file's name then
 * @returns their address in a request
 */
export async function sendRows(
  { io, output, signal }: CommandContext,
  client: Client,
  {
    rows,
    path,
    otherwise,
    isPlanned,
  }: { readonly rows: Blob; readonly path: string; readonly otherwise: string; readonly isPlanned: boolean },
): Promise<string> {
  const upload = async (): Promise<string> => {
    const progress = startProgress(io, output.mode === 'human', `Uploading ${displayPath(path)}`)
    const name = path === '-' ? otherwise : basename(path)
    return (await client.files.upload(rows, name, { signal }).finally(() => progress.stop())).id
  }
  return isPlanned ? await addressForPlan(rows, upload) : await upload()
}

/** Tells what `--dry-run` would have sent. */
export function showDryRun(
  { output }: CommandContext,
  { counts, model, json }: { readonly counts: string; readonly model: Model; readonly json: Record<string, JsonValue> },
  hyperparameters: Hyperparameters,
): void {
  output.result(
    { dry_run: true, model_id: model.id, ...json },
    `Would submit ${counts} to ${model.name} (dry run)\n  ${JSON.stringify(hyperparameters)}`,
    [],
  )
}

/** Tells of a job that was made, with its warnings; follows it to its end when it is watched. */
export async function reportSubmitted(
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
    return output.hint(`trainyard jobs events ${job.id} --follow`)
  }
  output.event({ object: 'training_job', ...job }, text)
  await watchJob(context, client, job.id)
  output.hint(`trainyard chat ${shortName(model, config)}`)
}
