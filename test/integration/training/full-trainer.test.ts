/**
 * Training of all weights, on a model of some thousand: accumulation, exact resumption, faults that change nothing, export.
 */

import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { ADAPTER_WEIGHTS_FILE } from '#formats/checkpoint-manifest.js'
import { prepareBaseModel } from '#model/architectures/prepare.js'
import { readRotaryFrequencies } from '#model/architectures/rotary-frequencies.js'
import { createAdapter, encodeAdapter } from '#model/weights/adapter.js'
import { encodeSafetensors, writeSafetensors } from '#model/weights/safetensors.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import type { Runtime } from '#numerics/runtime/runtime.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import { decoderParameters, toHfTensors } from '#plugins/torch/parameters.js'
import type { MicroBatch } from '#training/trainer/learner/learner.js'
import { perToken, toRowBatch } from '#training/trainer/row-batch.js'
import { openRowSession } from '#training/trainer/row-session.js'
import { buildScoreGraph } from '#training/trainer/train-graph.js'
import { buildFullScoreGraph } from '../../spark/training/full-graph.js'
import {
  decodeFullState,
  encodeFullState,
  type FullTrainer,
  type FullTrainingState,
  initialState,
  type MatrixOptimizer,
} from '../../spark/training/full-trainer.js'
import { expectCode } from '../../support/expect-code.js'
import {
  microBatchesOf,
  OPTIMIZERS,
  openTinyTrainer,
  packedRow,
  STEP,
  TINY_CONFIG,
  TINY_HF_CONFIG,
} from '../../support/model/full-training-fixture.js'
import { temporaryDirectory } from '../../support/temporary-directory.js'

const PARAMETERS = decoderParameters(TINY_CONFIG)
const ROWS = [packedRow('a', [7, 5]), packedRow('b', [9]), packedRow('c', [4, 8, 3])]

/** Initial weights whose norms and biases are not all alike, so that every gradient flows. */
function startState(optimizer: MatrixOptimizer): FullTrainingState {
  const state = initialState(TINY_CONFIG, 'tiny', optimizer)
  for (const { name } of PARAMETERS) {
    const values = state.weights.get(name)!
    for (let i = 0; i < values.length; i++) values[i] = values[i]! * 4 + 0.1 * Math.sin(3 * i + name.length)
  }
  return state
}

/** The step's own data: different rows at every step. */
const batchesOfStep = (step: number): MicroBatch[] =>
  microBatchesOf([[packedRow(`${step}a`, [6, 6])], [packedRow(`${step}b`, [9, 2])]])

async function run(state: FullTrainingState, steps: readonly number[]): Promise<number[]> {
  const trainer = await openTinyTrainer(state)
  const losses: number[] = []
  for (const step of steps) losses.push((await trainer.step(batchesOfStep(step), STEP)).loss)
  return losses
}

/** ‖a − b‖ / ‖b‖. */
function distance(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let difference = 0
  let norm = 0
  for (let i = 0; i < b.length; i++) {
    difference += (a[i]! - b[i]!) ** 2
    norm += b[i]! ** 2
  }
  return Math.sqrt(difference / norm)
}

