/**
 * The step graph against PyTorch goldens and against itself: cache, chunks, batches, adapters and precisions agree.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type AdapterLayout, layoutAdapter } from '#inference/engine/adapter-layout.js'
import type { StepModel } from '#inference/engine/step-model.js'
import { PROJECTIONS, projectionPath, projectionShape } from '#model/architectures/decoder-config.js'
import type { PreparedModel } from '#model/architectures/prepare.js'
import { preparedQuantized } from '#model/architectures/prepared-tensors.js'
import { TensorFileWriter } from '#model/architectures/tensor-file.js'
import type { AdapterWeights } from '#model/weights/adapter.js'
import { dequantizeNBits, quantizeNBits } from '#model/weights/quantize.js'
import {
  type DecoderGolden,
  formulaAdapter,
  formulaWeights,
  readGolden,
  unpack,
} from '../../support/model/decoder-goldens.js'
import { prepareFormulaModel } from '../../support/model/golden-model.js'
import { feed, feedBatch, loadForTest, newCache, relativeError } from './step-harness.js'

const TOLERANCE = 1e-4
const VARIANTS = ['llama', 'qwen2', 'qwen3', 'biased'] as const

let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'step-model-'))
})
afterAll(async () => {
  await rm(directory, { recursive: true, force: true })
})

/** An adapter of another rank that touches other modules than the golden's. */
function otherAdapter(golden: DecoderGolden, targets: readonly string[]): AdapterWeights {
  const full = formulaAdapter(golden.config, 2, 3)
  const isTarget = (path: string): boolean => targets.some((target) => path.endsWith(target))
  const pick = (map: ReadonlyMap<string, Float32Array>, sign: number): Map<string, Float32Array> =>
    new Map([...map].filter(([path]) => isTarget(path)).map(([path, data]) => [path, data.map((x) => sign * x)]))
  return { config: { rank: 2, alpha: 3, targets }, a: pick(full.a, -1), b: pick(full.b, 1) }
}

describe.each(VARIANTS)('step graph of %s', (variant) => {
  const golden = readGolden<DecoderGolden>(`decoder-${variant}.json`)
  const { config } = golden
  const tokens = golden.tokens[0] ?? []
  // Packed rows hold several sequences; the first one is an ordinary causal prompt.
  const length = (golden.groups[0] ?? []).filter((group) => group === golden.groups[0]?.[0]).length
  const prompt = tokens.slice(0, length)
  const adapter = layoutAdapter(config, formulaAdapter(config, golden.adapter.rank, golden.adapter.alpha))
  const other = layoutAdapter(config, otherAdapter(golden, ['v_proj', 'down_proj']))
  const longPrompt = Array.from({ length: 24 }, (_, i) => (i * 7 + 3) % config.vocabularySize)
  let prepared: PreparedModel
  let model: StepModel

  beforeAll(async () => {
    prepared = await prepareFormulaModel(config, await mkdtemp(join(directory, variant)))
    model = await loadForTest(prepared)
  })
  afterAll(async () => {
    await model.release()
  })

  it('gives the logits of PyTorch, adapter included', async () => {
    expect(length).toBeGreaterThan(2)
    const expected = unpack(golden.logits)
    const V = config.vocabularySize
    const rows = prompt.map((_, i) => expected.subarray(i * V, (i + 1) * V))
    expect(relativeError(await feed(model, prompt, { adapter }), rows)).toBeLessThan(TOLERANCE)
  })

  it('gives the same logits token by token as at once', async () => {
    const whole = await feed(model, longPrompt, { adapter })
    const cache = newCache(config)
    cache.addRow()
    const single: Float32Array[] = []
    for (const id of longPrompt) single.push(...(await feed(model, [id], { cache, adapter })))
    expect(relativeError(single, whole)).toBeLessThan(TOLERANCE)
  })

  it('gives the same logits in chunks, with unused capacity in the cache', async () => {
    const whole = await feed(model, longPrompt)
    const cache = newCache(config)
    cache.addRow()
    const chunked: Float32Array[] = []
    for (const [start, end] of [
      [0, 9],
      [9, 10],
      [10, 21],
      [21, 24],
    ] as const) {
      cache.setCapacity(Math.max(1, start) + 5)
      chunked.push(...(await feed(model, longPrompt.slice(start, end), { cache })))
    }
    expect(relativeError(chunked, whole)).toBeLessThan(TOLERANCE)
  })

  it('gives each row of a batch what it gets alone, adapters mixed', async () => {
    const prompts = [longPrompt.slice(0, 5), longPrompt.slice(3, 20), longPrompt.slice(10, 11), longPrompt.slice(1, 9)]
    const adapters: (AdapterLayout | null)[] = [adapter, null, other, adapter]
    const batch = newCache(config, 4)
    batch.setCapacity(20)
    const alone: Float32Array[] = []
    for (const [i, ids] of prompts.entries()) {
      const cache = newCache(config)
      cache.addRow()
      await feed(model, ids, { cache, adapter: adapters[i] ?? null })
      batch.appendRow(batch.addRow(), cache, 0)
      alone.push(...(await feed(model, [i + 1], { cache, adapter: adapters[i] ?? null })))
    }
    const together = await feedBatch(model, batch, [1, 2, 3, 4], adapters)
    expect(relativeError(together, alone)).toBeLessThan(TOLERANCE)
  })

  it('gives padded prompts of one step what they get alone', async () => {
    const prompts = [longPrompt.slice(0, 6), longPrompt.slice(4, 8)]
    const ids = new Int32Array(12)
    for (const [b, prompt] of prompts.entries()) for (const [t, id] of prompt.entries()) ids[t * 2 + b] = id
    const result = await model.run(
      {
        ids,
        batch: 2,
        tokens: 6,
        starts: [0, 0],
        cache: null,
        logitRows: [10, 7],
        inverseTemperatures: [1, 1],
        adapters: [other],
        adapterOfSequence: [-1, 0],
      },
      ['logits'],
    )
    const V = config.vocabularySize
    const [first = [], second = []] = prompts
    const alone = [(await feed(model, first))[5], (await feed(model, second, { adapter: other }))[3]]
    const rows = [0, 1].map((i) => (result.logits ?? new Float32Array()).slice(i * V, (i + 1) * V))
    expect(
      relativeError(
        rows,
        alone.map((row) => row ?? new Float32Array()),
      ),
    ).toBeLessThan(TOLERANCE)
  })

  it('an adapter whose B is zero changes no bit', async () => {
    const weights = formulaAdapter(config, 3, 5)
    const zero = { ...weights, b: new Map([...weights.b].map(([path, data]) => [path, new Float32Array(data.length)])) }
    const plain = await feed(model, longPrompt)
    const adapted = await feed(model, longPrompt, { adapter: layoutAdapter(config, zero) })
    expect(adapted).toEqual(plain)
  })

  it('a merged adapter equals base plus adapter', async () => {
    const weights = formulaWeights(config)
    const { a, b, config: size } = formulaAdapter(config, golden.adapter.rank, golden.adapter.alpha)
    for (let layer = 0; layer < config.layerCount; layer++) {
      for (const projection of PROJECTIONS) {
        const path = projectionPath(layer, projection)
        const [rows, columns] = projectionShape(config, projection)
        const base = weights.get(`${path}.weight`)
        if (base === undefined) throw new Error(path)
        const data = Float32Array.from(base.data, (value, i) => {
          const [row, column] = [Math.floor(i / columns), i % columns]
          let sum = 0
          for (let r = 0; r < size.rank; r++) {
            sum += (b.get(path)?.[row * size.rank + r] ?? 0) * (a.get(path)?.[r * columns + column] ?? 0)
          }
          return value + (size.alpha / size.rank) * sum
        })
        expect(data.length).toBe(rows * columns)
        weights.set(`${path}.weight`, { ...base, data })
      }
    }
    const merged = await loadForTest(
      await prepareFormulaModel(config, await mkdtemp(join(directory, 'merged')), weights),
    )
    expect(relativeError(await feed(merged, longPrompt), await feed(model, longPrompt, { adapter }))).toBeLessThan(
      TOLERANCE,
    )
    await merged.release()
  })
})

