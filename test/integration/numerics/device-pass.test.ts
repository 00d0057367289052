/**
 * Graphs for devices against the untouched ones, both on the CPU: what the pass rewrites computes the same. Tolerance: 1e-5 of the
 * largest number of each tensor.
 * Whether a device's own kernels are right is another question.
 */
import { expect, it } from 'vitest'
import { layoutAdapter } from '#inference/engine/runner/adapter-layout.js'
import { loadStepModel } from '#inference/engine/runner/step-model.js'
import { readRotaryFrequencies } from '#model/architectures/rotary-frequencies.js'
import { GraphBuilder } from '#numerics/graph/builder.js'
import type { Graph } from '#numerics/graph/graph.js'
import { fusedMatmul, matmul } from '#numerics/graph/ops/matmul.js'
import { logSoftmax } from '#numerics/graph/ops/normalize.js'
import { forDevice } from '#numerics/graph/passes/for-device.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import type { Runtime } from '#numerics/runtime/runtime.js'
import type { HostTensor } from '#numerics/tensor/host-tensor.js'
import { adapterFeeds } from '#training/trainer/learner/parameters.js'
import { perToken, toRowBatch } from '#training/trainer/row-batch.js'
import { openRowSession } from '#training/trainer/row-session.js'
import { buildScoreGraph, buildTrainGraph, type LossKind } from '#training/trainer/train-graph.js'
import { type DecoderGolden, formulaAdapter, readGolden, rowsOf } from '../../support/model/decoder-goldens.js'
import { prepareFormulaModel } from '../../support/model/golden-model.js'
import { normals, runGraph } from '../../support/reference/op-case.js'
import { type ReferenceTensor, reference } from '../../support/reference/reference-tensor.js'
import { temporaryDirectory } from '../../support/temporary-directory.js'
import { newCache, step } from '../inference/step-harness.js'

const TOLERANCE = 1e-5
const cpu = createOrtRuntime()

/** Graphs are made for the device, and computed by the CPU. */
const rewriting: Runtime = {
  ...cpu,
  device: 'webgpu',
  loadSession: (model, options) => cpu.loadSession(model, { ...options, device: 'cpu' }),
  loadResident: (model, options) => cpu.loadResident(model, { ...options, device: 'cpu' }),
}

function expectSame(actual: HostTensor | undefined, expected: HostTensor | undefined, name: string): void {
  if (expected?.dtype !== 'float32' || actual?.dtype !== 'float32') throw new Error(`${name} is missing`)
  expect(actual.shape, name).toEqual(expected.shape)
  let scale = 0
  let error = 0
  for (const [i, value] of expected.data.entries()) {
    scale = Math.max(scale, Math.abs(value))
    const difference = Math.abs((actual.data[i] ?? Number.NaN) - value)
    error = Number.isNaN(difference) ? Number.POSITIVE_INFINITY : Math.max(error, difference)
  }
  expect(error, name).toBeLessThanOrEqual(TOLERANCE * scale)
}

async function expectSameResults(graph: Graph, inputs: Readonly<Record<string, ReferenceTensor>>): Promise<void> {
  const [actual, expected] = [await runGraph(forDevice(graph, 'webgpu'), inputs), await runGraph(graph, inputs)]
  for (const { name } of graph.outputs) expectSame(actual[name], expected[name], name)
}

function products(): Graph {
  const g = new GraphBuilder('products')
  const b = g.input('b', 'float32', ['B', 'K', 4])
  g.output(matmul(g, g.input('a', 'float32', ['B', 3, 'K']), b), 'plain')
  g.output(fusedMatmul(g, g.input('turned', 'float32', ['B', 'K', 3]), b, { transA: true, alpha: 0.3 }), 'factored')
  return g.build()
}

function operands(inner: number): Readonly<Record<string, ReferenceTensor>> {
  return { a: normals([2, 3, inner]), b: normals([2, inner, 4]), turned: normals([2, inner, 3]) }
}

it.each([1, 5])('products over %i numbers are the same', async (inner) => {
  await expectSameResults(products(), operands(inner))
})

// the CPU's own product of this kind leaves the memory as it found it where the first operand lies transposed
it('products over nothing are zeros', async () => {
  const results = await runGraph(forDevice(products(), 'webgpu'), operands(0))
  for (const { data } of Object.values(results)) expect([...data]).toEqual(Array.from({ length: 24 }, () => 0))
})

