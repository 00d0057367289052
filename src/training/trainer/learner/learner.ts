/**
 * The seam between training and what computes it: a learner holds the trained weights, the sums of their gradients, the
 * optimizer's moments and copies of earlier weights; whoever trains holds none of them.
 *
 * Jobs and training sessions stand above it: they know order, packing, advantages, rates, passes, events and resume points.
 * `accumulate` is what a session calls `forward_backward`, `update` what it calls `optim_step`. Every learner has to pass
 * `test/integration/training/conformance/learner.ts`.
 */
import type { FileContent } from '#base/util/file-content.js'
import type { CommonOptions } from '#contract/jobs/shared-options.js'
import type { TrainerName } from '#contract/settings/service.js'
import type { ComputingFacts } from '#contract/wire/training/worker-facts.js'
import type { PreparedModel } from '#model/architectures/prepare.js'
import type { AdapterWeights } from '#model/weights/adapter.js'
import type { AdamWState } from '#numerics/optim/adamw.js'
import type { Runtime } from '#numerics/runtime/runtime.js'
import type { HostTensor } from '#numerics/tensor/host-tensor.js'
import type { OptimizerSettings } from '../optimizer-settings.js'
import type { RowBatch } from '../row-batch.js'
import type { LossKind } from '../train-graph.js'

/** Rows that go through the model together. */
export interface MicroBatch {
  readonly batch: RowBatch
  /** `weight`, `denominator` and what else the loss takes (see `buildTrainGraph`), and the random numbers of dropout. */
  readonly lossInputs: Readonly<Record<string, HostTensor>>
}

/** What was computed of one micro-batch; arrays follow `batch.trained`, padding at the end. */
export interface TokenOutputs {
  readonly logp: Float32Array
  readonly entropy: Float32Array
  /** Importance ratio before clipping; null for SFT. */
  readonly ratio: Float32Array | null
}

/** What was computed of the micro-batches of one call, so far. */
export interface Accumulated {
  /** Sum over micro-batches. */
  readonly loss: number
  readonly outputs: readonly TokenOutputs[]
}

/** Copies of weights: what a policy is compared with, the best so far, and those before a step. */
export type MarkName = 'reference' | 'best' | 'before'

/** Under which weights rows are scored; `base` is the model without its adapter. */
export type Policy = 'current' | 'base' | MarkName

/** What a learner holds, as a learner beside the trainer takes it and changes it in place. */
export interface LearnerState {
  readonly adapter: AdapterWeights
  readonly optimizer: AdamWState
  /** Sums of gradients since the last update, by parameter; empty: there are none. */
  readonly gradients: Map<string, Float32Array>
}

/** Weights, moments and marks as a file of `save` holds them. */
export interface SavedState {
  /** Tensors by their names in the file. */
  readonly tensors: ReadonlyMap<string, Float32Array>
  /** Updates that the moments have seen. */
  readonly updateCount: number
  /** The same of the moments of marks that have them. */
  readonly marks: Partial<Readonly<Record<MarkName, number>>>
}

/** Which files `export` writes: the adapter; its moments too; its sums too, hence all that another learner needs to go on. */
export type ExportedParts = 'adapter' | 'weights' | 'state'

