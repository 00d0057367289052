/**
 * Losses of a training session: values against formulas in float64, gradients against derivatives by central differences, taken to the
 * adapter by the cross-entropy graph whose numbers are PyTorch's (`conformance/gradient-engine.ts`). Two families of models.
 *
 * Tolerance: 1e-4 relative to the largest number of each tensor.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { LossSequence, SummedLoss } from '#formats/training-loop/loss-inputs.js'
import { SUMMED_LOSSES } from '#formats/training-loop/loss-inputs.js'
import { createAdamWState } from '#numerics/optim/adamw.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import { createLiveSession, type LiveSession } from '#training/session/live-session.js'
import type { LearnerState } from '#training/trainer/learner/learner.js'
import { openOnnxLearner, rowSettings } from '#training/trainer/learner/onnx-learner.js'
import { adapterFeeds } from '#training/trainer/learner/parameters.js'
import { labelledRow, perToken, toRowBatch } from '#training/trainer/row-batch.js'
import { gradientName } from '#training/trainer/train-graph.js'
import { type DecoderGolden, formulaAdapter, readGolden } from '../../support/model/decoder-goldens.js'
import { prepareFormulaModel } from '../../support/model/golden-model.js'

const TOLERANCE = 1e-4
const CONFIGS: Readonly<Record<SummedLoss, Readonly<Record<string, number>>>> = {
  cross_entropy: {},
  importance_sampling: {},
  ppo: { clip_low_threshold: 0.8, clip_high_threshold: 1.2 },
  cispo: { clip_low_threshold: 0.7, clip_high_threshold: 1.1 },
  dro: { beta: 0.3 },
  gspo: { clip_low_threshold: 0.5, clip_high_threshold: 1.5 },
}

/** Rows whose given log-probabilities lie around the model's own, so that some ratios are clipped on each side. */
function makeRows(logprobs: readonly Float32Array[]): LossSequence[] {
  return TOKENS.map((tokens, r) => {
    const noise = (i: number): number => 0.5 * Math.sin(7 * i + 3 * r)
    const own = logprobs[r] as Float32Array
    return {
      tokens: Int32Array.from(tokens),
      targets: Int32Array.from(tokens, (id, i) => tokens[i + 1] ?? (id + 5) % 20),
      advantages: Float32Array.from(tokens, (_, i) => Math.cos(5 * i + r)),
      logprobs: Float32Array.from(own, (logp, i) => logp + noise(i)),
      ratioMask: Float32Array.from(tokens, (_, i) => (i % 3 === 0 ? 0 : 1)),
    }
  })
}

const TOKENS = [
  [1, 4, 9, 3, 7, 2, 8, 5],
  [2, 6, 1, 9],
  [3, 3, 8, 1, 5, 2],
]

/** One row's loss, by the formulas of the documents; `fixed` is where sg(…) is taken. */
function formula(loss: SummedLoss, row: LossSequence, logp: Float64Array, fixed: Float64Array): number {
  const { clip_low_threshold: low = 0, clip_high_threshold: high = Number.POSITIVE_INFINITY, beta = 0 } = CONFIGS[loss]
  const clip = (ratio: number): number => Math.min(high, Math.max(low, ratio))
  let mean = 0
  let count = 0
  logp.forEach((value, i) => {
    const bit = row.ratioMask?.[i] ?? 0
    count += bit
    mean += bit * (value - (row.logprobs[i] as number))
  })
  const sequence = Math.exp(mean / count)
  const lossOf = (value: number, i: number): number => {
    const a = row.advantages[i] as number
    const q = row.logprobs[i] as number
    const ratio = Math.exp(value - q)
    switch (loss) {
      case 'cross_entropy':
        return -a * value
      case 'importance_sampling':
        return -ratio * a
      case 'ppo':
        return -Math.min(ratio * a, clip(ratio) * a)
      case 'cispo':
        return -clip(Math.exp((fixed[i] as number) - q)) * a * value
      case 'dro':
        return -(a * value - (beta / 2) * (value - q) ** 2)
      case 'gspo':
        return -(row.ratioMask?.[i] ?? 0) * Math.min(sequence * a, clip(sequence) * a)
    }
  }
  return logp.reduce((sum, value, i) => sum + lossOf(value, i), 0)
}

/** Minus the loss's derivative by each log-probability. */
function weightsOf(loss: SummedLoss, row: LossSequence, logprobs: Float32Array): Float32Array {
  const at = Float64Array.from(logprobs)
  const h = 1e-5
  return Float32Array.from(at, (value, i) => {
    const moved = (by: number): number => formula(loss, row, at.with(i, value + by), at)
    return -(moved(h) - moved(-h)) / (2 * h)
  })
}

