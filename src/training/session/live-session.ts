/**
 * A training session: one adapter that stays in memory with its moments and the gradients that have been added up since
 * the last step.
 *
 * What a job does in one go is a separate call here: gradients of rows, an update, the state as files. Deterministic:
 * the same calls from the same state give the same bits on the same machine, so a session that lost its process is
 * restored by repeating the calls after its last stored state. A call does all that it says or, when it throws, changes
 * nothing.
 */
import { TrainingError } from '#base/errors/errors.js'
import type { CheckedLossRequest } from '#formats/training-loop/loss-inputs.js'
import type { LossOutput } from '#formats/training-loop/results.js'
import type { PreparedModel } from '#model/architectures/prepare.js'
import type { AdapterWeights } from '#model/weights/adapter.js'
import { type AdamWState, adamWStep } from '#numerics/optim/adamw.js'
import { clipGradNorm } from '#numerics/optim/clip-grad-norm.js'
import type { Runtime } from '#numerics/runtime/runtime.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import { addGradients, float32Of, gradientsOf } from '#training/trainer/gradients.js'
import { isOutOfMemory, memoryRemedy } from '#training/trainer/memory.js'
import { perToken } from '#training/trainer/row-batch.js'
import { gradientName } from '#training/trainer/train-graph.js'
import { adapterFeeds, adapterParameters } from '#training/trainer/trainer.js'
import { createSessionEngines, type SessionEngines } from './session-engines.js'
import { type GraphSettings, graphSettings, lossOfRow, sequenceWeights } from './session-losses.js'
import { type SessionBatch, scatterTokens, toSessionBatches } from './session-rows.js'

/** Settings of one update. */
export interface StepSettings {
  readonly learningRate: number
  readonly beta1: number
  readonly beta2: number
  readonly epsilon: number
  readonly weightDecay: number
  /** Largest global norm of the gradient; 0: any. */
  readonly maxGradientNorm: number
}

/** What a session holds; changed in place by its calls. */
export interface SessionState {
  readonly adapter: AdapterWeights
  readonly optimizer: AdamWState
  /** Added up since the last update; empty: nothing was. */
  readonly gradients: Map<string, Float32Array>
}

export interface LiveSessionOptions {
  readonly prepared: PreparedModel
  readonly runtime: Runtime
  readonly state: SessionState
  /** Whether the module of this path is trained; the others stay as they are. */
  readonly isTrained: (modulePath: string) => boolean
  /** Threads inside one operator; default all cores. */
  readonly threads?: number
}

export interface LiveSession {
  readonly state: SessionState
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
  optimStep(settings: StepSettings): { readonly gradientNorm: number }
  release(): Promise<void>
}

/** Opens a session; engines are made when they are first needed. Memory: the engines', and one set of gradients. */
export function createLiveSession(options: LiveSessionOptions): LiveSession {
  const { state, isTrained } = options
  const engines = createSessionEngines({ ...options, adapter: state.adapter })
  const feeds = adapterFeeds(state.adapter)
  const trained = new Map(
    [...adapterParameters(state.adapter)].filter(([name]) => isTrained(name.replace(/\.lora_[AB]\.weight$/, ''))),
  )
  const session = { engines, feeds, trained: [...trained.keys()] }
  return {
    state,
    forwardBackward: async (request) => {
      const { sequences, loss, config } = request
      const settings = graphSettings(loss, config)
      const batches = toSessionBatches(sequences)
      const logprobs = sequences.map(({ tokens }) => new Float32Array(tokens.length))
      const isScored = request.isForwardOnly || settings === null
      if (isScored) await scoreBatches(session, batches, logprobs)
      const sums = new Map<string, Float32Array>()
      if (!request.isForwardOnly) {
        const weighted =
          settings === null
            ? sequences.map((row, i) => ({
                ...row,
                advantages: sequenceWeights(config, row, logprobs[i] as Float32Array),
                logprobs: new Float32Array(row.tokens.length),
              }))
            : sequences
        const form = settings ?? (graphSettings('cross_entropy', {}) as GraphSettings)
        await addBatches(session, { batches, sequences: weighted, settings: form, logprobs, sums })
      }
      const total = sequences.reduce(
        (sum, row, i) => sum + lossOfRow(loss, config, row, logprobs[i] as Float32Array),
        0,
      )
      if (!Number.isFinite(total)) {
        throw new TrainingError('non_finite_loss', `the loss of these rows is ${total}`, {
          hint: 'lower the learning rate, or check the log-probabilities and advantages of the rows',
        })
      }
      addGradients(state.gradients, sums)
      return { logprobs, metrics: { 'loss:sum': total } }
    },
    optimStep: ({ maxGradientNorm, ...settings }) => {
      if (state.gradients.size === 0) {
        throw new TrainingError('no_gradients', 'there are no gradients to apply', {
          hint: 'call forward_backward before optim_step; one that failed has added none',
        })
      }
      const gradients = new Map(state.gradients)
      state.gradients.clear()
      const limit = maxGradientNorm > 0 ? maxGradientNorm : Number.POSITIVE_INFINITY
      const gradientNorm = clipGradNorm(gradients.values(), limit)
      if (!Number.isFinite(gradientNorm)) {
        throw new TrainingError('non_finite_gradient', `the gradient has norm ${gradientNorm} and was dropped`)
      }
      adamWStep(state.optimizer, trained, gradients, settings)
      return { gradientNorm }
    },
    release: () => engines.release(),
  }
}

interface Session {
  readonly engines: SessionEngines
  readonly feeds: Readonly<Record<string, HostTensor>>
  readonly trained: readonly string[]
}

async function scoreBatches(
  { engines, feeds }: Session,
  batches: readonly SessionBatch[],
  logprobs: Float32Array[],
): Promise<void> {
  for (const part of batches) {
    const engine = await engines.score(part.batch)
    const result = await guarded(() => engine.run(part.batch, feeds, {}, ['logp']))
    scatterTokens(logprobs, part, float32Of(result, 'logp'))
  }
}

interface Work {
  readonly batches: readonly SessionBatch[]
  readonly sequences: CheckedLossRequest['sequences']
  readonly settings: GraphSettings
  /** Filled. */
  readonly logprobs: Float32Array[]
  /** Added to. */
  readonly sums: Map<string, Float32Array>
}

async function addBatches({ engines, feeds, trained }: Session, work: Work): Promise<void> {
  const fetches = ['logp', ...trained.map(gradientName)]
  for (const part of work.batches) {
    const engine = await engines.train(part.batch, work.settings.form)
    const inputs = lossInputs(part, work)
    const result = await guarded(() => engine.run(part.batch, feeds, inputs, fetches))
    scatterTokens(work.logprobs, part, float32Of(result, 'logp'))
    addGradients(work.sums, gradientsOf(result, trained))
  }
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

/** A run that ran out of memory says so; every other failure is passed on unchanged. */
async function guarded<T>(run: () => Promise<T>): Promise<T> {
  try {
    return await run()
  } catch (cause) {
    if (!isOutOfMemory(cause)) throw cause
    throw new TrainingError('out_of_memory', 'memory ran out while these rows were computed', {
      cause,
      hint: memoryRemedy({ loss: 'summed', measured: null }),
    })
  }
}
