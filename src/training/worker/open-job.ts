/**
 * A job opened on its base model: the adapter it starts from, its data read, nothing run. What an attempt and a plan both
 * begin with.
 */

import { pathToFileURL } from 'node:url'
import { readEnvironment } from '#base/environment.js'
import { AppError } from '#base/errors/errors.js'
import { availableMemoryBytes } from '#base/machine/memory.js'
import { bundlePath } from '#base/processes/entry.js'
import type { Clock } from '#base/util/clock.js'
import type { FileContent } from '#base/util/file-content.js'
import { isJsonObject } from '#base/util/json.js'
import { defaultOf } from '#contract/jobs/option.js'
import { type JobOptionsModule, optionOf, PLUGINS_VARIABLE } from '#contract/jobs/plugin-options.js'
import type { WorkerJob } from '#contract/processes/worker.js'
import { ADAPTER_WEIGHTS_FILE, assertDigest, checkpointTitle, takeManifest } from '#formats/checkpoint-manifest.js'
import { adapterModules, parameterCount } from '#model/architectures/decoder-config.js'
import type { PreparedModel } from '#model/architectures/prepare.js'
import type { TextModel } from '#model/text/text-model.js'
import { type AdapterModule, decodeStoredAdapter } from '#model/weights/adapter.js'
import { threadsFor } from '#numerics/runtime/default-threads.js'
import { isAccelerated, type Runtime } from '#numerics/runtime/runtime.js'
import { openTraining } from '#training/kinds/kinds.js'
import type { JobSource, OpenJob, RewardShaper } from '#training/kinds/start.js'
import { createRolloutNotes, type RolloutNotes } from '#training/rollouts/rollout-notes.js'
import { type JobContext, type ParentCheckpoint, startingPoint, type TrainingPrecision } from '#training/trainer/job.js'
import type { LearnerBackend } from '#training/trainer/learner/learner.js'
import { createDropout } from '#training/trainer/masks/dropout.js'
import type { ResumePoint } from '#training/trainer/resume-point.js'
import { bindText, tokenNamesOf } from './text-binding.js'
import { assertKwargsAreRead } from './unread-kwargs.js'

// What a job's options of plugins do: loaded where a job has set some. Knows no plugin; which there are says who started this
// process.

/** @throws {AppError} `plugin_missing` for a plugin that is not loaded here; what is wrong with its module */
async function loadShapers({ plugins, config }: WorkerJob): Promise<readonly RewardShaper[]> {
  if (plugins.length === 0) return []
  const entry = pathToFileURL(bundlePath('plugins/job-options.js')).href
  const { loadJobOptions } = (await import(entry)) as JobOptionsModule
  const files = JSON.parse(readEnvironment()[PLUGINS_VARIABLE] ?? '[]') as readonly string[]
  const loaded = await loadJobOptions(files)
  return await Promise.all(
    plugins.map(async (plugin) => {
      const { rows, rewards } = loaded.get(plugin)?.rl ?? missing(plugin)
      const given = config[optionOf(plugin)]
      const otherwise = Object.entries(rows).map(([name, row]) => [name, defaultOf(row)])
      const options = { ...Object.fromEntries(otherwise), ...(isJsonObject(given) ? given : {}) }
      const shaping = await rewards()
      if (typeof shaping.shape === 'function') return { plugin, options, shaping }
      throw new AppError(
        'invalid_request',
        'plugin_invalid',
        `plugin "${plugin}": what jobOptions.rl.rewards() loads has no function "shape"`,
      )
    }),
  )
}

function missing(plugin: string): never {
  throw new AppError(
    'invalid_request',
    'plugin_missing',
    `the job has options of the plugin "${plugin}", which is not loaded where it trains`,
    {
      hint: 'name its file in TRAINYARD_PLUGINS, or in "plugins" of the configuration file, where the worker is started',
    },
  )
}

