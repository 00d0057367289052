/**
 * All weights of a model being trained: initial values, optimizer steps over accumulated micro-batches, exact resumption.
 *
 * For making base models; jobs train adapters (`trainer.ts`). Weights live in host arrays and enter the graph as inputs.
 * Deterministic: the same calls give the same bits on the same machine, across a save and a load as well. A step either
 * changes weights and optimizer together or, when it throws, neither.
 */

import { CheckpointError, TrainingError } from '#base/errors/errors.js'
import { createRng } from '#base/util/rng.js'
import type { DecoderConfig } from '#model/architectures/decoder-config.js'
import { decodeSafetensors, encodeSafetensors } from '#model/weights/safetensors.js'
import { type AdamWOptions, type AdamWState, adamWStep, createAdamWState } from '#numerics/optim/adamw.js'
import { clipGradNorm } from '#numerics/optim/clip-grad-norm.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import { type DecoderParameter, decoderParameters } from '#plugins/torch/parameters.js'
import { addGradients, float32Of } from '#training/trainer/gradients.js'
import type { MicroBatch } from '#training/trainer/learner/learner.js'
import { openGraphSession, openRowSession, type RowSessionOptions } from '#training/trainer/row-session.js'
import { buildFullScoreGraph, buildFullTrainGraph, fullGradients } from './full-graph.js'
import {
  buildOrthogonalizeGraph,
  type MuonMatrix,
  type MuonState,
  muonApply,
  muonMomentum,
  orthogonalName,
} from './muon.js'

/** What is trained: weights by canonical name and the optimizers that move them. Changed in place by steps. */
export interface FullTrainingState {
  readonly weights: ReadonlyMap<string, Float32Array>
  /** Of everything that Muon does not move; its step count is the run's. */
  readonly adamW: AdamWState
  /** Of projection matrices; null where AdamW moves them too. */
  readonly muon: MuonState | null
}

/** Which optimizer moves the projection matrices. Embeddings, norms and biases always have AdamW. */
export type MatrixOptimizer = 'adamw' | 'muon'

/** One optimizer step. Rate and decay are those of both optimizers, the rest is AdamW's. */
export interface FullStepOptions extends Omit<AdamWOptions, 'isDecayed'> {
  /** Largest global norm of the gradient. */
  readonly maxGradientNorm: number
}

/** A trainer holds one session; release it when done. */
export interface FullTrainer {
  /**
   * Makes one optimizer step. Norms and biases do not decay.
   *
   * @param microBatches at least one, `lossInputs` as in `buildFullTrainGraph`; losses add up, so denominators must be the
   *   whole step's
   * @returns summed loss, and the gradient's norm before clipping
   * @throws {TrainingError} `non_finite_loss`; nothing was changed then
   */
  step(
    microBatches: Iterable<MicroBatch>,
    options: FullStepOptions,
  ): Promise<{ readonly loss: number; readonly gradientNorm: number }>
  /** The loss of one batch, without gradients. */
  evaluate(microBatch: MicroBatch): Promise<number>
  release(): Promise<void>
}

/** Standard deviation of initial weights; GPT-2's. */
const INITIAL_DEVIATION = 0.02
const STATE_FORMAT = 'trainyard.full-training'

/**
 * Initial weights: normal with deviation 0.02, projections into the residual stream divided by sqrt(2L) (GPT-2, Radford et al.
 * 2019, section 2.3), norms 1, biases 0.
 *
 * @param seed same seed, same bits
 */
export function initialState(config: DecoderConfig, seed: string, optimizer: MatrixOptimizer): FullTrainingState {
  const rng = createRng(`initial weights ${seed}`)
  const residual = INITIAL_DEVIATION / Math.sqrt(2 * config.layerCount)
  const fill = ({ kind, shape }: DecoderParameter): Float32Array => {
    const data = new Float32Array(shape.reduce((product, size) => product * size, 1))
    if (kind === 'bias') return data
    if (kind === 'norm') return data.fill(1)
    const deviation = kind === 'residual_projection' ? residual : INITIAL_DEVIATION
    return data.map(() => rng.normal() * deviation)
  }
  const weights = new Map(decoderParameters(config).map((parameter) => [parameter.name, fill(parameter)]))
  return { weights, adamW: createAdamWState(), muon: optimizer === 'muon' ? { momentum: new Map() } : null }
}

