/**
 * Where a job's gradients are computed when it is not ONNX Runtime, as the job sees it. `training/torch/` is the one there is.
 */
import type { TrainerName } from '#contract/settings/service.js'
import type { PreparedModel } from '#model/architectures/prepare.js'
import type { Runtime } from '#numerics/runtime/runtime.js'
import type { GradientEngines } from './gradient-engine.js'
import type { TrainingPrecision } from './job.js'

/** What computes a job's gradients, for its record. */
export interface TrainerFacts {
  readonly name: TrainerName
  /** For people: versions and device. */
  readonly description: string
}

export interface GradientBackend {
  readonly facts: TrainerFacts
  /** Bytes that its device can still give beside the weights of a model; null where it has the machine's own memory. */
  availableBytes(prepared: PreparedModel, precision: TrainingPrecision): number | null
  /**
   * The engines of a base model.
   *
   * @throws {TrainingError} `precision_unavailable`; what loading the model throws
   */
  engines(options: {
    readonly prepared: PreparedModel
    readonly adapter: { readonly rank: number; readonly alpha: number }
    readonly precision: TrainingPrecision
    readonly runtime: Runtime
    readonly threads: number | undefined
  }): Promise<GradientEngines>
}
