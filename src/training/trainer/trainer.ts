/**
 * One adapter being trained: gradients from an engine, summed over micro-batches, clipped, applied by AdamW.
 *
 * Knows nothing of trajectories or examples: it takes batches with their loss inputs. Deterministic: the same calls give the
 * same bits on the same machine. A step either changes adapter and optimizer together or, when it throws, neither.
 */
import { TrainingError } from '#base/errors/errors.js'
import type { Clock } from '#base/util/clock.js'
import type { AdapterWeights } from '#model/weights/adapter.js'
import { rankOf } from '#model/weights/adapter-config.js'
import { type AdamWState, adamWStep } from '#numerics/optim/adamw.js'
import { clipGradNorm } from '#numerics/optim/clip-grad-norm.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import type { GradientEngines } from './gradient-engine.js'
import { addGradients, float32Of, gradientsOf } from './gradients.js'
import type { Dropout } from './masks/dropout.js'
import { isOutOfMemory, memoryRemedy } from './memory.js'
import type { OptimizerSettings } from './optimizer-settings.js'
import type { RowBatch } from './row-batch.js'
import { adapterTensorNames } from './row-decoder.js'
import type { LossKind } from './train-graph.js'

/** Rows that go through the graph together. */
export interface MicroBatch {
  readonly batch: RowBatch
  /** `weight`, `denominator` and what else the loss takes (see `buildTrainGraph`). */
  readonly lossInputs: Readonly<Record<string, HostTensor>>
}

/** What the engine returned for one micro-batch; arrays follow `batch.trained`, padding at the end. */
export interface TokenOutputs {
  readonly logp: Float32Array
  readonly entropy: Float32Array
  /** Importance ratio before clipping; null for SFT. */
  readonly ratio: Float32Array | null
}

/** One optimizer step. */
export interface StepResult {
  /** Sum over micro-batches. */
  readonly loss: number
  /** Global norm of the gradient before clipping. */
  readonly gradientNorm: number
  /** One per micro-batch. */
  readonly outputs: readonly TokenOutputs[]
  /** False when the caller did not want the update. */
  readonly isMade: boolean
  /** Time of the engine's runs and of the update; 0 without a clock. */
  readonly seconds: { readonly gradient: number; readonly optimizer: number }
}

/** A trainer holds one engine; release it when done. */
export interface Trainer {
  /** The adapter as it is now; its arrays change with every step. */
  readonly adapter: AdapterWeights
  readonly optimizer: AdamWState
  /**
   * Makes one optimizer step.
   *
   * @param microBatches at least one; their losses add up, so their denominators must be the whole step's
   * @param options.gradientStep what errors call this step: its number in the job. Default: counted over all jobs of the adapter
   * @param options.isWanted asked before the update; false leaves adapter and optimizer as they are. Default true
   * @throws {TrainingError} `non_finite_loss` naming the step; `out_of_memory`. Nothing was changed then
   */
  step(
    microBatches: readonly MicroBatch[],
    options: {
      readonly learningRate: number
      readonly gradientStep?: number
      readonly isWanted?: (outputs: readonly TokenOutputs[]) => boolean
    },
  ): Promise<StepResult>
  release(): Promise<void>
}

/** How a trainer is made. */
export interface TrainerOptions {
  /** Where losses and gradients are computed. */
  readonly engines: GradientEngines
  readonly loss: LossKind
  /** Changed in place by steps. */
  readonly adapter: AdapterWeights
  /** Changed in place by steps. */
  readonly optimizer: AdamWState
  readonly settings: OptimizerSettings
  /** Layers are computed again in the backward pass instead of kept; default false. See `memory.ts`. */
  readonly isRecomputed?: boolean
  /** Measures where a step's time goes. */
  readonly clock?: Clock
  /** Of the graphs that the engines have. */
  readonly dropout?: Dropout
}

/** The adapter's tensors by graph name, sharing memory with the adapter. */
export function adapterParameters(adapter: AdapterWeights): ReadonlyMap<string, Float32Array> {
  const parameters = new Map<string, Float32Array>()
  for (const [path, a] of adapter.a) {
    const b = adapter.b.get(path)
    if (b === undefined) throw new Error(`adapter has no B for "${path}"`)
    const names = adapterTensorNames(path)
    parameters.set(names.a, a).set(names.b, b)
  }
  return parameters
}

