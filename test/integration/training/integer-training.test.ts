/**
 * Training with the frozen layers in integers, on the weights of spark: the products against a reference that rounds by hand,
 * gradients and learning against float32.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { systemClock } from '#base/util/clock.js'
import { createRng } from '#base/util/rng.js'
import { frozenIntegerLinear, frozenLinearRule } from '#model/architectures/integer/frozen-integer.js'
import { integerLayers } from '#model/architectures/integer/integer-layers.js'
import { loadIntegerProbe } from '#model/architectures/integer/integer-probe.js'
import { type PreparedModel, prepareBaseModel } from '#model/architectures/prepare.js'
import { sparkDirectory } from '#model/built-in/spark.js'
import { loadTextModel, type TextModel } from '#model/text/text-model.js'
import { quantizeOutputs } from '#model/weights/quantize-outputs.js'
import { backward } from '#numerics/autodiff/backward.js'
import { GraphBuilder } from '#numerics/graph/builder.js'
import { toOnnxModel } from '#numerics/graph/to-onnx.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import { type JobContext, openLearner, startingPoint } from '#training/trainer/job.js'
import type { MicroBatch } from '#training/trainer/learner/learner.js'
import { rowSettings } from '#training/trainer/learner/onnx-learner.js'
import { adapterFeeds } from '#training/trainer/learner/parameters.js'
import { SFT_OPTIMIZER } from '#training/trainer/optimizer-settings.js'
import { perToken, sequenceRow, toRowBatch } from '#training/trainer/row-batch.js'
import { openRowSession } from '#training/trainer/row-session.js'
import { buildTrainGraph } from '#training/trainer/train-graph.js'
import { createTrainer } from '#training/trainer/trainer.js'
import { withRandomB } from '../../support/model/training-fixture.js'

const runtime = createOrtRuntime()
let directory = ''
let prepared: PreparedModel
let text: TextModel
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-integers-'))
  prepared = await prepareBaseModel(sparkDirectory(), directory, [])
  text = await loadTextModel(sparkDirectory())
})
afterAll(() => rm(directory, { recursive: true, force: true, maxRetries: 20 }))

const probe = await loadIntegerProbe(runtime, { rows: 1, inner: 256, columns: 256 })
const isExact = await probe.isExact()
await probe.session.release()

describe.skipIf(isExact)('a processor whose 8-bit products overflow', () => {
  it('is told, with what to do', async () => {
    await expect(integerLayers(prepared, runtime)).rejects.toMatchObject({
      code: 'precision_unavailable',
      hint: expect.stringContaining('f32'),
    })
  })
})

describe.skipIf(!isExact)(
  'the product of a frozen layer (skipped where 8-bit products overflow: no VNNI, AMX or their like)',
  () => {
    const [rows, inner, columns] = [5, 48, 32]
    const rng = createRng('integers')
    const uniform = (count: number, scale: number): Float32Array =>
      Float32Array.from({ length: count }, () => (rng.uniform() * 2 - 1) * scale)
    // A row of zeros and one with an extreme value are what real ones are like.
    const x = uniform(rows * inner, 1)
    x.fill(0, inner, 2 * inner)
    x[3] = 40
    const dy = uniform(rows * columns, 1e-3)
    dy.fill(0, 2 * columns, 3 * columns)
    const weight = uniform(columns * inner, 0.2)
    const { quantized, scales } = quantizeOutputs(weight, columns, new Float32Array(inner).fill(1))

    async function run(): Promise<{ readonly y: Float32Array; readonly dx: Float32Array }> {
      const g = new GraphBuilder('frozen')
      const [given, seed] = [g.input('x', 'float32', ['M', inner]), g.input('dy', 'float32', ['M', columns])]
      const transposed = Int8Array.from({ length: quantized.length }, (_, i) => {
        const [row, column] = [Math.floor(i / inner), i % inner]
        return quantized[column * columns + row] as number
      })
      const y = frozenIntegerLinear(g, given, {
        quantized: g.constant({ dtype: 'int8', shape: [inner, columns], data: quantized }),
        transposed: g.constant({ dtype: 'int8', shape: [columns, inner], data: transposed }),
        scales: g.constant(float32Tensor(scales, [columns])),
      })
      const rules = new Map([['FrozenLinear', frozenLinearRule]])
      const [dx] = backward(g, [{ value: y, gradient: seed }], [given], { rules })
      g.output(y, 'y')
      g.output(dx!, 'dx')
      const session = await runtime.loadSession({ bytes: toOnnxModel(g.build(), 'frozen.onnx'), directory: '.' })
      const outputs = await session.run({ x: float32Tensor(x, [rows, inner]), dy: float32Tensor(dy, [rows, columns]) })
      await session.release()
      return { y: outputs['y']!.data as Float32Array, dx: outputs['dx']!.data as Float32Array }
    }

    /** A row as integers times a scale, each rounded to the nearest, ties to even. */
    function rounded(row: readonly number[], terms: 1 | 2): number[] {
      const scale = Math.max(...row.map(Math.abs)) / 127
      if (scale === 0) return row.map(() => 0)
      const first = row.map((value) => roundEven(value / scale))
      if (terms === 1) return first.map((code) => code * scale)
      return first.map((code, k) => (code + roundEven(((row[k]! - code * scale) / scale) * 254) / 254) * scale)
    }
    const roundEven = (value: number): number => {
      const floor = Math.floor(value)
      if (value - floor !== 0.5) return Math.round(value)
      return floor % 2 === 0 ? floor : floor + 1
    }
    const rowsOf = (values: Float32Array, width: number): number[][] =>
      Array.from({ length: rows }, (_, row) => Array.from(values.subarray(row * width, (row + 1) * width)))
    const near = (found: Float32Array, expected: readonly number[], tolerance: number): void => {
      const largest = Math.max(...expected.map(Math.abs))
      const worst = Math.max(...expected.map((value, i) => Math.abs(found[i]! - value)))
      expect(worst).toBeLessThan(tolerance * largest)
    }

    it('is that of integers rounded by hand, and its gradient too', async () => {
      const { y, dx } = await run()
      const expectedY = rowsOf(x, inner).flatMap((row) => {
        const codes = rounded(row, 2)
        return Array.from({ length: columns }, (_, n) =>
          codes.reduce((sum, code, k) => sum + code * quantized[k * columns + n]! * scales[n]!, 0),
        )
      })
      // A second term is rounded from a float32 rest: now and then it falls to the other side.
      near(y, expectedY, 2e-4)
      const expectedDx = rowsOf(dy, columns).flatMap((row) => {
        const codes = rounded(
          row.map((value, n) => value * scales[n]!),
          1,
        )
        return Array.from({ length: inner }, (_, k) =>
          codes.reduce((sum, code, n) => sum + code * quantized[k * columns + n]!, 0),
        )
      })
      near(dx, expectedDx, 1e-5)
    })

    it('is near the float32 product: 1% of its size, of which the weights are most', async () => {
      const { y } = await run()
      const expected = rowsOf(x, inner).flatMap((row) =>
        Array.from({ length: columns }, (_, n) =>
          row.reduce((sum, value, k) => sum + value * weight[n * inner + k]!, 0),
        ),
      )
      near(y, expected, 0.01)
    })
  },
)

