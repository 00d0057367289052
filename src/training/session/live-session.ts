/**
 * The calls of a training session: what a job does in one go is a separate call of its learner here.
 *
 * Knows the losses of sessions, and how rows become micro-batches. Deterministic:
 * the same calls from the same state give the same bits on the same machine, so a session that lost its process is
 * restored by repeating the calls after its last stored state. A call does all that it says or, when it throws, changes
 * nothing.
 */
import { TrainingError } from '#base/errors/errors.js'
import type { CheckedLossRequest, LossSequence } from '#formats/training-loop/loss-inputs.js'
import type { LossOutput } from '#formats/training-loop/results.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import type { Learner, OptimizerStep } from '#training/trainer/learner/learner.js'
import { isOutOfMemory, MICRO_BATCH_TOKENS, memoryRemedy } from '#training/trainer/memory.js'
import { labelledRow, perToken, type RowBatch, toRowBatch } from '#training/trainer/row-batch.js'
import { type GraphSettings, graphSettings, lossOfRow, sequenceWeights } from './session-losses.js'

// Rows of a training session as micro-batches: similar lengths together, every position trained, by the data alone.

/** Rows are padded to a multiple of this, so that memory is reused between steps of similar length. */
const ROW_MULTIPLE = 16

/** Rows that go through the graph together. */
interface SessionBatch {
  readonly batch: RowBatch
  /** Index in the request of each row of the batch. */
  readonly rows: readonly number[]
}

/** Cuts a request's rows into batches, the longest first; a row beyond the limit goes alone. */
function toSessionBatches(sequences: readonly Pick<LossSequence, 'tokens' | 'targets'>[]): SessionBatch[] {
  const order = sequences
    .map(({ tokens }, index) => ({ index, length: padded(tokens.length) }))
    .sort((a, b) => b.length - a.length || a.index - b.index)
  const parts: { readonly length: number; readonly rows: number[] }[] = []
  for (const { index, length } of order) {
    const part = parts.at(-1)
    if (part !== undefined && (part.rows.length + 1) * part.length <= MICRO_BATCH_TOKENS) part.rows.push(index)
    else parts.push({ length, rows: [index] })
  }
  return parts.map(({ length, rows }) => {
    const labelled = rows.map((index) => {
      const { tokens, targets } = sequences[index] as LossSequence
      return labelledRow(tokens, targets)
    })
    return { batch: toRowBatch(labelled, { length }), rows }
  })
}

/** Per-token outputs of a batch as one array per row of the request. */
function scatterTokens(into: Float32Array[], { batch, rows }: SessionBatch, values: Float32Array): void {
  batch.trained.forEach(({ row, index }, n) => {
    const target = into[rows[row] as number] as Float32Array
    // a label stands at the position that predicts it
    target[index - 1] = values[n] as number
  })
}

function padded(length: number): number {
  return Math.ceil(length / ROW_MULTIPLE) * ROW_MULTIPLE
}

export interface LiveSession {
  readonly learner: Learner
  /**
   * Log-probabilities under the targets, and the loss; adds its gradient to the sums unless the request is forward only.
   *
   * @throws {TrainingError} `non_finite_loss`, `out_of_memory`
   */
  forwardBackward(request: CheckedLossRequest): Promise<LossOutput>
  /**
   * Applies the gradients and drops them.
   *
   * @returns the gradient's norm before clipping
   * @throws {TrainingError} `no_gradients`; `non_finite_gradient`, and the gradients are dropped
   */
  optimStep(step: OptimizerStep): Promise<{ readonly gradientNorm: number }>
}