describe.each(OPTIMIZERS)('all weights by %s', (optimizer) => {
  test('accumulated micro-batches make the step of one batch', async () => {
    const [parts, whole] = [startState(optimizer), startState(optimizer)]
    const start = startState(optimizer)
    const [partTrainer, wholeTrainer] = [await openTinyTrainer(parts), await openTinyTrainer(whole)]
    for (let step = 0; step < 2; step++) {
      const accumulated = await partTrainer.step(microBatchesOf(ROWS.map((row) => [row])), STEP)
      const together = await wholeTrainer.step(microBatchesOf([ROWS]), STEP)
      expect(Math.abs(accumulated.loss / together.loss - 1)).toBeLessThan(1e-6)
      expect(Math.abs(accumulated.gradientNorm / together.gradientNorm - 1)).toBeLessThan(1e-5)
    }
    // Changes are compared, not weights: those are nearly equal anyway. Newton-Schulz magnifies rounding up to 3.4445^5 times.
    for (const { name } of PARAMETERS) {
      const moved = ({ weights }: FullTrainingState) =>
        weights.get(name)!.map((value, i) => value - start.weights.get(name)![i]!)
      expect(distance(moved(parts), moved(whole)), name).toBeLessThan(1e-3)
    }
  })

  test('a run that was saved and loaded ends with the bits of one that never stopped', async () => {
    const whole = startState(optimizer)
    const wholeLosses = await run(whole, [1, 2, 3, 4, 5, 6])
    const first = startState(optimizer)
    const firstLosses = await run(first, [1, 2, 3])
    const { state: second, notes } = decodeFullState(encodeFullState(first, { position: '[3,1]' }), TINY_CONFIG)
    expect(notes.get('position')).toBe('[3,1]')
    expect(second.adamW.stepCount).toBe(3)
    expect([...firstLosses, ...(await run(second, [4, 5, 6]))]).toEqual(wholeLosses)
    expect(Buffer.compare(encodeFullState(second), encodeFullState(whole))).toBe(0)
    expect(second.adamW.stepCount).toBe(6)
    for (const { name } of PARAMETERS) {
      expect(second.weights.get(name), name).toEqual(whole.weights.get(name))
      expect(second.weights.get(name), name).not.toEqual(first.weights.get(name))
      expect(second.adamW.moments.get(name), name).toEqual(whole.adamW.moments.get(name))
      expect(second.muon?.momentum.get(name), name).toEqual(whole.muon?.momentum.get(name))
      const hasMomentum = second.muon?.momentum.has(name) ?? false
      expect(second.adamW.moments.has(name), name).toBe(!hasMomentum)
    }
  })

  test('a state saved before the first step starts as the state itself', async () => {
    const [state, copy] = [startState(optimizer), startState(optimizer)]
    const { state: loaded } = decodeFullState(encodeFullState(copy), TINY_CONFIG)
    await run(state, [1])
    await run(loaded, [1])
    expect(Buffer.compare(encodeFullState(loaded), encodeFullState(state))).toBe(0)
  })

  test('layers computed again give the same bits', async () => {
    const [kept, recomputed] = [startState(optimizer), startState(optimizer)]
    const trainers = [await openTinyTrainer(kept), await openTinyTrainer(recomputed, { isRecomputed: true })]
    for (const trainer of trainers) for (const step of [1, 2]) await trainer.step(batchesOfStep(step), STEP)
    expect(Buffer.compare(encodeFullState(recomputed), encodeFullState(kept))).toBe(0)
  })

  test('a memorizable row is memorized', async () => {
    const trainer = await openTinyTrainer(startState(optimizer))
    const row = packedRow('memorized', [16])
    // Distinct tokens: each tells the next.
    const [batch] = microBatchesOf([
      [{ ...row, tokens: row.tokens.map((_, t) => (t * 7) % TINY_CONFIG.vocabularySize) }],
    ])
    const before = await trainer.evaluate(batch!)
    const options = { learningRate: 0.03, weightDecay: 0, maxGradientNorm: 1 }
    for (let step = 0; step < 80; step++) await trainer.step([batch!], options)
    expect(before).toBeGreaterThan(2)
    expect(await trainer.evaluate(batch!)).toBeLessThan(0.2 * before)
  })

  test('without a gradient weights shrink by the decay, norms and biases stay', async () => {
    const [state, start] = [startState(optimizer), startState(optimizer)]
    const trainer = await openTinyTrainer(state)
    const [batch] = microBatchesOf([ROWS])
    const silent = { ...batch!.lossInputs, weight: perToken(batch!.batch, () => 0) }
    const { gradientNorm } = await trainer.step([{ batch: batch!.batch, lossInputs: silent }], STEP)
    expect(gradientNorm).toBe(0)
    for (const { name, kind } of PARAMETERS) {
      const factor = kind === 'norm' || kind === 'bias' ? 1 : 1 - STEP.learningRate * STEP.weightDecay
      expect(state.weights.get(name), name).toEqual(start.weights.get(name)!.map((value) => value * factor))
    }
  })

  test('evaluate is the loss of the step that follows and changes nothing', async () => {
    const state = startState(optimizer)
    const trainer = await openTinyTrainer(state)
    const [batch] = microBatchesOf([ROWS])
    const before = encodeFullState(state)
    const loss = await trainer.evaluate(batch!)
    expect(Buffer.compare(encodeFullState(state), before)).toBe(0)
    expect(Math.abs((await trainer.step([batch!], STEP)).loss / loss - 1)).toBeLessThan(1e-6)
  })

  describe('what fails changes nothing', () => {
    let afterTwo: Uint8Array | undefined
    const twoSteps = async (): Promise<Uint8Array> => {
      const state = startState(optimizer)
      await run(state, [1, 2])
      return encodeFullState(state)
    }

    /** After two good steps, so that there are moments, `fail` must leave every bit. */
    async function unchanged(fail: (trainer: FullTrainer) => unknown, runtime?: Runtime) {
      afterTwo ??= await twoSteps()
      const { state } = decodeFullState(afterTwo, TINY_CONFIG)
      const trainer = await openTinyTrainer(state, runtime === undefined ? {} : { runtime })
      await fail(trainer)
      expect(Buffer.compare(encodeFullState(state), afterTwo)).toBe(0)
      return { state, trainer }
    }
    const [good, other] = batchesOfStep(3)
    const withWeight = (value: number): MicroBatch => ({
      ...other!,
      lossInputs: { ...other!.lossInputs, weight: perToken(other!.batch, ({ index }) => (index === 3 ? value : 1)) },
    })

    test.each([Number.NaN, Number.POSITIVE_INFINITY])('a weight of %d in the last micro-batch', async (value) => {
      const { state, trainer } = await unchanged((failing) =>
        expectCode(() => failing.step([good!, withWeight(value)], STEP), 'non_finite_loss', 'step 3'),
      )
      const straight = startState(optimizer)
      await run(straight, [1, 2, 3])
      await trainer.step(batchesOfStep(3), STEP)
      expect(Buffer.compare(encodeFullState(state), encodeFullState(straight))).toBe(0)
    })

    test('no trained token at all', async () => {
      const silent = toRowBatch([{ ...ROWS[0]!, lossMask: new Uint8Array(ROWS[0]!.tokens.length) }])
      const lossInputs = { denominator: float32Tensor(Float32Array.of(0), []), weight: perToken(silent, () => 1) }
      await unchanged((trainer) =>
        expectCode(() => trainer.step([{ batch: silent, lossInputs }], STEP), 'non_finite_loss'),
      )
    })

    test('no micro-batch at all', async () => {
      await unchanged((trainer) => expect(trainer.step([], STEP)).rejects.toThrow())
    })

    test('data that stops with an error', async () => {
      function* broken(): Generator<MicroBatch> {
        yield good!
        throw new Error('the disk is gone')
      }
      await unchanged((trainer) => expect(trainer.step(broken(), STEP)).rejects.toThrow('the disk is gone'))
    })

    test.each(optimizer === 'muon' ? ['train', 'orthogonalize'] : ['train'])(
      'the runtime in the %s graph',
      async (graph) => {
        const runtime = failingIn(graph)
        await unchanged((trainer) => expect(trainer.step([good!], STEP)).rejects.toThrow('memory ran out'), runtime)
      },
    )
  })

  test('NaN in any weight is found before anything moves', async () => {
    const state = startState(optimizer)
    const trainer = await openTinyTrainer(state)
    for (const { name } of PARAMETERS) {
      const values = state.weights.get(name)!
      // Of the embedding a row that is read: others take no part where the head is separate.
      const at = name === 'embedding' ? (ROWS[0]!.tokens[2]! + 1) * TINY_CONFIG.hiddenSize - 1 : values.length - 1
      const value = values[at]!
      values[at] = Number.NaN
      const before = encodeFullState(state)
      await expectCode(() => trainer.step(microBatchesOf([ROWS]), STEP), 'non_finite_loss')
      expect(Buffer.compare(encodeFullState(state), before), name).toBe(0)
      values[at] = value
    }
    await trainer.step(microBatchesOf([ROWS]), STEP)
    expect(state.adamW.stepCount).toBe(1)
  })
})

