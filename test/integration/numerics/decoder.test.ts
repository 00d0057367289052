/**
 * The whole decoder against PyTorch: logits, losses and every adapter gradient of four small models in two packed rows.
 *
 * Goldens: test/goldens/make_decoder_goldens.py (float64). Tolerance: 1e-4 relative to the largest number of each tensor.
 */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { PreparedModel } from '#model/architectures/prepare.js'
import { readRotaryFrequencies } from '#model/architectures/rotary-frequencies.js'
import type { PolicyLossOptions } from '#numerics/nn/policy-loss.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import { adapterFeeds } from '#training/trainer/learner/parameters.js'
import { perToken, type RowBatch, toRowBatch } from '#training/trainer/row-batch.js'
import type { RowModel } from '#training/trainer/row-decoder.js'
import { openRowSession } from '#training/trainer/row-session.js'
import {
  buildLogitsGraph,
  buildScoreGraph,
  buildTrainGraph,
  gradientName,
  type LossKind,
} from '#training/trainer/train-graph.js'
import { type DecoderGolden, formulaAdapter, readGolden, rowsOf, unpack } from '../../support/model/decoder-goldens.js'
import { prepareFormulaModel } from '../../support/model/golden-model.js'
import { resolveRlConfig } from '../../support/model/job-options.js'

const VARIANTS = ['llama', 'qwen2', 'qwen3', 'biased'].flatMap((variant) => [
  { variant, attentionBlock: undefined },
  // no divisor of the rows' length
  { variant, attentionBlock: 5 },
])

describe.each(VARIANTS)('decoder: $variant, attention in blocks of $attentionBlock', ({ variant, attentionBlock }) => {
  const golden = readGolden<DecoderGolden>(`decoder-${variant}.json`)
  const { config } = golden
  const adapter = formulaAdapter(config, golden.adapter.rank, golden.adapter.alpha)
  let directory: string
  let prepared: PreparedModel
  let model: RowModel

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'trainyard-decoder-'))
    prepared = await prepareFormulaModel(config, directory)
    model = {
      config,
      tensors: prepared.tensors('f32'),
      adapter: golden.adapter,
      isAttentionBlocked: attentionBlock !== undefined,
    }
  })
  afterAll(() => rm(directory, { recursive: true, force: true, maxRetries: 20 }))

  const run = async (
    graph: ReturnType<typeof buildLogitsGraph>,
    batch: RowBatch,
    extras: Record<string, HostTensor> = {},
    feeds = adapterFeeds(adapter),
  ) => {
    const frequencies = await readRotaryFrequencies(prepared.tensors('f32'))
    const session = await openRowSession(graph, { runtime: createOrtRuntime(), directory, frequencies, attentionBlock })
    try {
      return await session.run(batch, feeds, extras)
    } finally {
      await session.release()
    }
  }

  it('logits are PyTorch’s', async () => {
    const { logits } = await run(buildLogitsGraph(model), toRowBatch(rowsOf(golden)))
    expectClose(logits, unpack(golden.logits))
  })

  it('an adapter with B = 0 leaves logits bit-identical to the base model', async () => {
    const batch = toRowBatch(rowsOf(golden))
    const zero = { ...adapter, b: new Map([...adapter.b].map(([path, b]) => [path, new Float32Array(b.length)])) }
    const withAdapter = await run(buildLogitsGraph(model), batch, {}, adapterFeeds(zero))
    const base = await run(buildLogitsGraph({ ...model, adapter: null }), batch, {}, {})
    expect(dataOf(withAdapter['logits'])).toEqual(dataOf(base['logits']))
  })

  it('scores are PyTorch’s log-probabilities and entropies', async () => {
    const batch = toRowBatch(rowsOf(golden))
    expect(batch.trained.map(({ position }) => position)).toEqual(golden.labelPositions)
    const { logp, entropy } = await run(buildScoreGraph(model), batch)
    expectClose(logp, unpack(golden.logp))
    expectClose(entropy, unpack(golden.entropy))
  })

  it.each(['sft', 'cispo', 'sequence_ppo'] as const)(
    '%s: loss and every adapter gradient are PyTorch’s',
    async (name) => {
      const batch = toRowBatch(rowsOf(golden))
      const { graph, extras } = lossCase(golden, name, batch, model)
      const result = await run(graph, batch, extras)
      const expected = golden.losses[name]
      expect(dataOf(result['loss'])[0]).toBeCloseTo(expected.loss, 4)
      expectClose(result['logp'], unpack(golden.logp))
      expectClose(result['entropy'], unpack(golden.entropy))
      const gradients = unpack(expected.gradients)
      let at = 0
      for (const tensor of golden.gradientNames) {
        const actual = result[gradientName(tensor)]
        const size = dataOf(actual).length
        expectClose(actual, gradients.subarray(at, at + size), tensor)
        at += size
      }
      expect(at).toBe(gradients.length)
    },
  )
})

function lossCase(golden: DecoderGolden, name: keyof DecoderGolden['losses'], batch: RowBatch, model: RowModel) {
  const count = batch.trained.length
  const column = (values: ArrayLike<number>) =>
    float32Tensor(
      Float32Array.from({ length: batch.paddedCount }, (_, n) => values[n] ?? 0),
      [batch.paddedCount],
    )
  const denominator = float32Tensor(Float32Array.of(count), [])
  if (name === 'sft') {
    const loss: LossKind = { kind: 'cross_entropy' }
    return { graph: buildTrainGraph(model, loss), extras: { denominator, weight: perToken(batch, () => 1) } }
  }
  const options: PolicyLossOptions = resolveRlConfig({ ...golden.losses[name].options }).policyLoss
  const segments = [...new Set(golden.segments)]
  const membership = new Float32Array(batch.paddedCount * segments.length)
  golden.segments.forEach((segment, n) => {
    membership[n * segments.length + segments.indexOf(segment)] = 1
  })
  return {
    graph: buildTrainGraph(model, { kind: 'policy', options }),
    extras: {
      denominator,
      weight: column(golden.weight),
      advantage: column(golden.advantage),
      mask: perToken(batch, () => 1),
      old_logp: column(unpack(golden.old)),
      segments: float32Tensor(membership, [batch.paddedCount, segments.length]),
    },
  }
}

function dataOf(tensor: HostTensor | undefined): Float32Array {
  if (tensor?.dtype !== 'float32') throw new Error('expected a float32 tensor')
  return tensor.data
}

/** Largest difference relative to the largest expected number. */
function expectClose(tensor: HostTensor | undefined, expected: Float32Array, what = 'tensor'): void {
  const actual = dataOf(tensor)
  expect(actual.length, what).toBeGreaterThanOrEqual(expected.length)
  const scale = expected.reduce((max, value) => Math.max(max, Math.abs(value)), 0)
  let worst = 0
  expected.forEach((value, i) => {
    worst = Math.max(worst, Math.abs(value - (actual[i] ?? Number.NaN)))
  })
  expect(worst / scale, what).toBeLessThan(1e-4)
}