export function createLiveSession(learner: Learner): LiveSession {
  return {
    learner,
    forwardBackward: async (request) => {
      const { sequences, loss, config } = request
      const settings = graphSettings(loss, config)
      const batches = toSessionBatches(sequences)
      const logprobs = sequences.map(({ tokens }) => new Float32Array(tokens.length))
      const assertFinite = (): number => {
        const lossOf = (row: LossSequence, i: number) => lossOfRow(loss, config, row, logprobs[i] as Float32Array)
        const total = sequences.reduce((sum, row, i) => sum + lossOf(row, i), 0)
        if (Number.isFinite(total)) return total
        throw new TrainingError('non_finite_loss', `the loss of these rows is ${total}`, {
          hint: 'lower the learning rate, or check the log-probabilities and advantages of the rows',
        })
      }
      if (request.isForwardOnly || settings === null) await scoreBatches(learner, batches, logprobs)
      if (request.isForwardOnly) return { logprobs, metrics: { 'loss:sum': assertFinite() } }
      const weighted =
        settings === null
          ? sequences.map((row, i) => ({
              ...row,
              advantages: sequenceWeights(config, row, logprobs[i] as Float32Array),
              logprobs: new Float32Array(row.tokens.length),
            }))
          : sequences
      const form = settings ?? (graphSettings('cross_entropy', {}) as GraphSettings)
      let total = 0
      await addBatches(learner, { batches, sequences: weighted, settings: form, logprobs }, () => {
        total = assertFinite()
      })
      return { logprobs, metrics: { 'loss:sum': total } }
    },
    optimStep: async (step) => {
      const { gradientNorm } = await learner.update(step)
      if (Number.isFinite(gradientNorm)) return { gradientNorm }
      throw new TrainingError('non_finite_gradient', `the gradient has norm ${gradientNorm} and was dropped`)
    },
  }
}

async function scoreBatches(
  learner: Learner,
  batches: readonly SessionBatch[],
  logprobs: Float32Array[],
): Promise<void> {
  for (const part of batches) {
    scatterTokens(logprobs, part, await guarded(() => learner.score(part.batch, 'current')))
  }
}

interface Work {
  readonly batches: readonly SessionBatch[]
  readonly sequences: CheckedLossRequest['sequences']
  readonly settings: GraphSettings
  /** Filled. */
  readonly logprobs: Float32Array[]
}

/** @param check called when all log-probabilities are there; what it throws leaves the learner as it was */
async function addBatches(learner: Learner, work: Work, check: () => void): Promise<void> {
  const { batches, settings, logprobs } = work
  const microBatches = batches.map(({ batch, rows }) => ({ batch, lossInputs: lossInputs({ batch, rows }, work) }))
  await guarded(() =>
    learner.accumulate(microBatches, { kind: 'summed', form: settings.form }, ({ outputs }) => {
      const at = outputs.length - 1
      scatterTokens(logprobs, batches[at] as SessionBatch, outputs[at]?.logp ?? new Float32Array(0))
      if (outputs.length === batches.length) check()
    }),
  )
}

function lossInputs({ batch, rows }: SessionBatch, { sequences, settings }: Work): Record<string, HostTensor> {
  const read = (name: 'advantages' | 'logprobs') =>
    perToken(batch, ({ row, index }) => sequences[rows[row] as number]?.[name][index - 1] as number)
  const scalar = (value: number): HostTensor => float32Tensor(Float32Array.of(value), [])
  return {
    advantage: read('advantages'),
    old_logp: read('logprobs'),
    mask: perToken(batch, () => 1),
    low: scalar(settings.low),
    high: scalar(settings.high),
    half_beta: scalar(settings.halfBeta),
  }
}

/** A run that ran out of memory says so; every other failure, rows that a plan refuses too, is passed on unchanged. */
async function guarded<T>(run: () => Promise<T>): Promise<T> {
  try {
    return await run()
  } catch (cause) {
    if (cause instanceof TrainingError || !isOutOfMemory(cause)) throw cause
    throw new TrainingError('out_of_memory', 'memory ran out while these rows were computed', {
      cause,
      hint: memoryRemedy({ loss: 'summed', measured: null }),
    })
  }
}