describe.skipIf(!isExact)('int8 training of spark (skipped where 8-bit products overflow)', () => {
  const PROMPTS = ['The sum of 12 and 30 is 42.', 'A potato is a vegetable, so no.', 'Hello! How are you today?']

  function context(seed: string): JobContext {
    const start = startingPoint(prepared, null, { kind: 'sft', lora: null, seed })
    return { runtime, prepared, clock: systemClock, jobId: seed, threads: 1, resumePoint: null, ...start }
  }
  function microBatch(): MicroBatch {
    const batch = toRowBatch(
      PROMPTS.map((prompt) => {
        const ids = Int32Array.from(text.tokenizer.encode(prompt))
        return sequenceRow(ids, new Uint8Array(ids.length).fill(1))
      }),
    )
    const denominator = float32Tensor(Float32Array.of(batch.trained.length), [])
    return { batch, lossInputs: { denominator, weight: perToken(batch, () => 1) } }
  }

  it('has the gradients of float32 within a cosine of 0.99, also when layers are recomputed, then to the bit', async () => {
    const { batch, lossInputs } = microBatch()
    const job = context('gradients')
    const adapter = withRandomB(job.adapter, 'gradients')
    const gradients = async (precision: 'f32' | 'int8', isRecomputed = false) => {
      const { model, session } = await rowSettings({ ...job, adapter: adapter.config, precision }, { longestRow: 1 })
      const open = await openRowSession(buildTrainGraph(model, { kind: 'cross_entropy' }, { isRecomputed }), session)
      const outputs = await open.run(batch, adapterFeeds(adapter), lossInputs)
      await open.release()
      return Object.fromEntries(
        Object.entries(outputs).map(([name, { data }]) => [name, Array.from(data as Float32Array)]),
      )
    }
    const exact = await gradients('f32')
    const integer = await gradients('int8')
    expect(Math.abs(integer['loss']![0]! / exact['loss']![0]! - 1)).toBeLessThan(0.01)
    for (const name of Object.keys(exact).filter((each) => each.startsWith('gradient:'))) {
      expect(cosine(exact[name]!, integer[name]!), name).toBeGreaterThan(0.99)
      expect(integer[name], `${name} is not that of float32`).not.toEqual(exact[name])
    }
    expect(await gradients('int8', true)).toEqual(integer)
  })

  it('learns as float32 does, and the same bits every time', async () => {
    const learn = async (precision: 'f32' | 'int8'): Promise<number[]> => {
      const job = context('learning')
      const rows = { longestRow: 1, isRecomputed: false }
      const learner = await openLearner(job, { precision, rows })
      const trainer = await createTrainer({
        learner,
        loss: { kind: 'cross_entropy' },
        settings: SFT_OPTIMIZER,
      })
      const losses: number[] = []
      for (let step = 0; step < 30; step++)
        losses.push((await trainer.step([microBatch()], { learningRate: 2e-3 })).loss)
      await learner.release()
      return losses
    }
    const [exact, integer] = [await learn('f32'), await learn('int8')]
    expect(exact.at(-1)).toBeLessThan(0.5 * exact[0]!)
    expect(Math.max(...integer.map((loss, step) => Math.abs(loss - exact[step]!)))).toBeLessThan(0.05 * exact[0]!)
    expect(await learn('int8')).toEqual(integer)
  })
})

function cosine(a: readonly number[], b: readonly number[]): number {
  const dot = (x: readonly number[], y: readonly number[]): number =>
    x.reduce((sum, value, i) => sum + value * y[i]!, 0)
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b))
}