/**
 * Builds the train graph and its session.
 *
 * @param options.state changed in place by steps
 * @param options.isRecomputed layers are computed again in the backward pass instead of kept; default false
 */
export async function createFullTrainer(options: {
  readonly config: DecoderConfig
  readonly session: RowSessionOptions
  readonly state: FullTrainingState
  readonly isRecomputed?: boolean
}): Promise<FullTrainer> {
  const { config, state, isRecomputed = false } = options
  const parameters = decoderParameters(config)
  const feeds = weightFeeds(parameters, state.weights)
  const decayed = new Set(parameters.filter(({ kind }) => kind !== 'norm' && kind !== 'bias').map(({ name }) => name))
  const matrices = state.muon === null ? [] : muonMatrices(parameters)
  const others = new Map(state.weights)
  for (const { name } of matrices) others.delete(name)
  const train = await openRowSession(buildFullTrainGraph(config, { isRecomputed }), options.session)
  const score = await openRowSession(buildFullScoreGraph(config), options.session)
  const orthogonalize =
    matrices.length === 0 ? null : await openGraphSession(buildOrthogonalizeGraph(matrices), options.session)

  async function moveMatrices(
    gradients: ReadonlyMap<string, Float32Array>,
    step: { readonly learningRate: number; readonly weightDecay: number },
  ): Promise<void> {
    const { muon } = state
    if (muon === null || orthogonalize === null) return
    // The graph may fail: until it has run, the momentum moves in a copy.
    const next: MuonState = { momentum: new Map([...muon.momentum].map(([name, data]) => [name, data.slice()])) }
    const updates = Object.fromEntries(
      matrices.map(({ name, columns }) => {
        const update = muonMomentum(next, name, gradients.get(name) ?? new Float32Array(0), {})
        return [name, float32Tensor(update, [update.length / columns, columns])]
      }),
    )
    const result = await orthogonalize.run(updates)
    for (const [name, data] of next.momentum) muon.momentum.set(name, data)
    for (const { name } of matrices) {
      muonApply(state.weights.get(name) ?? new Float32Array(0), float32Of(result, orthogonalName(name)), step)
    }
  }

  return {
    step: async (microBatches, { maxGradientNorm, ...optimizer }) => {
      const where = `step ${state.adamW.stepCount + 1}`
      const gradients = new Map<string, Float32Array>()
      let loss = 0
      for (const { batch, lossInputs } of microBatches) {
        const result = await train.run(batch, feeds, lossInputs)
        loss += scalarOf(result, 'loss')
        addGradients(gradients, fullGradients(config, batch, result))
      }
      if (gradients.size === 0) throw new RangeError(`${where} has no micro-batch`)
      const gradientNorm = clipGradNorm(gradients.values(), maxGradientNorm)
      if (!Number.isFinite(loss) || !Number.isFinite(gradientNorm)) {
        throw new TrainingError('non_finite_loss', `${where} has loss ${loss} and gradient norm ${gradientNorm}`, {
          hint: 'lower the learning rate',
        })
      }
      await moveMatrices(gradients, optimizer)
      adamWStep(state.adamW, others, gradients, { ...optimizer, isDecayed: (name) => decayed.has(name) })
      return { loss, gradientNorm }
    },
    evaluate: async ({ batch, lossInputs }) => scalarOf(await score.run(batch, feeds, lossInputs, ['loss']), 'loss'),
    release: async () => {
      await train.release()
      await score.release()
      await orthogonalize?.release()
    },
  }
}

/**
 * Everything a later process needs to go on bit by bit: weights, moments, step count, and the caller's own notes.
 *
 * @param notes for example the position in the data
 */