/** ONNX Runtime whose session of one graph fails at every run. */
function failingIn(graph: string): Runtime {
  const runtime = createOrtRuntime()
  return {
    ...runtime,
    loadSession: async (model, options) => {
      const path = typeof model === 'string' ? model : model.directory
      const session = await runtime.loadSession(model, options)
      if (!path.includes(`${graph}.`)) return session
      return { ...session, run: () => Promise.reject(new Error('memory ran out')) }
    },
  }
}

describe('a saved state', () => {
  const saved = async (optimizer: MatrixOptimizer) => {
    const state = startState(optimizer)
    await run(state, [1])
    return encodeFullState(state)
  }
  const refused = (bytes: Uint8Array, config = TINY_CONFIG) =>
    expectCode(() => decodeFullState(bytes, config), 'checkpoint_corrupt')

  test('is refused where it was cut off or has bytes too many', async () => {
    const bytes = await saved('muon')
    for (const end of [0, 4, 8, 100, bytes.length >> 1, bytes.length - 1]) await refused(bytes.subarray(0, end))
    await refused(Uint8Array.of(...bytes, 0))
    await refused(new TextEncoder().encode('no safetensors file at all'))
  })

  test.each<Partial<typeof TINY_CONFIG>>([
    { vocabularySize: 25 },
    { layerCount: 1 },
    { layerCount: 3 },
    { hiddenSize: 12, headSize: 6 },
    { mlpSize: 32 },
    { hasMlpBias: false },
    { isEmbeddingTied: true },
    { hasQkNorm: true },
  ])('is refused for a decoder with %j', async (changes) => {
    await refused(await saved('adamw'), { ...TINY_CONFIG, ...changes })
  })

  test('is refused where the optimizer is unknown or moments are missing', async () => {
    const state = startState('adamw')
    await run(state, [1])
    const tensors = new Map<string, HostTensor>()
    for (const [name, data] of state.weights) tensors.set(`weights.${name}`, float32Tensor(data, [data.length]))
    const header = { format: 'trainyard.full-training', step_count: '1' }
    for (const optimizer of ['adamw', 'muon', 'sgd'])
      await refused(encodeSafetensors(tensors, { ...header, optimizer }))
    for (const step_count of ['', '-1', 'x', '1.5']) {
      await refused(encodeSafetensors(tensors, { ...header, optimizer: 'adamw', step_count }))
    }
  })

  test('is not an adapter', async () => {
    const modules = [{ path: 'model.layers.0.self_attn.q_proj', outputSize: 16, inputSize: 16 }]
    const adapter = createAdapter(modules, { rank: 2, alpha: 4, seed: 'adapter' })
    await refused(encodeAdapter(adapter, { baseModelName: 'tiny' }).get(ADAPTER_WEIGHTS_FILE)!)
  })
})

