/**
 * Promises of training, each locked by one test. Do not change a test without an explicit decision.
 *
 * 1. Eight sequences are learned by heart. 2. Two runs of one job are bit-identical. 3. Save, load and continue equals an
 * uninterrupted run. 4. A positive advantage raises a token's log-probability, a negative one lowers it, zero changes nothing.
 * 5. Tokens that are masked give no gradient. 6. Accumulated micro-batches equal one big batch. 7. Rows packed with a shared
 * prompt give the gradients of unpacked sequences. 8. Nothing trainable leaves the adapter untouched. 9. A loss that is not
 * finite stops training before anything changes. 10. Recomputation changes no bit.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { RuntimeError } from '#base/errors/errors.js'
import { copyOf } from '#base/util/file-content.js'
import { type AdapterWeights, decodeAdapter, encodeAdapter } from '#model/weights/adapter.js'
import { createAdamWState } from '#numerics/optim/adamw.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import { toMicroBatches } from '#training/kinds/sft/sft-rows.js'
import { attentionBlockRows } from '#training/rows/attention-blocks.js'
import { packRows } from '#training/rows/pack.js'
import type { TrainingSequence } from '#training/rows/tokenize.js'
import type { MicroBatch } from '#training/trainer/learner/learner.js'
import { adapterParameters } from '#training/trainer/learner/parameters.js'
import { SFT_OPTIMIZER } from '#training/trainer/optimizer-settings.js'
import { decodeOptimizerState, encodeOptimizerState } from '#training/trainer/optimizer-state.js'
import { perToken, sequenceRow, toRowBatch } from '#training/trainer/row-batch.js'
import { resolveRlConfig } from '../../support/model/job-options.js'
import {
  copyAdapter,
  createTrainingFixture,
  randomSequence,
  sftInputs,
  type TrainingFixture,
  withRandomB,
} from '../../support/model/training-fixture.js'

const SFT = { kind: 'cross_entropy' } as const
let fixture: TrainingFixture
beforeAll(async () => {
  fixture = await createTrainingFixture()
})
afterAll(() => fixture.close())

const sequences = Array.from({ length: 8 }, (_, i) => ({ ...randomSequence(`row ${i}`, 10 + i, 4), lineNumber: i + 1 }))

describe('supervised training', () => {
  it('learns eight sequences by heart', async () => {
    const { adapter, optimizer } = fixture.context('overfit')
    const trainer = await fixture.trainer({ loss: SFT, adapter, optimizer })
    const first = await trainer.step(toMicroBatches({ sequences }), { learningRate: 0.01 })
    let last = first
    for (let step = 0; step < 120; step++)
      last = await trainer.step(toMicroBatches({ sequences }), { learningRate: 0.01 })
    await trainer.release()
    expect(first.loss).toBeGreaterThan(2)
    expect(last.loss).toBeLessThan(0.05)
  })

  it('is bit-identical when run twice', async () => {
    const runs: AdapterWeights[] = []
    for (let run = 0; run < 2; run++) {
      const { adapter, optimizer } = fixture.context('twice')
      const trainer = await fixture.trainer({ loss: SFT, adapter, optimizer })
      for (let step = 0; step < 4; step++) await trainer.step(toMicroBatches({ sequences }), { learningRate: 0.01 })
      await trainer.release()
      runs.push(adapter)
    }
    expect(bytesOf(runs[1]!)).toEqual(bytesOf(runs[0]!))
    expect(bytesOf(runs[0]!)).not.toEqual(bytesOf(fixture.context('twice').adapter))
  })

  it('continues from saved files as if it had not stopped', async () => {
    const straight = fixture.context('resume')
    const trainer = await fixture.trainer({ loss: SFT, ...straight })
    const batchOf = (step: number) => toMicroBatches({ sequences: sequences.slice(step, step + 3) })
    for (let step = 0; step < 3; step++) await trainer.step(batchOf(step), { learningRate: 0.01 })
    const files = encodeAdapter(straight.adapter, { baseModelName: 'small' })
    // what it gives are views of moments that the steps below change
    const state = copyOf(encodeOptimizerState(straight.optimizer, 'sft'))
    for (let step = 3; step < 6; step++) await trainer.step(batchOf(step), { learningRate: 0.01 })
    await trainer.release()

    const adapter = decodeAdapter(files)
    const optimizer = decodeOptimizerState(state, 'sft', adapterParameters(adapter))
    const resumed = await fixture.trainer({ loss: SFT, adapter, optimizer })
    for (let step = 3; step < 6; step++) await resumed.step(batchOf(step), { learningRate: 0.01 })
    await resumed.release()
    expect(optimizer.stepCount).toBe(6)
    expect(bytesOf(adapter)).toEqual(bytesOf(straight.adapter))
  })

  it('gives masked tokens no gradient', async () => {
    const adapter = withRandomB(fixture.context('mask').adapter, 'mask')
    const gradientsWith = async (lastToken: number) => {
      const { tokenIds, lossMask } = randomSequence('masked tail', 12, 4)
      tokenIds[11] = lastToken
      lossMask[11] = 0
      return fixture.gradients(adapter, SFT, [sftInputs(toRowBatch([sequenceRow(tokenIds, lossMask)]), 7)])
    }
    const one = await gradientsWith(3)
    const other = await gradientsWith(17)
    expect(largest(one)).toBeGreaterThan(1e-3)
    for (const [name, values] of one) expect(other.get(name), name).toEqual(values)
  })

  it('accumulates micro-batches to the gradient of one big batch', async () => {
    const adapter = withRandomB(fixture.context('accumulate').adapter, 'accumulate')
    const rows = sequences.map(({ tokenIds, lossMask }) => sequenceRow(tokenIds, lossMask))
    const count = toRowBatch(rows).trained.length
    const whole = await fixture.gradients(adapter, SFT, [sftInputs(toRowBatch(rows), count)])
    const parts = [rows.slice(0, 3), rows.slice(3, 4), rows.slice(4)].map((part) => sftInputs(toRowBatch(part), count))
    expectClose(await fixture.gradients(adapter, SFT, parts), whole)
    expectClose(await fixture.gradients(adapter, SFT, toMicroBatches({ sequences })), whole)
  })

  it('gives bit-identical gradients when layers are computed again instead of kept', async () => {
    const adapter = withRandomB(fixture.context('recompute').adapter, 'recompute')
    const kept = await fixture.gradients(adapter, SFT, toMicroBatches({ sequences }))
    const again = await fixture.gradients(adapter, SFT, toMicroBatches({ sequences }), { isRecomputed: true })
    for (const [name, values] of kept) expect(again.get(name), name).toEqual(values)
  })

  it('gives the same gradients with attention in blocks, whatever their size, and the same bits when layers are computed again', async () => {
    const adapter = withRandomB(fixture.context('blocks').adapter, 'blocks')
    const whole = await fixture.gradients(adapter, SFT, toMicroBatches({ sequences }))
    for (const attentionBlock of [1, 3, 8, 64]) {
      const blocks = await fixture.gradients(adapter, SFT, toMicroBatches({ sequences }), { attentionBlock })
      expectClose(blocks, whole)
      const again = { attentionBlock, isRecomputed: true }
      const recomputed = await fixture.gradients(adapter, SFT, toMicroBatches({ sequences }), again)
      for (const [name, values] of blocks) expect(recomputed.get(name), name).toEqual(values)
    }
  })

  it('gives a row of 1,100 tokens the gradients that a dense bias gives it', async () => {
    const adapter = withRandomB(fixture.context('long').adapter, 'long')
    const length = 1100
    const { tokenIds, lossMask } = randomSequence('long', length, 900)
    const batch = toRowBatch([sequenceRow(tokenIds, lossMask)])
    expect(batch.feeds['bias']).toBeUndefined()
    const attentionBlock = attentionBlockRows(length)
    const blocks = await fixture.gradients(adapter, SFT, [sftInputs(batch, 100)], { attentionBlock })
    const causal = Float32Array.from({ length: length * length }, (_, i) => (i % length <= i / length ? 0 : -1e30))
    const dense = { ...batch, feeds: { ...batch.feeds, bias: float32Tensor(causal, [1, length, length]) } }
    expectClose(blocks, await fixture.gradients(adapter, SFT, [sftInputs(dense, 100)]))
  })

  it('leaves adapter and optimizer untouched when the loss is not finite', async () => {
    const { adapter, optimizer } = fixture.context('nan')
    adapter.b.get('model.layers.0.mlp.up_proj')!.fill(Number.NaN)
    const before = copyAdapter(adapter)
    const trainer = await fixture.trainer({ loss: SFT, adapter, optimizer })
    await expect(trainer.step(toMicroBatches({ sequences }), { learningRate: 0.01 })).rejects.toMatchObject({
      code: 'non_finite_loss',
      message: expect.stringContaining('gradient step 1'),
    })
    await trainer.release()
    expect(bytesOf(adapter)).toEqual(bytesOf(before))
    expect(optimizer.stepCount).toBe(0)
  })
})

describe('memory', () => {
  it('names the step when ONNX Runtime gets no memory, and changes nothing', async () => {
    const { adapter, optimizer } = fixture.context('memory')
    const before = copyAdapter(adapter)
    // The words are ONNX Runtime's own, from a run under a memory limit.
    const failure = new RuntimeError(
      'runtime_failed',
      'ONNX Runtime could not run train.onnx: Non-zero status code returned while running Add node. Status Message: BFCArena::AllocateRawInternal Failed to allocate memory for requested buffer of size 576000000',
    )
    const trainer = await fixture.trainer({ loss: SFT, adapter, optimizer, runFailure: failure })
    await expect(trainer.step(toMicroBatches({ sequences }), { learningRate: 0.01 })).rejects.toMatchObject({
      code: 'out_of_memory',
      message: 'memory ran out in gradient step 1',
      cause: failure,
    })
    await trainer.release()
    expect(bytesOf(adapter)).toEqual(bytesOf(before))
    expect(optimizer.stepCount).toBe(0)
  })
})

describe('reinforcement learning', () => {
  const loss = { kind: 'policy', options: resolveRlConfig({}).policyLoss } as const

  it.each([
    ['raises', 1],
    ['lowers', -1],
    ['does not change', 0],
  ])('%s the log-probability of tokens with advantage %i', async (_, advantage) => {
    const { adapter, optimizer } = fixture.context('sign')
    const before = copyAdapter(adapter)
    const settings = { ...SFT_OPTIMIZER, weightDecay: 0 }
    const trainer = await fixture.trainer({ loss, adapter, optimizer, settings })
    const { tokenIds, lossMask } = randomSequence('sign', 12, 5)
    const batch = rlInputs([sequenceRow(tokenIds, lossMask)], advantage)
    const first = await trainer.step([batch], { learningRate: 1e-3 })
    // The second step's log-probabilities are those after the first step.
    const second = await trainer.step([batch], { learningRate: 1e-3 })
    await trainer.release()
    const change = second.outputs[0]!.logp.map((value, n) => value - first.outputs[0]!.logp[n]!)
    const total = change.reduce((sum, value) => sum + value, 0)
    if (advantage === 0) expect(bytesOf(adapter)).toEqual(bytesOf(before))
    expect(Math.sign(total)).toBe(advantage)
  })

  it('gives rows packed with a shared prompt the gradients of unpacked sequences', async () => {
    const adapter = withRandomB(fixture.context('pack').adapter, 'pack')
    const trained = Array.from({ length: 4 }, (_, i) => trainingSequence(i))
    const options = { rowLength: 96, padTokenId: 0, padMultiple: 8 }
    const packed = packRows(trained, options)
    expect(packed.length).toBe(1)
    expect(packed[0]!.sequences.some(({ prefixLength }) => prefixLength > 0)).toBe(true)
    const unpacked = trained.map((sequence) => packRows([sequence], options)[0]!)
    const count = trained.reduce((sum, { trainableTokenCount }) => sum + trainableTokenCount, 0)
    const inputs = (rows: typeof packed): MicroBatch[] =>
      rows.map((row) => {
        const batch = toRowBatch([row])
        const read = (values: Float32Array) => perToken(batch, ({ index }) => values[index]!)
        return {
          batch,
          lossInputs: {
            denominator: float32Tensor(Float32Array.of(count), []),
            weight: read(row.weights),
            advantage: read(row.advantages),
            old_logp: read(row.logprobs),
            mask: perToken(batch, () => 1),
          },
        }
      })
    const expected = await fixture.gradients(adapter, loss, inputs(unpacked))
    expect(largest(expected)).toBeGreaterThan(1e-3)
    expectClose(await fixture.gradients(adapter, loss, inputs(packed)), expected)
  })

  function trainingSequence(index: number): TrainingSequence {
    const prompt = randomSequence(`prompt ${index < 3 ? 0 : 1}`, 9, 9)
    const completion = randomSequence(`completion ${index}`, 5 + index, 0)
    const tokenIds = Int32Array.of(...prompt.tokenIds, ...completion.tokenIds)
    const lossMask = new Uint8Array(tokenIds.length).fill(1, 9)
    return {
      tokenIds,
      lossMask,
      logprobs: Float32Array.from(lossMask, (bit, t) => (bit === 1 ? -3 - 0.1 * t : Number.NaN)),
      advantage: [1, -0.5, 0.7, -1][index]!,
      weight: 1 + 0.1 * index,
      trainableTokenCount: 5 + index,
      groupIndex: 0,
      trajectoryIndex: index,
      isTruncated: false,
    }
  }

  function rlInputs(rows: ReturnType<typeof sequenceRow>[], advantage: number): MicroBatch {
    const batch = toRowBatch(rows)
    return {
      batch,
      lossInputs: {
        denominator: float32Tensor(Float32Array.of(batch.trained.length), []),
        weight: perToken(batch, () => 1),
        mask: perToken(batch, () => 1),
        advantage: perToken(batch, () => advantage),
        old_logp: perToken(batch, () => Number.NaN, Number.NaN),
      },
    }
  }
})

describe('optimizer state', () => {
  it('is dropped when the other kind of job made it', async () => {
    const { adapter, optimizer } = fixture.context('kind')
    const trainer = await fixture.trainer({ loss: SFT, adapter, optimizer })
    await trainer.step(toMicroBatches({ sequences }), { learningRate: 0.01 })
    await trainer.release()
    const bytes = encodeOptimizerState(optimizer, 'sft')
    expect(decodeOptimizerState(bytes, 'rl', adapterParameters(adapter))).toEqual(createAdamWState())
    expect(decodeOptimizerState(bytes, 'sft', adapterParameters(adapter))).toEqual(optimizer)
  })
})

function bytesOf(adapter: AdapterWeights): Uint8Array {
  return encodeAdapter(adapter, { baseModelName: 'small' }).get('adapter_model.safetensors')!
}

function largest(gradients: ReadonlyMap<string, Float32Array>): number {
  return Math.max(
    ...[...gradients.values()].map((values) => values.reduce((max, value) => Math.max(max, Math.abs(value)), 0)),
  )
}

function expectClose(actual: ReadonlyMap<string, Float32Array>, expected: ReadonlyMap<string, Float32Array>): void {
  expect([...actual.keys()]).toEqual([...expected.keys()])
  const scale = largest(expected)
  for (const [name, values] of expected) {
    const worst = values.reduce((max, value, i) => Math.max(max, Math.abs(value - actual.get(name)![i]!)), 0)
    expect(worst / scale, name).toBeLessThan(1e-5)
  }
}