export function encodeFullState(
  state: FullTrainingState,
  notes: Readonly<Record<string, string>> = {},
): Uint8Array<ArrayBuffer> {
  const tensors = new Map<string, HostTensor>()
  const add = (name: string, data: Float32Array): void => {
    tensors.set(name, float32Tensor(data, [data.length]))
  }
  for (const [name, weights] of state.weights) {
    add(`weights.${name}`, weights)
    const moments = state.adamW.moments.get(name)
    if (moments !== undefined) {
      add(`first.${name}`, moments.first)
      add(`second.${name}`, moments.second)
    }
    const momentum = state.muon?.momentum.get(name)
    if (momentum !== undefined) add(`momentum.${name}`, momentum)
  }
  const metadata = {
    ...notes,
    format: STATE_FORMAT,
    step_count: String(state.adamW.stepCount),
    optimizer: state.muon === null ? 'adamw' : 'muon',
  }
  return encodeSafetensors(tensors, metadata)
}

/**
 * Restores what `encodeFullState` wrote.
 *
 * @throws {CheckpointError} `checkpoint_corrupt` if the bytes are no such state of this decoder
 */
export function decodeFullState(
  bytes: Uint8Array,
  config: DecoderConfig,
): { readonly state: FullTrainingState; readonly notes: ReadonlyMap<string, string> } {
  const { tensors, metadata } = parseState(bytes)
  const stepCount = Number(metadata.get('step_count') || Number.NaN)
  const optimizer = metadata.get('optimizer')
  const isKnown = optimizer === 'adamw' || optimizer === 'muon'
  if (metadata.get('format') !== STATE_FORMAT || !isKnown || !Number.isSafeInteger(stepCount) || stepCount < 0) {
    throw new CheckpointError('checkpoint_corrupt', 'the file is not a training state of all weights')
  }
  const parameters = decoderParameters(config)
  const muon = optimizer === 'muon' ? { momentum: new Map<string, Float32Array>() } : null
  const byMuon = new Set(muon === null ? [] : muonMatrices(parameters).map(({ name }) => name))
  const unread = new Set(tensors.keys())
  const weights = new Map<string, Float32Array>()
  const adamW = createAdamWState()
  adamW.stepCount = stepCount
  for (const { name, shape } of parameters) {
    const size = shape.reduce((product, dim) => product * dim, 1)
    const read = (kind: string): Float32Array => {
      const tensor = tensors.get(`${kind}.${name}`)
      unread.delete(`${kind}.${name}`)
      if (tensor?.dtype === 'float32' && tensor.data.length === size) return tensor.data
      const message = `the training state has no ${kind} of "${name}" with ${size} elements`
      throw new CheckpointError('checkpoint_corrupt', message)
    }
    weights.set(name, read('weights'))
    if (stepCount === 0) continue
    if (byMuon.has(name)) muon?.momentum.set(name, read('momentum'))
    else adamW.moments.set(name, { first: read('first'), second: read('second') })
  }
  // A decoder with more layers, biases or a head of its own has all that a smaller one reads.
  const [left] = unread
  if (left !== undefined) {
    throw new CheckpointError('checkpoint_corrupt', `the training state has "${left}", which this decoder has not`)
  }
  return { state: { weights, adamW, muon }, notes: metadata }
}

function parseState(bytes: Uint8Array): ReturnType<typeof decodeSafetensors> {
  try {
    return decodeSafetensors(bytes, 'training state')
  } catch (cause) {
    throw new CheckpointError('checkpoint_corrupt', 'the training state is not a safetensors file', { cause })
  }
}

/** The matrices Muon moves: projections, each of a joined one for itself. */
function muonMatrices(parameters: readonly DecoderParameter[]): readonly MuonMatrix[] {
  return parameters.flatMap(({ name, shape, kind, parts }) =>
    kind === 'projection' || kind === 'residual_projection'
      ? [{ name, columns: shape[1] ?? 1, blockRows: parts.map(({ rows }) => rows) }]
      : [],
  )
}

function weightFeeds(
  parameters: readonly DecoderParameter[],
  weights: ReadonlyMap<string, Float32Array>,
): Record<string, HostTensor> {
  return Object.fromEntries(
    parameters.map(({ name, shape }) => {
      const data = weights.get(name)
      if (data === undefined) throw new Error(`no weights for parameter "${name}"`)
      return [name, float32Tensor(data, shape)]
    }),
  )
}

function scalarOf(result: Readonly<Record<string, HostTensor>>, name: string): number {
  return float32Of(result, name)[0] as number
}
