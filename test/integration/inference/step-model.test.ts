/**
 * The step graph against PyTorch goldens and against itself: cache, chunks, batches, adapters and precisions agree.
 */
import { watch } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest'
import { type AdapterLayout, layoutAdapter } from '#inference/engine/runner/adapter-layout.js'
import { loadStepModel, type StepModel } from '#inference/engine/runner/step-model.js'
import { PROJECTIONS, projectionPath, projectionShape } from '#model/architectures/decoder-config.js'
import type { PreparedModel } from '#model/architectures/prepare.js'
import { preparedQuantized } from '#model/architectures/prepared-tensors.js'
import { TensorFileWriter } from '#model/architectures/tensor-file.js'
import type { AdapterWeights } from '#model/weights/adapter.js'
import { dequantizeNBits, quantizeNBits } from '#model/weights/quantize.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import {
  type DecoderGolden,
  formulaAdapter,
  formulaWeights,
  readGolden,
  unpack,
} from '../../support/model/decoder-goldens.js'
import { prepareFormulaModel } from '../../support/model/golden-model.js'
import { feed, loadForTest, newCache, relativeError, step } from './step-harness.js'

const TOLERANCE = 1e-4
const VARIANTS = ['llama', 'qwen2', 'qwen3', 'biased'] as const

