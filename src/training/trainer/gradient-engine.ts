/**
 * What the trainer asks of whoever computes losses, gradients and scores of rows.
 *
 * An engine knows the frozen base model and rows of tokens. Clipping, AdamW, the trust region, events and resume points stand above
 * it. There are two, `onnx-engine.ts` and that of the plugin `torch`; each has to pass
 * `test/integration/training/conformance/gradient-engine.ts`.
 */
import type { CommonOptions } from '#contract/jobs/shared-options.js'
import type { TrainerName } from '#contract/settings/service.js'
import type { ComputingFacts } from '#contract/wire/training/worker-facts.js'
import type { PreparedModel } from '#model/architectures/prepare.js'
import type { AdapterForm } from '#model/weights/adapter-config.js'
import type { Runtime } from '#numerics/runtime/runtime.js'
import type { HostTensor } from '#numerics/tensor/host-tensor.js'
import type { RowBatch } from './row-batch.js'
import type { LossKind } from './train-graph.js'

/** One loaded computation. */
export interface GradientEngine {
  /**
   * Computes one batch. Deterministic: the same call gives the same bits on the same machine.
   *
   * @param adapter adapter tensors by name (`adapterFeeds`), read at each call and not changed
   * @param lossInputs what the loss takes (see `buildTrainGraph`)
   * @param fetches outputs wanted; default all: `loss`, `logp`, `entropy`, of a policy `ratio`, and of each adapter tensor its
   *   gradient (`gradientName`). What is returned is the caller's
   * @throws {RuntimeError} `runtime_failed`
   */
  run(
    batch: RowBatch,
    adapter: Readonly<Record<string, HostTensor>>,
    lossInputs?: Readonly<Record<string, HostTensor>>,
    fetches?: readonly string[],
  ): Promise<Record<string, HostTensor>>
  release(): Promise<void>
}

/** Where the engines of one base model come from. Each call takes memory until its engine is released. */
export interface GradientEngines {
  /** A loss and its gradients. @param options.isRecomputed layers are computed again in the backward pass instead of kept */
  train(loss: LossKind, options: { readonly isRecomputed: boolean }): Promise<GradientEngine>
  /** Log-probabilities alone (`logp`), under adapters of one form. */
  score(adapter: AdapterForm): Promise<GradientEngine>
}

/** What computes a job's gradients, for its record. */
export interface TrainerFacts {
  readonly name: TrainerName
  /** For people: versions and device. */
  readonly description: string
}

/** Where a job's gradients are computed when it is not ONNX Runtime. */
export interface GradientBackend {
  readonly facts: TrainerFacts
  /** The same for the record of who ran the job. */
  readonly computing: ComputingFacts
  /** Bytes that its device can still give beside the weights of a model; null where it has the machine's own memory. */
  availableBytes(prepared: PreparedModel, precision: CommonOptions['precision']): number | null
  /**
   * The engines of a base model.
   *
   * @throws {TrainingError} `precision_unavailable`; what loading the model throws
   */
  engines(options: {
    readonly prepared: PreparedModel
    readonly adapter: AdapterForm
    /** Share of the adapter's inputs that gradients leave out (`masks/dropout.ts`). */
    readonly dropout?: number | undefined
    readonly precision: CommonOptions['precision']
    readonly runtime: Runtime
    readonly threads: number | undefined
  }): Promise<GradientEngines>
  /**
   * Whether it computes on this machine what ONNX Runtime computes.
   *
   * @returns one clause that says how well they agree
   * @throws {TrainingError} `wrong_gradients` where they do not
   */
  check(runtime: Runtime): Promise<string>
}