/** What a job is opened with. */
export interface OpenJobOptions {
  readonly source: JobSource
  readonly job: WorkerJob
  readonly prepared: PreparedModel
  readonly text: TextModel
  readonly runtime: Runtime
  readonly clock: Clock
  readonly resumePoint: ResumePoint | null
  /** What computes gradients; null: ONNX Runtime. */
  readonly backend: LearnerBackend | null
  readonly isStopRequested?: () => boolean
  /** Threads inside one operator; default by the model's size (`threadsFor`). */
  readonly threads?: number
  /** Most bytes that are noted of what the trainer computes of tokens; default nothing; what is no RL job notes nothing. */
  readonly maxRolloutBytes?: number
}

/**
 * Opens a job.
 *
 * @throws {AppError} what is wrong with its configuration, its data or the checkpoint it starts from
 */
export async function openJob(
  options: OpenJobOptions,
): Promise<{ readonly opened: OpenJob; readonly context: JobContext; readonly rollouts: RolloutNotes | null }> {
  const { source, job, prepared, text: textModel, runtime, clock, resumePoint, backend } = options
  const threads = threadsFor(parameterCount(prepared.config), options.threads ?? null)
  // Ids the model can sample, which may be more than the tokenizer names.
  assertKwargsAreRead(textModel, job)
  const text = {
    ...bindText(textModel, job.template_kwargs),
    vocabularySize: prepared.config.vocabularySize,
    lostTokens: new Map(job.lost_tokens.map(({ id, text }) => [id, text])),
  }
  const modules = adapterModules(prepared.config)
  const parent = await fetchParent(source, job, modules)
  const precision = (job.config['precision'] ?? 'f32') as TrainingPrecision
  const availableBytes = backend?.availableBytes(prepared, precision) ?? availableMemoryBytes()
  const base = {
    runtime,
    prepared,
    clock,
    jobId: job.id,
    ...(options.isStopRequested === undefined ? {} : { isStopRequested: options.isStopRequested }),
    ...(availableBytes === null ? {} : { availableBytes }),
    ...(threads === null ? {} : { threads }),
    ...(backend === null ? {} : { backend }),
  }
  const { maxRolloutBytes } = options
  const rollouts = maxRolloutBytes === undefined ? null : createRolloutNotes(tokenNamesOf(textModel), maxRolloutBytes)
  const shapers = await loadShapers(job)
  let context: JobContext | null = null
  const opened = await openTraining({
    source,
    job,
    text,
    padTokenId: textModel.eosTokenIds[0] ?? 0,
    maxLength: prepared.config.contextLength,
    modules,
    rollouts,
    shapers,
    contextOf: ({ lora, lora_dropout: share, seed: given }) => {
      const seed = given ?? job.id
      const start = startingPoint(prepared, parent, { kind: job.kind, lora, seed })
      const dropout = share > 0 ? createDropout(prepared.config, start.adapter.config, { share, seed }) : null
      context = { ...base, ...start, resumePoint, ...(dropout === null ? {} : { dropout }) }
      if (job.times_shown > 0) context.progress.report.facts['before'] = { examples: job.times_shown }
      context.progress.report.trainer = backend?.facts ?? {
        name: 'onnx',
        description: `${runtime.name}, ${isAccelerated(runtime) ? `by ${runtime.device}` : 'on the CPU'}`,
      }
      return context
    },
  })
  if (context === null) throw new Error(`a ${job.kind} job started without a context`)
  return { opened, context, rollouts }
}

async function fetchParent(
  source: JobSource,
  job: WorkerJob,
  modules: readonly AdapterModule[],
): Promise<ParentCheckpoint | null> {
  const checkpoint = checkpointTitle(job.model_name, job.parent_step)
  const fetched = new Map<string, FileContent>()
  for (const name of job.parent_files) {
    // State of the other kind of job is dropped anyway: it need not travel.
    if (name === 'optimizer.safetensors' && job.parent_kind !== job.kind) continue
    fetched.set(name, assertDigest({ checkpoint, name, ...(await source.getParentFile(name)) }))
  }
  const files = takeManifest(checkpoint, fetched)
  if (!files.has(ADAPTER_WEIGHTS_FILE)) return null
  return {
    adapter: decodeStoredAdapter(checkpoint, files, modules),
    optimizerState: files.get('optimizer.safetensors') ?? null,
  }
}