/** One set of trained weights. Calls are made one after the other. */
export interface Learner {
  /** Updates that the moments have seen. */
  readonly updateCount: number
  /**
   * Loads what calls ahead need, so that the first takes as long as the others; nothing where each call decides for itself.
   *
   * @throws {TrainingError} `precision_unavailable`
   */
  prepare(calls: LossKind | 'scores'): Promise<void>
  /**
   * Adds the gradients of micro-batches to the sums. Deterministic: the same call gives the same bits on the same machine. It
   * does all or nothing: when it throws, the sums are as they were.
   *
   * @param check called after each micro-batch, before anything is added; what it throws ends the call
   * @throws {RuntimeError} `runtime_failed`; what `check` throws
   */
  accumulate(
    microBatches: readonly MicroBatch[],
    loss: LossKind,
    check?: (sofar: Accumulated) => void,
  ): Promise<Accumulated>
  /**
   * Clips the sums, makes an update of AdamW and clears them.
   *
   * @returns the global norm before clipping; where it is not finite, the sums were cleared and nothing else was changed
   * @throws {TrainingError} `no_gradients`
   */
  update(step: OptimizerStep): Promise<{ readonly gradientNorm: number }>
  /** Clears the sums. */
  discard(): Promise<void>
  /** Log-probabilities of a batch's trained tokens, padding at the end. */
  score(batch: RowBatch, policy: Policy): Promise<Float32Array>
  /** Copies the weights, or weights and moments. */
  mark(name: MarkName, what: 'weights' | 'state'): Promise<void>
  /** Takes weights from elsewhere as a mark; they may have another form. */
  place(name: MarkName, weights: AdapterWeights): Promise<void>
  /**
   * Puts the weights on the way from a mark, at 0, to where the last update left them, at 1. Moments stay.
   *
   * @param share of the way
   */
  blend(name: MarkName, share: number): Promise<void>
  /** Puts a mark in place of the weights, and of the moments where it has them. */
  restore(name: MarkName): Promise<void>
  /**
   * Weights, moments, and marks that have moments, as one file; equal states give equal bytes. Read what it returns before the
   * next call.
   *
   * @param metadata of the file
   */
  save(metadata: Readonly<Record<string, string>>): Promise<FileContent>
  /**
   * Puts a saved state in place.
   *
   * @throws {CheckpointError} `checkpoint_corrupt` if it belongs to weights of another shape
   */
  load(state: SavedState): Promise<void>
  /**
   * Files of a checkpoint, the adapter in the PEFT layout. What it returns is read before the next call.
   *
   * @param options.kind label of the optimizer's state
   */
  export(
    parts: ExportedParts,
    options: { readonly baseModelName: string; readonly kind: string },
  ): Promise<Map<string, FileContent>>
  /** Gives back what computing takes, until the next call. Weights, sums, moments and marks stay. */
  park(): Promise<void>
  release(): Promise<void>
}

/** Settings of one update. */
export interface OptimizerStep extends OptimizerSettings {
  readonly learningRate: number
}

/** What is known of all rows that a learner will see. */
export interface RowsAhead {
  /** Tokens of the longest one, padding included. */
  readonly longestRow: number
  /** Rows say of some tokens which others could have been drawn; default false. */
  readonly hasKeptSets?: boolean
  /** Layers are computed again in the backward pass instead of kept; see `memory.ts`. */
  readonly isRecomputed: boolean
}

/** What a learner is opened with. */
export interface LearnerOptions {
  readonly prepared: PreparedModel
  readonly runtime: Runtime
  /** Threads inside one operator; default all cores. */
  readonly threads?: number | undefined
  readonly precision: CommonOptions['precision']
  readonly state: LearnerState
  /** Whether the module of this path is trained; the others stay as they are. Default all. */
  readonly isTrained?: (modulePath: string) => boolean
  /** Share of the adapter's inputs that gradients leave out (`trainer/masks/dropout.ts`); absent: none. */
  readonly dropoutShare?: number | undefined
  /** Null: each batch is computed as suits it. */
  readonly rows: RowsAhead | null
}

/** What computes a job's gradients, for its record. */
export interface TrainerFacts {
  readonly name: TrainerName
  /** For people: versions and device. */
  readonly description: string
}

/** Where learners come from when it is not ONNX Runtime. */
export interface LearnerBackend {
  readonly facts: TrainerFacts
  /** The same for the record of who ran the job. */
  readonly computing: ComputingFacts
  /** Bytes that its device can still give beside the weights of a model; null where it has the machine's own memory. */
  availableBytes(prepared: PreparedModel, precision: CommonOptions['precision']): number | null
  /** Loads nothing before the first call. @throws {TrainingError} `precision_unavailable` */
  open(options: LearnerOptions): Promise<Learner>
  /**
   * Whether it computes on this machine what ONNX Runtime computes.
   *
   * @returns one clause that says how well they agree
   * @throws {TrainingError} `wrong_gradients` where they do not
   */
  check(runtime: Runtime): Promise<string>
}