describe('quantized step graph', () => {
  const golden = readGolden<DecoderGolden>('decoder-biased.json')
  const { config } = golden
  const ids = Array.from({ length: 20 }, (_, i) => (i * 11 + 1) % config.vocabularySize)
  const adapter = layoutAdapter(config, formulaAdapter(config, 4, 8))

  it.each([
    ['int8', 8, 0.04],
    ['int4', 4, 0.1],
  ] as const)(
    '%s equals float32 on the dequantized weights up to quantized activations',
    async (precision, bits, tolerance) => {
      const folder = await mkdtemp(join(directory, precision))
      const prepared = await prepareFormulaModel(config, folder)
      const weights = formulaWeights(config)
      const file = join(folder, 'weights-quantized.bin')
      const writer = await TensorFileWriter.create(file)
      const find = (name: string) => weights.get(name) ?? { shape: [], data: new Float32Array() }
      const source = {
        kind: 'huggingface' as const,
        path: folder,
        hfConfig: null,
        ggufMetadata: null,
        ropeFrequencyDivisors: null,
        tensorNames: [...weights.keys()],
        tensorStorage: () => 'F32',
        tensorShape: (name: string) => find(name).shape,
        readFloat32: async (name: string) => find(name).data,
        digest: async () => 'formula',
        close: async () => {},
      }
      await preparedQuantized(source, config, { writer, bits })
      const { tensors } = await writer.finish()
      const quantized = new Map([
        ...prepared.tensors('f32'),
        ...tensors.map(({ name, ...tensor }) => [name, { ...tensor, file }] as const),
      ])
      const model = await loadForTest({ ...prepared, tensors: () => quantized }, precision)
      for (const [name, { shape, data }] of weights) {
        const [rows = 0, columns = 0] = shape
        if (shape.length !== 2 || name.includes('embed_tokens')) continue
        const matrix = quantizeNBits(data, rows, columns, bits, 32)
        weights.set(name, { shape, data: dequantizeNBits(matrix, { rows, columns, bits, blockSize: 32 }) })
      }
      const exact = await loadForTest(await prepareFormulaModel(config, await mkdtemp(join(folder, 'exact')), weights))
      for (const layout of [null, adapter]) {
        const whole = await feed(model, ids, { adapter: layout })
        expect(relativeError(whole, await feed(exact, ids, { adapter: layout }))).toBeLessThan(tolerance)
        const cache = newCache(config)
        cache.addRow()
        const single: Float32Array[] = []
        for (const id of ids) single.push(...(await feed(model, [id], { cache, adapter: layout })))
        // Activations are quantized too, and a tiny difference can move one over a border.
        expect(relativeError(single, whole)).toBeLessThan(tolerance / 2)
      }
      await model.release()
      await exact.release()
    },
  )
})