/** The adapter as graph inputs, sharing memory with it. */
export function adapterFeeds(adapter: AdapterWeights): Record<string, HostTensor> {
  const feeds: Record<string, HostTensor> = {}
  for (const [path, a] of adapter.a) {
    const rank = rankOf(adapter.config, path)
    const b = adapter.b.get(path) ?? new Float32Array(0)
    const names = adapterTensorNames(path)
    feeds[names.a] = float32Tensor(a, [rank, a.length / rank])
    feeds[names.b] = float32Tensor(b, [b.length / rank, rank])
  }
  return feeds
}

/**
 * Opens an engine for the loss.
 *
 * Memory: what the engine takes, and one sum of gradients while a step runs.
 */
export async function createTrainer(options: TrainerOptions): Promise<Trainer> {
  const { adapter, optimizer, settings, clock, dropout, isRecomputed = false } = options
  const nowMs = (): number => clock?.monotonicMs() ?? 0
  const engine = await options.engines.train(options.loss, { isRecomputed })
  const parameters = adapterParameters(adapter)
  const feeds = adapterFeeds(adapter)
  const outputNames = new Set([...adapter.b.keys()].map((path) => adapterTensorNames(path).b))
  const rateRatioOf = (name: string): number => (outputNames.has(name) ? (settings.outputRateRatio ?? 1) : 1)
  return {
    adapter,
    optimizer,
    step: async (microBatches, { learningRate, gradientStep, isWanted }) => {
      const where = `gradient step ${gradientStep ?? optimizer.stepCount + 1}`
      const startedMs = nowMs()
      const outputs: TokenOutputs[] = []
      const gradients = new Map<string, Float32Array>()
      let loss = 0
      for (const [part, { batch, lossInputs }] of microBatches.entries()) {
        const masks = dropout?.feeds({ step: optimizer.stepCount, part, tokens: batch.positions.length }) ?? {}
        const inputs = { ...lossInputs, ...masks }
        const result = await guarded({ where, loss: options.loss.kind }, () => engine.run(batch, feeds, inputs))
        loss += float32Of(result, 'loss')[0] as number
        if (!Number.isFinite(loss)) throw nonFinite(`the loss of ${where} is ${loss}`, options.loss.kind)
        addGradients(gradients, gradientsOf(result, parameters.keys()))
        outputs.push({
          logp: float32Of(result, 'logp'),
          entropy: float32Of(result, 'entropy'),
          ratio: result['ratio'] === undefined ? null : float32Of(result, 'ratio'),
        })
      }
      const computedMs = nowMs()
      const gradientNorm = clipGradNorm(gradients.values(), settings.maxGradientNorm)
      if (!Number.isFinite(gradientNorm)) {
        throw nonFinite(`the gradient of ${where} has norm ${gradientNorm}`, options.loss.kind)
      }
      const isMade = isWanted?.(outputs) ?? true
      if (isMade) adamWStep(optimizer, parameters, gradients, { ...settings, learningRate, rateRatioOf })
      const seconds = { gradient: (computedMs - startedMs) / 1000, optimizer: (nowMs() - computedMs) / 1000 }
      return { loss, gradientNorm, outputs, isMade, seconds }
    },
    release: () => engine.release(),
  }
}

/** A run that ran out of memory names the step; every other failure is passed on unchanged. */
async function guarded<T>(
  { where, loss }: { readonly where: string; readonly loss: LossKind['kind'] },
  run: () => Promise<T>,
): Promise<T> {
  try {
    return await run()
  } catch (cause) {
    if (!isOutOfMemory(cause)) throw cause
    throw new TrainingError('out_of_memory', `memory ran out in ${where}`, {
      cause,
      hint: memoryRemedy({ loss, measured: null }),
    })
  }
}

function nonFinite(message: string, loss: LossKind['kind']): TrainingError {
  const check = loss === 'policy' ? ', or check the log-probabilities and rewards of the job' : ''
  return new TrainingError('non_finite_loss', message, { hint: `lower the learning rate${check}` })
}