describe.each(['llama', 'qwen3'])('a training session of %s', (variant) => {
  const golden = readGolden<DecoderGolden>(`decoder-${variant}.json`)
  const runtime = createOrtRuntime()
  let directory: string
  let open: () => Promise<LiveSession & { readonly state: LearnerState }>
  let referenceGradient: (
    rows: readonly LossSequence[],
    weights: readonly Float32Array[],
  ) => Promise<Map<string, Float32Array>>
  const stateOf = (): LearnerState => ({
    adapter: formulaAdapter(golden.config, golden.adapter.rank, golden.adapter.alpha),
    optimizer: createAdamWState(),
    gradients: new Map(),
  })

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'trainyard-session-'))
    const prepared = await prepareFormulaModel(golden.config, directory)
    open = async () => {
      const state = stateOf()
      const learner = await openOnnxLearner({ prepared, runtime, state, precision: 'f32', rows: null })
      return { ...createLiveSession(learner), state }
    }
    referenceGradient = async (rows, weights) => {
      const { adapter } = stateOf()
      const { engines } = await rowSettings(
        { prepared, runtime, adapter: adapter.config, precision: 'f32' },
        { longestRow: 8 },
      )
      const engine = await engines.train({ kind: 'cross_entropy' }, { isRecomputed: false })
      const batch = toRowBatch(rows.map(({ tokens, targets }) => labelledRow(tokens, targets)))
      const weight = perToken(batch, ({ row, index }) => weights[row]?.[index - 1] as number)
      const inputs = { weight, denominator: float32Tensor(Float32Array.of(1), []) }
      const result = await engine.run(batch, adapterFeeds(adapter), inputs)
      await engine.release()
      const names = Object.keys(adapterFeeds(adapter))
      return new Map(names.map((name) => [name, result[gradientName(name)]?.data as Float32Array]))
    }
  })
  afterAll(() => rm(directory, { recursive: true, force: true, maxRetries: 20 }))

  async function ownLogprobs(session: LiveSession): Promise<readonly Float32Array[]> {
    const blank = makeRows(TOKENS.map((tokens) => new Float32Array(tokens.length)))
    const request = { loss: 'cross_entropy', config: {}, isForwardOnly: true, sequences: blank } as const
    return (await session.forwardBackward(request)).logprobs
  }

  it.each(Object.keys(SUMMED_LOSSES) as SummedLoss[])('%s: value and gradient', async (loss) => {
    const session = await open()
    const logprobs = await ownLogprobs(session)
    const sequences = makeRows(logprobs)
    const request = { loss, config: CONFIGS[loss], isForwardOnly: false, sequences }
    const answer = await session.forwardBackward(request)
    const expected = sequences.reduce((sum, row, i) => {
      const at = Float64Array.from(logprobs[i] as Float32Array)
      return sum + formula(loss, row, at, at)
    }, 0)
    expect(answer.metrics['loss:sum']).toBeCloseTo(expected, 4)
    answer.logprobs.forEach((row, i) => {
      row.forEach((logp, t) => {
        expect(logp).toBeCloseTo(logprobs[i]?.[t] as number, 4)
      })
    })
    const weights = sequences.map((row, i) => weightsOf(loss, row, logprobs[i] as Float32Array))
    const reference = await referenceGradient(sequences, weights)
    expect(session.state.gradients.size).toBe(reference.size)
    for (const [name, wanted] of reference) {
      expect(worst(session.state.gradients.get(name) as Float32Array, wanted), name).toBeLessThan(TOLERANCE)
    }
    const forward = await session.forwardBackward({ ...request, isForwardOnly: true })
    expect(forward.metrics['loss:sum']).toBeCloseTo(expected, 4)
    await session.learner.release()
  })

  it('adds gradients up over calls, and an update drops them', async () => {
    const session = await open()
    const sequences = makeRows(await ownLogprobs(session))
    const call = (some: readonly LossSequence[]) =>
      session.forwardBackward({ loss: 'ppo', config: CONFIGS.ppo, isForwardOnly: false, sequences: some })
    for (const row of sequences) await call([row])
    const apart = new Map([...session.state.gradients].map(([name, values]) => [name, values.slice()]))
    session.state.gradients.clear()
    await call(sequences)
    for (const [name, values] of session.state.gradients) {
      expect(worst(apart.get(name) as Float32Array, values), name).toBeLessThan(TOLERANCE)
    }
    const adam = { learningRate: 1e-3, beta1: 0.9, beta2: 0.95, epsilon: 1e-12, weightDecay: 0 }
    const settings = { ...adam, maxGradientNorm: Number.POSITIVE_INFINITY }
    const { gradientNorm } = await session.optimStep(settings)
    const norm = Math.sqrt([...apart.values()].reduce((sum, values) => values.reduce((s, v) => s + v * v, sum), 0))
    expect(gradientNorm / norm).toBeCloseTo(1, 4)
    expect(session.state.gradients.size).toBe(0)
    await expect(session.optimStep(settings)).rejects.toThrow('there are no gradients to apply')
    // Adam's first step moves every parameter by the learning rate
    const { adapter } = stateOf()
    for (const [path, before] of adapter.b) {
      const after = session.state.adapter.b.get(path) as Float32Array
      const moves = before.map((value, i) => Math.abs((after[i] as number) - value))
      expect(Math.max(...moves)).toBeCloseTo(1e-3, 6)
    }
    await session.learner.release()
  })
})

function worst(actual: Float32Array, wanted: Float32Array): number {
  const scale = wanted.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-12)
  return wanted.reduce((most, value, i) => Math.max(most, Math.abs((actual[i] as number) - value)), 0) / scale
}