let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'step-model-'))
})
afterAll(async () => {
  await rm(directory, { recursive: true, force: true, maxRetries: 20 })
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
    const single: Float32Array[] = []
    for (const id of longPrompt) single.push(...(await feed(model, [id], { cache, adapter })))
    expect(relativeError(single, whole)).toBeLessThan(TOLERANCE)
  })

  it('gives the same logits in chunks, with unused capacity in the cache', async () => {
    const whole = await feed(model, longPrompt)
    const cache = newCache(config)
    const chunked: Float32Array[] = []
    for (const [start, end] of [
      [0, 9],
      [9, 10],
      [10, 21],
      [21, 24],
    ] as const) {
      cache.setCapacity(start + 40)
      chunked.push(...(await feed(model, longPrompt.slice(start, end), { cache })))
    }
    expect(relativeError(chunked, whole)).toBeLessThan(TOLERANCE)
  })

  /** Logits of `ids` after `before`, computed alone and at once. */
  async function alone(
    before: readonly number[],
    ids: readonly number[],
    layout: AdapterLayout | null = null,
  ): Promise<Float32Array[]> {
    return (await feed(model, [...before, ...ids], { adapter: layout })).slice(before.length)
  }

  it('gives sequences of a step what they get alone: other starts, other numbers of tokens, other adapters', async () => {
    const prompts = [longPrompt.slice(0, 5), longPrompt.slice(3, 20), longPrompt.slice(10, 11), longPrompt.slice(1, 9)]
    const adapters: (AdapterLayout | null)[] = [adapter, null, other, adapter]
    const tails = newCache(config, 4)
    const sequences = prompts.map((ids, row) => ({ row, ids, adapter: adapters[row] ?? null }))
    const first = await step(model, { prompts: null, tails }, sequences)
    const next = [[1], [2, 3, 4], [5, 6], [7]]
    const second = await step(
      model,
      { prompts: null, tails },
      next.map((ids, row) => ({ row, ids, adapter: adapters[row] ?? null })),
    )
    for (const [i, prompt] of prompts.entries()) {
      const layout = adapters[i] ?? null
      expect(relativeError(first[i] ?? [], await alone([], prompt, layout))).toBeLessThan(TOLERANCE)
      expect(relativeError(second[i] ?? [], await alone(prompt, next[i] ?? [], layout))).toBeLessThan(TOLERANCE)
    }
  })

  it('gives members of groups what they get alone, with prompts stored once and slots left empty', async () => {
    const texts = [longPrompt.slice(0, 21), longPrompt.slice(5, 12)]
    const prompts = newCache(config, 2)
    for (const [row, ids] of texts.entries()) {
      const own = newCache(config)
      await feed(model, ids, { cache: own })
      if (prompts.capacity < ids.length) prompts.setCapacity(ids.length)
      prompts.appendFrom({ row, member: 0 }, own, { row: 0, member: 0, start: 0, count: ids.length })
    }
    const tails = newCache(config, 2, 3)
    const members = [
      { row: 0, member: 0, ids: [1, 2] },
      { row: 0, member: 2, ids: [3] },
      { row: 1, member: 1, ids: [4, 5, 6] },
    ]
    const first = await step(model, { prompts, tails }, members)
    const second = await step(
      model,
      { prompts, tails },
      members.map(({ row, member }) => ({ row, member, ids: [9] })),
    )
    for (const [i, { row, ids }] of members.entries()) {
      const text = texts[row] ?? []
      expect(relativeError(first[i] ?? [], await alone(text, ids))).toBeLessThan(TOLERANCE)
      expect(relativeError(second[i] ?? [], await alone([...text, ...ids], [9]))).toBeLessThan(TOLERANCE)
    }
  })

  it('gives a token the same bits alone and in a group, whatever room the caches have', async () => {
    const own = newCache(config)
    await feed(model, longPrompt, { cache: own })
    // A product with one row takes another way through the runtime; where a head has one query, groups are never that narrow.
    const single = newCache(config, 1, config.headCount === config.kvHeadCount ? 2 : 1)
    const expected = [
      (await step(model, { prompts: own, tails: single }, [{ row: 0, ids: [1] }]))[0]?.[0],
      (await step(model, { prompts: own, tails: single }, [{ row: 0, ids: [2] }]))[0]?.[0],
    ]
    const roomy = newCache(config, 2)
    roomy.setCapacity(80)
    for (const row of [0, 1]) {
      roomy.appendFrom({ row, member: 0 }, own, { row: 0, member: 0, start: 0, count: longPrompt.length - row })
    }
    const tails = newCache(config, 2, 4)
    tails.setCapacity(48)
    const beside = (id: number) => [
      { row: 0, member: 3, ids: [id] },
      { row: 0, member: 1, ids: [id + 5] },
      { row: 1, member: 0, ids: [7] },
    ]
    const first = await step(model, { prompts: roomy, tails }, beside(1))
    const second = await step(model, { prompts: roomy, tails }, beside(2))
    expect([first[0]?.[0], second[0]?.[0]]).toEqual(expected)
  })

  it('gives a token with an adapter the same bits, whoever shares the step', async () => {
    const bits = async (layouts: readonly (AdapterLayout | null)[]): Promise<readonly Float32Array[]> => {
      const tails = newCache(config, layouts.length, config.headCount === config.kvHeadCount ? 2 : 1)
      const rows = await step(
        model,
        { prompts: null, tails },
        layouts.map((layout, row) => ({ row, ids: [5], adapter: layout })),
      )
      return rows.map(([only]) => only as Float32Array)
    }
    const [alone, base, changed] = [await bits([adapter]), await bits([null]), await bits([other])]
    const [own, plain, others] = [alone[0], base[0], changed[0]]
    expect(await bits([adapter, null])).toEqual([own, plain])
    expect(await bits([other, adapter, adapter, adapter, null])).toEqual([others, own, own, own, plain])
    expect(await bits([null, adapter, other])).toEqual([plain, own, others])
    const size = formulaAdapter(config, 2, 4)
    const nan = (map: ReadonlyMap<string, Float32Array>) =>
      new Map([...map].map(([k, v]) => [k, v.map(() => Number.NaN)]))
    const diverged = layoutAdapter(config, { ...size, a: nan(size.a), b: nan(size.b) })
    expect((await bits([diverged, null, adapter])).slice(1)).toEqual([plain, own])
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

test('a first adapter needs no other session', async () => {
  const golden = readGolden<DecoderGolden>('decoder-llama.json')
  const { config } = golden
  const prepared = await prepareFormulaModel(config, await mkdtemp(join(directory, 'sessions')))
  const runtime = createOrtRuntime()
  let sessions = 0
  const counting: typeof runtime = {
    ...runtime,
    loadSession: (...given) => {
      sessions++
      return runtime.loadSession(...given)
    },
  }
  const { contextLength } = config
  const model = await loadStepModel({ runtime: counting, prepared, precision: 'f32', threads: 1, contextLength })
  const adapter = layoutAdapter(config, formulaAdapter(config, golden.adapter.rank, golden.adapter.alpha))
  const plain = await feed(model, [1, 2, 3])
  const adapted = await feed(model, [1, 2, 3], { adapter })
  expect(relativeError(adapted, plain)).toBeGreaterThan(0.01)
  expect(await feed(model, [1, 2, 3])).toEqual(plain)
  expect(sessions).toBe(1)
  await model.release()
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
        hasOwnHead: false,
        isTextPart: false,
        hasUnreadShards: false,
        tensorStorage: () => 'F32',
        tensorShape: (name: string) => find(name).shape,
        readFloat32: async (name: string) => find(name).data,
        checkValues: async () => undefined,
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

it('a prepared model is loaded without writing anything, as on a full disk', async () => {
  const { config } = readGolden<DecoderGolden>('decoder-llama.json')
  const prepared = await prepareFormulaModel(config, await mkdtemp(join(directory, 'watched')))
  const seen: string[] = []
  const watcher = watch(prepared.directory, (event, name) => seen.push(`${event} ${name}`))
  try {
    const model = await loadForTest(prepared)
    await feed(model, [1, 2, 3])
    await feed(model, [1, 2, 3], { adapter: layoutAdapter(config, formulaAdapter(config, 2, 3)) })
    await model.release()
    await writeFile(join(prepared.directory, 'last'), '')
    // events come in order: the file written last has been seen, so all before it have
    await expect.poll(() => seen.some((event) => event.endsWith(' last')), { timeout: 60_000 }).toBe(true)
    expect(seen.filter((event) => !event.endsWith(' last'))).toEqual([])
  } finally {
    watcher.close()
  }
})