it('LogSoftmax of large numbers is the same', async () => {
  const g = new GraphBuilder('log_softmax')
  g.output(logSoftmax(g, g.input('x', 'float32', ['N', 4])), 'y')
  await expectSameResults(g.build(), { x: reference('float32', [2, 4], [1000, 999, -1000, 0, 0.1, 0.2, 0.3, -0.4]) })
})

const VARIANTS = ['llama', 'qwen3', 'biased'] as const

it.each(VARIANTS.flatMap((variant) => [undefined, 5].map((attentionBlock) => ({ variant, attentionBlock }))))(
  'train and score graphs of $variant are the same, attention in blocks of $attentionBlock',
  async ({ variant, attentionBlock }) => {
    const golden = readGolden<DecoderGolden>(`decoder-${variant}.json`)
    const { config } = golden
    const directory = await temporaryDirectory()
    const prepared = await prepareFormulaModel(config, directory)
    const tensors = prepared.tensors('f32')
    const frequencies = await readRotaryFrequencies(tensors)
    const isAttentionBlocked = attentionBlock !== undefined
    const model = { config, tensors, adapter: golden.adapter, isAttentionBlocked }
    const loss: LossKind = { kind: 'cross_entropy' }
    const batch = toRowBatch(rowsOf(golden))
    const denominator: HostTensor = { dtype: 'float32', shape: [], data: Float32Array.of(batch.trained.length) }
    const extras = { denominator, weight: perToken(batch, () => 1) }
    const feeds = adapterFeeds(formulaAdapter(config, golden.adapter.rank, golden.adapter.alpha))
    for (const isRecomputed of [false, true]) {
      for (const graph of [buildTrainGraph(model, loss, { isRecomputed }), buildScoreGraph(model)]) {
        const run = async (runtime: Runtime) => {
          const session = await openRowSession(graph, { runtime, directory, frequencies, attentionBlock, threads: 1 })
          try {
            return await session.run(batch, feeds, extras)
          } finally {
            await session.release()
          }
        }
        const [actual, expected] = [await run(rewriting), await run(cpu)]
        expect(Object.keys(actual).toSorted()).toEqual(Object.keys(expected).toSorted())
        for (const name of Object.keys(expected)) expectSame(actual[name], expected[name], name)
      }
    }
  },
)

function tensorOf(data: Float32Array | undefined): HostTensor | undefined {
  return data === undefined ? undefined : { dtype: 'float32', shape: [data.length], data }
}

it.each(VARIANTS)('steps of %s are the same: prompts, choices, adapters, no row at all', async (variant) => {
  const golden = readGolden<DecoderGolden>(`decoder-${variant}.json`)
  const { config } = golden
  const prepared = await prepareFormulaModel(config, await temporaryDirectory())
  const adapter = layoutAdapter(config, formulaAdapter(config, golden.adapter.rank, golden.adapter.alpha))
  const run = async (runtime: Runtime): Promise<readonly Float32Array[]> => {
    const { contextLength } = config
    const model = await loadStepModel({ runtime, prepared, precision: 'f32', threads: 1, contextLength })
    try {
      const prompts = newCache(config, 2)
      const tails = newCache(config, 2, 2)
      const unread = await model.run(
        {
          sequences: [{ row: 0, member: 0, ids: [5, 4, 3], promptLength: 0, tailLength: 0, adapter: -1 }],
          ...{ groups: 1, width: 1, prompts: null, tails: null, logitRows: [], inverseTemperatures: [], adapters: [] },
        },
        ['logprobs', 'logits'],
      )
      const kept = unread.newRows.slice()
      // nothing is cached; then prompts are, then tails too
      const first = await step(model, { prompts: null, tails: prompts }, [
        { row: 0, ids: [1, 2, 3, 4, 5] },
        { row: 1, ids: [7, 8], adapter },
      ])
      const choices = [
        { row: 0, member: 0, ids: [9] },
        { row: 0, member: 1, ids: [3], adapter },
        { row: 1, member: 1, ids: [4] },
      ]
      const second = await step(model, { prompts, tails }, choices)
      const third = await step(model, { prompts, tails }, choices)
      return [kept, ...[first, second, third].flat(2)]
    } finally {
      await model.release()
    }
  }
  const [actual, expected] = [await run(rewriting), await run(cpu)]
  expect(actual).toHaveLength(expected.length)
  for (const [i, row] of expected.entries()) expectSame(tensorOf(actual[i]), tensorOf(row), `row ${i}`)
})
