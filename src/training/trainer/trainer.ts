/**
 * The gradient steps of a job on one loss: each is accumulated by a learner over its micro-batches, and made or discarded.
 *
 * Knows nothing of trajectories or examples: it takes batches with their loss inputs. Deterministic: the same calls give the
 * same bits on the same machine. A step either changes the learner or, when it throws, leaves it as it was.
 */
import { TrainingError } from '#base/errors/errors.js'
import type { Clock } from '#base/util/clock.js'
import type { Learner, MicroBatch, TokenOutputs } from './learner/learner.js'
import type { Dropout } from './masks/dropout.js'
import { isOutOfMemory, memoryRemedy } from './memory.js'
import type { OptimizerSettings } from './optimizer-settings.js'
import type { LossKind } from './train-graph.js'

/** One optimizer step. */
export interface StepResult {
  /** Sum over micro-batches. */
  readonly loss: number
  /** Global norm of the gradient before clipping; NaN where the update was not made. */
  readonly gradientNorm: number
  /** One per micro-batch. */
  readonly outputs: readonly TokenOutputs[]
  /** False when the caller did not want the update. */
  readonly isMade: boolean
  /** Time of the gradients and of the update; 0 without a clock. */
  readonly seconds: { readonly gradient: number; readonly optimizer: number }
}

export interface Trainer {
  /**
   * Makes one optimizer step.
   *
   * @param microBatches at least one; their losses add up, so their denominators must be the whole step's
   * @param options.gradientStep what errors call this step: its number in the job. Default: counted over all jobs of the adapter
   * @param options.isWanted asked before the update; false discards the gradients. Default true
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
}

/** How a trainer is made. */
export interface TrainerOptions {
  readonly learner: Learner
  readonly loss: LossKind
  readonly settings: OptimizerSettings
  /** Measures where a step's time goes. */
  readonly clock?: Clock
  /** What the learner was opened with. */
  readonly dropout?: Dropout
}

/** Has the learner load what the loss needs. */
export async function createTrainer({ learner, loss, settings, clock, dropout }: TrainerOptions): Promise<Trainer> {
  const nowMs = (): number => clock?.monotonicMs() ?? 0
  const withMasks = ({ batch, lossInputs }: MicroBatch, part: number): MicroBatch => {
    const masks = dropout?.feeds({ step: learner.updateCount, part, tokens: batch.positions.length })
    return masks === undefined ? { batch, lossInputs } : { batch, lossInputs: { ...lossInputs, ...masks } }
  }
  await learner.prepare(loss)
  return {
    step: async (microBatches, { learningRate, gradientStep, isWanted }) => {
      const where = `gradient step ${gradientStep ?? learner.updateCount + 1}`
      const startedMs = nowMs()
      const computed = await guarded({ where, loss: loss.kind }, () =>
        learner.accumulate(microBatches.map(withMasks), loss, ({ loss: sofar }) => {
          if (!Number.isFinite(sofar)) throw nonFinite(`the loss of ${where} is ${sofar}`, loss.kind)
        }),
      )
      const computedMs = nowMs()
      const isMade = isWanted?.(computed.outputs) ?? true
      const gradientNorm = isMade ? await update(where, learningRate) : Number.NaN
      if (!isMade) await learner.discard()
      const seconds = { gradient: (computedMs - startedMs) / 1000, optimizer: (nowMs() - computedMs) / 1000 }
      return { ...computed, gradientNorm, isMade, seconds }
    },
  }

  async function update(where: string, learningRate: number): Promise<number> {
    const { gradientNorm } = await learner.update({ ...settings, learningRate })
    if (Number.isFinite(gradientNorm)) return gradientNorm
    throw nonFinite(`the gradient of ${where} has norm ${gradientNorm}`, loss.kind)
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