test('exported weights are a Hugging Face model that the frozen path scores alike', async () => {
  const state = startState('muon')
  await run(state, [1, 2, 3])
  const source = join(await temporaryDirectory(), 'model')
  await mkdir(source)
  await writeFile(join(source, 'config.json'), JSON.stringify(TINY_HF_CONFIG))
  await writeSafetensors(join(source, 'model.safetensors'), toHfTensors(TINY_CONFIG, state.weights))
  const prepared = await prepareBaseModel(source, await temporaryDirectory(), ['f32'])
  expect(prepared.config).toEqual(TINY_CONFIG)
  const tensors = prepared.tensors('f32')
  const frequencies = await readRotaryFrequencies(tensors)
  const session = { runtime: createOrtRuntime(), directory: prepared.directory, frequencies, threads: 1 }
  const [{ batch, lossInputs }] = microBatchesOf([ROWS]) as [MicroBatch]

  const frozen = await openRowSession(buildScoreGraph({ config: TINY_CONFIG, tensors, adapter: null }), session)
  const full = await openRowSession(buildFullScoreGraph(TINY_CONFIG), session)
  const weights = PARAMETERS.map(({ name, shape }) => [name, float32Tensor(state.weights.get(name)!, shape)] as const)
  const expected = (await frozen.run(batch, {}))['logp']!.data as Float32Array
  const { logp, loss } = await full.run(batch, Object.fromEntries(weights), lossInputs)
  await frozen.release()
  await full.release()
  const scored = (logp!.data as Float32Array).subarray(0, batch.trained.length)
  scored.forEach((value, n) => {
    expect(Math.abs(value - expected[n]!)).toBeLessThan(1e-5)
  })
  expect(new Set(scored).size).toBeGreaterThan(20)
  const mean = scored.reduce((sum, value) => sum - value, 0) / scored.length
  expect(Math.abs((loss!.data as Float32Array)[0]! - mean)).toBeLessThan(1e-5)
})
