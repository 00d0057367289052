/**
 * What jobs of all kinds share: what they are given, the events they yield, what they leave behind.
 *
 * A job is an async generator of events: whoever drives it stops it between two gradient steps by not asking for more.
 */

import { InvalidRequestError } from '#base/errors/errors.js'
import type { Clock } from '#base/util/clock.js'
import type { FileContent } from '#base/util/file-content.js'
import { assertSameShape, LORA_DEFAULTS, LORA_TARGETS } from '#contract/jobs/lora-options.js'
import type { CommonOptions } from '#contract/jobs/shared-options.js'
import { adapterModules } from '#model/architectures/decoder-config.js'
import type { PreparedModel } from '#model/architectures/prepare.js'
import { type AdapterModule, type AdapterWeights, createAdapter } from '#model/weights/adapter.js'
import { isAdapted } from '#model/weights/adapter-config.js'
import type { AdamWState } from '#numerics/optim/adamw.js'
import { createAdamWState } from '#numerics/optim/adamw.js'
import type { Runtime } from '#numerics/runtime/runtime.js'
import type { Learner, LearnerBackend, LearnerOptions } from './learner/learner.js'
import { openOnnxLearner } from './learner/onnx-learner.js'
import { adapterParameters } from './learner/parameters.js'
import type { Dropout } from './masks/dropout.js'
import { decodeOptimizerState } from './optimizer-state.js'
import { createProgress, type JobProgress } from './progress.js'
import type { ResumePoint } from './resume-point.js'

/** An event of a training job; every value is finite. */
export interface TrainingEvent {
  readonly type: 'training_started' | 'gradient_step'
  readonly data: Readonly<Record<string, number>>
}

/** What a finished job leaves behind, beside its learner. */
export interface TrainingOutcome {
  /** Checkpoint metrics, names already prefixed. */
  readonly metrics: Readonly<Record<string, number>>
}

/** Where a job runs and what it starts from. */
export interface JobContext {
  readonly runtime: Runtime
  readonly prepared: PreparedModel
  /** What the learner starts with, and then the learner's. */
  readonly adapter: AdapterWeights
  /** What the learner starts with, and then the learner's. */
  readonly optimizer: AdamWState
  /** The job's learner once it has opened one. */
  readonly opened: { learner: Learner | null }
  /** Changed in place by the job; nothing done when it starts, also when it goes on from a resume point. */
  readonly progress: JobProgress
  /** Where the job goes on; null from its beginning. Events up to there were made before and are not made again. */
  readonly resumePoint: ResumePoint | null
  readonly clock: Clock
  /** Asked after each gradient step: whether that was the last one, as somebody keeps what there is; absent: never. */
  readonly isStopRequested?: () => boolean
  /** Bytes this process can still get; absent: not measured, and the size of rows alone decides. */
  readonly availableBytes?: number
  /** Seeds what is random when the job names no seed. */
  readonly jobId: string
  /** Threads inside one operator; default all cores. */
  readonly threads?: number
  /** What computes gradients and scores; absent: ONNX Runtime. */
  readonly backend?: LearnerBackend
  /** Absent: every input of the adapter is trained with. */
  readonly dropout?: Dropout
}

/** Arithmetic of the frozen layers: float32, products of 8-bit integers, or bfloat16. */
export type TrainingPrecision = CommonOptions['precision']

/** Shape of a new adapter. Null: the model's own, or the default. */
export type AdapterShape = CommonOptions['lora']

/** The parent checkpoint of a job as it was stored; null for a model's first job. */
export interface ParentCheckpoint {
  readonly adapter: AdapterWeights
  /** `optimizer.safetensors`; null when the parent has none. */
  readonly optimizerState: FileContent | null
}

/**
 * The adapter and optimizer state a job starts from.
 *
 * @param options.lora shape of a new adapter; with a parent it must be the parent's
 * @throws {InvalidRequestError} `adapter_shape_fixed` for another shape than the parent's; {CheckpointError} `checkpoint_corrupt` for a damaged optimizer state
 */
export function startingPoint(
  prepared: PreparedModel,
  parent: ParentCheckpoint | null,
  options: { readonly kind: string; readonly lora: AdapterShape; readonly seed: string | number },
): Pick<JobContext, 'adapter' | 'optimizer' | 'opened' | 'progress'> {
  const { lora, seed } = options
  if (parent !== null) {
    const { rank, alpha, targets, usesRslora = false, rankPattern = {} } = parent.adapter.config
    assertSameShape(lora, { rank, alpha, targets, usesRslora, rankPattern }, "the model's adapter")
  }
  const adapter = parent?.adapter ?? newAdapter(adapterModules(prepared.config), lora, seed)
  const bytes = parent?.optimizerState ?? null
  const optimizer =
    bytes === null ? createAdamWState() : decodeOptimizerState(bytes, options.kind, adapterParameters(adapter))
  return { adapter, optimizer, opened: { learner: null }, progress: createProgress() }
}

/** @throws {InvalidRequestError} `invalid_value` for a rank of a module that the model has not */
function newAdapter(modules: readonly AdapterModule[], lora: AdapterShape, seed: string | number): AdapterWeights {
  const { rank, alpha } = lora ?? LORA_DEFAULTS
  const ranks = lora?.rank_pattern ?? null
  const targets = lora?.target_modules ?? LORA_TARGETS
  const paths = modules.map(({ path }) => path).filter((path) => isAdapted({ rank, alpha, targets }, path))
  for (const name of Object.keys(ranks ?? {})) {
    if (paths.some((path) => path === name || path.endsWith(`.${name}`))) continue
    throw new InvalidRequestError('invalid_value', `lora.rank_pattern names "${name}", but no module's path ends so.`, {
      param: 'lora.rank_pattern',
      hint: `paths are ${paths[0]} to ${paths.at(-1)}`,
    })
  }
  return createAdapter(modules, {
    rank,
    alpha,
    seed,
    targets,
    ...(lora?.use_rslora === true ? { usesRslora: true } : {}),
    // checked where the request was resolved
    ...(ranks === null || Object.keys(ranks).length === 0 ? {} : { rankPattern: ranks as Record<string, number> }),
  })
}

/**
 * Opens the learner of a job, which the job parks at its end: whoever runs the job reads its state.
 *
 * @param options.rows null for a job in which nothing trains
 */
export async function openLearner(
  context: JobContext,
  { precision, rows }: Pick<LearnerOptions, 'precision' | 'rows'>,
): Promise<Learner> {
  const { prepared, runtime, threads, adapter, optimizer, dropout, backend, opened } = context
  const state = { adapter, optimizer, gradients: new Map<string, Float32Array>() }
  const given = { prepared, runtime, threads, precision, state, dropoutShare: dropout?.share, rows }
  const learner = await (backend === undefined ? openOnnxLearner(given) : backend.open(given))
  opened.learner = learner
  return learner
}
