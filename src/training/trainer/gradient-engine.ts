/**
 * What a learner whose weights lie in this process asks of whoever computes losses, gradients and scores of rows.
 *
 * An engine knows the frozen base model and rows of tokens. Sums, clipping, AdamW and marks are
 * `learner/engine-learner.ts`.
 * There are two, `onnx-engine.ts` and that of the plugin `torch`; each has to pass
 * `test/integration/training/conformance/gradient-engine.ts`.
 */
import type { AdapterForm } from '#model/weights/adapter-config.js'
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
