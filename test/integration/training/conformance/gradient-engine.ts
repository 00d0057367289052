/**
 * What every `GradientEngine` has to do, whoever computes: right numbers by PyTorch's goldens, the same ones every time.
 *
 * A second implementation calls this with a factory of its own. Tolerance: 1e-4 relative to the largest number of each tensor.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { PreparedModel } from '#model/architectures/prepare.js'
import type { AdapterWeights } from '#model/weights/adapter.js'
import { type AdapterForm, isAdapted, rankOf, scaleOf } from '#model/weights/adapter-config.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import type { GradientEngine, GradientEngines } from '#training/trainer/gradient-engine.js'
import { adapterFeeds } from '#training/trainer/learner/parameters.js'
import { createDropout } from '#training/trainer/masks/dropout.js'
import { perToken, type RowBatch, toRowBatch } from '#training/trainer/row-batch.js'
import { gradientName, type LossKind } from '#training/trainer/train-graph.js'
import {
  type DecoderGolden,
  formulaAdapter,
  readGolden,
  rowsOf,
  type SampledGolden,
  sampledRowsOf,
  unpack,
} from '../../../support/model/decoder-goldens.js'
import { prepareFormulaModel } from '../../../support/model/golden-model.js'
import { resolveRlConfig } from '../../../support/model/job-options.js'

const TOLERANCE = 1e-4
const CROSS_ENTROPY: LossKind = { kind: 'cross_entropy' }

/** Engines of a prepared base model for adapters of one form. */
type OpenEngines = (base: {
  readonly prepared: PreparedModel
  readonly adapter: AdapterForm
  readonly dropout?: number
  readonly hasKeptSets?: boolean
}) => Promise<GradientEngines>

/**
 * @param name of the implementation
 * @param families those it has; default all
 */
export function gradientEngineConformance(
  name: string,
  open: OpenEngines,
  families: readonly string[] = ['llama', 'qwen2', 'qwen3'],
): void {
  sampledConformance(name, open)
  describe.each(families)(`${name} is a gradient engine for %s`, (variant) => {
    const golden = readGolden<DecoderGolden>(`decoder-${variant}.json`)
    const adapter = formulaAdapter(golden.config, golden.adapter.rank, golden.adapter.alpha)
    const batch = toRowBatch(rowsOf(golden))
    const inputs = { weight: perToken(batch, () => 1), denominator: scalar(batch.trained.length) }
    let directory: string
    let prepared: PreparedModel
    let engines: GradientEngines

    beforeAll(async () => {
      directory = await mkdtemp(join(tmpdir(), 'trainyard-conformance-'))
      prepared = await prepareFormulaModel(golden.config, directory)
      engines = await open({ prepared, adapter: golden.adapter })
    })
    afterAll(() => rm(directory, { recursive: true, force: true, maxRetries: 20 }))

    const using = async <T>(
      engine: Promise<GradientEngine>,
      use: (engine: GradientEngine) => Promise<T>,
    ): Promise<T> => {
      const opened = await engine
      try {
        return await use(opened)
      } finally {
        await opened.release()
      }
    }
    const training = <T>(use: (engine: GradientEngine) => Promise<T>, isRecomputed = false): Promise<T> =>
      using(engines.train(CROSS_ENTROPY, { isRecomputed }), use)

    it('has the loss, scores and gradients of PyTorch, also where layers are recomputed', async () => {
      for (const isRecomputed of [false, true]) {
        const result = await training((engine) => engine.run(batch, adapterFeeds(adapter), inputs), isRecomputed)
        expectGolden(result, golden, 'sft')
      }
    })

    it('has the loss, ratio and gradients of a policy', async () => {
      const loss: LossKind = {
        kind: 'policy',
        options: resolveRlConfig({ ...golden.losses.cispo.options }).policyLoss,
      }
      const result = await using(engines.train(loss, { isRecomputed: false }), (engine) =>
        engine.run(batch, adapterFeeds(adapter), { ...inputs, ...policyInputs(golden, batch) }),
      )
      expectGolden(result, golden, 'cispo')
      const [logp, old, ratio] = [dataOf(result, 'logp'), unpack(golden.old), dataOf(result, 'ratio')]
      expect(
        worstOf(
          ratio,
          Float32Array.from(old, (value, n) => Math.exp((logp[n] as number) - value)),
        ),
      ).toBeLessThan(TOLERANCE)
    })

    it('scores without a gradient as it does with one', async () => {
      const feeds = adapterFeeds(adapter)
      const scored = await using(engines.score(golden.adapter), (engine) => engine.run(batch, feeds, {}, ['logp']))
      expect(Object.keys(scored)).toEqual(['logp'])
      expect(worstOf(dataOf(scored, 'logp'), unpack(golden.logp))).toBeLessThan(TOLERANCE)
    })

    it('gives the same bits every time, in outputs that stay as they are', async () => {
      await training(async (engine) => {
        const first = await engine.run(batch, adapterFeeds(adapter), inputs)
        const kept = bitsOf(first)
        await engine.run(batch, adapterFeeds(zeroed()), inputs)
        expect(bitsOf(first)).toEqual(kept)
        expect(bitsOf(await engine.run(batch, adapterFeeds(adapter), inputs))).toEqual(kept)
      })
    })

    it('returns what is asked for, and reads the adapter at each call without changing it', async () => {
      const [tensor = ''] = golden.gradientNames
      const changing = zeroed()
      const feeds = adapterFeeds(changing)
      await training(async (engine) => {
        const wanted = ['loss', gradientName(tensor)]
        const before = await engine.run(batch, feeds, inputs, wanted)
        expect(Object.keys(before).sort()).toEqual([...wanted].sort())
        for (const [path, values] of changing.b) values.set(adapter.b.get(path) ?? [])
        const after = await engine.run(batch, feeds, inputs, wanted)
        expect(dataOf(after, 'loss')).not.toEqual(dataOf(before, 'loss'))
      })
      expect(changing).toEqual(adapter)
    })

    it('gives losses and gradients that add up over parts of a step', async () => {
      const rows = rowsOf(golden)
      const parts = rows.map((row) => toRowBatch([row]))
      expect(parts.length).toBeGreaterThan(1)
      await training(async (engine) => {
        const whole = await engine.run(batch, adapterFeeds(adapter), inputs)
        const results: Record<string, HostTensor>[] = []
        for (const part of parts) {
          const own = { ...inputs, weight: perToken(part, () => 1) }
          results.push(await engine.run(part, adapterFeeds(adapter), own))
        }
        for (const each of ['loss', ...golden.gradientNames.map(gradientName)]) {
          const sum = dataOf(whole, each).map((_, i) =>
            results.reduce((total, result) => total + (dataOf(result, each)[i] as number), 0),
          )
          expect(worstOf(dataOf(whole, each), sum), each).toBeLessThan(TOLERANCE)
        }
      })
    })

    // a rank of its own, a scale of its own and a module that is missing change no more than zeros in their place would
    it('has adapters whose modules differ in rank and scale or are missing', async () => {
      const { rank, alpha } = golden.adapter
      const form: AdapterForm = {
        rank,
        alpha,
        targets: ['q_proj', 'v_proj', 'o_proj', 'up_proj', 'down_proj'],
        usesRslora: true,
        rankPattern: { 'layers.0.self_attn.v_proj': 1, q_proj: 1, 'layers.1.mlp.down_proj': 1 },
      }
      const own = shaped(form)
      const whole = widened(own)
      const other = await open({ prepared, adapter: form })
      const scored = await using(other.score(form), (engine) => engine.run(batch, adapterFeeds(own), {}, ['logp']))
      const actual = await using(other.train(CROSS_ENTROPY, { isRecomputed: false }), (engine) =>
        engine.run(batch, adapterFeeds(own), inputs),
      )
      engines = await open({ prepared, adapter: golden.adapter })
      const expected = await training((engine) => engine.run(batch, adapterFeeds(whole), inputs))
      expect(worstOf(dataOf(scored, 'logp'), dataOf(expected, 'logp'))).toBeLessThan(TOLERANCE)
      expect(worstOf(dataOf(actual, 'loss'), dataOf(expected, 'loss'))).toBeLessThan(TOLERANCE)
      const names = Object.keys(adapterFeeds(own))
      expect(
        Object.keys(actual)
          .filter((name) => name.startsWith('gradient:'))
          .sort(),
      ).toEqual(names.map(gradientName).sort())
      for (const [path, a] of own.a) {
        const ownRank = rankOf(form, path)
        const factor = scaleOf(form, path) / (alpha / rank)
        const of = (side: 'A' | 'B') => dataOf(expected, gradientName(`${path}.lora_${side}.weight`))
        expect(
          worstOf(dataOf(actual, gradientName(`${path}.lora_A.weight`)), of('A').subarray(0, a.length)),
          path,
        ).toBeLessThan(TOLERANCE)
        const b = columnsOf(of('B'), rank, ownRank).map((value) => value * factor)
        expect(worstOf(dataOf(actual, gradientName(`${path}.lora_B.weight`)), b), path).toBeLessThan(TOLERANCE)
      }
    })

    it('leaves out inputs of adapters by the masks it is given, in gradients alone', async () => {
      const share = 0.3
      const dropped = await open({ prepared, adapter: golden.adapter, dropout: share })
      const masks = createDropout(golden.config, golden.adapter, { share, seed: 'test' })
      const feeds = masks.feeds({ step: 0, part: 0, tokens: batch.positions.length })
      const none = Object.fromEntries(
        Object.entries(feeds).map(([each, { shape, data }]) => [
          each,
          float32Tensor(new Float32Array(data.length).fill(each.endsWith('.rows') ? 0.5 : 0), shape),
        ]),
      )
      const shift = (distance: number, gradients: Readonly<Record<string, HostTensor>>) =>
        Object.fromEntries(
          Object.entries(adapterFeeds(adapter)).map(([tensor, { shape, data }]) => {
            const slope = dataOf(gradients, gradientName(tensor))
            return [
              tensor,
              float32Tensor(
                (data as Float32Array).map((value, i) => value + distance * slope[i]!),
                shape,
              ),
            ]
          }),
        )
      await using(dropped.train(CROSS_ENTROPY, { isRecomputed: false }), async (engine) => {
        const run = (values: Readonly<Record<string, HostTensor>>, of = feeds) =>
          engine.run(batch, values, { ...inputs, ...of })
        const first = await run(adapterFeeds(adapter))
        expect(bitsOf(await run(adapterFeeds(adapter)))).toEqual(bitsOf(first))
        expect(dataOf(first, 'loss')).not.toEqual(dataOf(await run(adapterFeeds(adapter), none), 'loss'))
        // nothing left out: the adapter is given every input, larger by 1 / (1 - share), as one with a larger scale
        const larger = { ...golden.adapter, alpha: golden.adapter.alpha / (1 - share) }
        const plain = await open({ prepared, adapter: larger })
        const expected = await using(plain.score(larger), (scores) =>
          scores.run(batch, adapterFeeds(adapter), {}, ['logp']),
        )
        const whole = await run(adapterFeeds(adapter), none)
        expect(worstOf(dataOf(whole, 'logp'), dataOf(expected, 'logp'))).toBeLessThan(TOLERANCE)
        // central difference along the gradient: its squared length
        const names = Object.keys(adapterFeeds(adapter)).map(gradientName)
        const square = names.reduce((sum, each) => dataOf(first, each).reduce((total, x) => total + x * x, sum), 0)
        const distance = 0.0015 / Math.sqrt(square)
        const lossAt = async (each: number) => dataOf(await run(shift(each, first)), 'loss')[0] as number
        const slope = ((await lossAt(distance)) - (await lossAt(-distance))) / (2 * distance)
        expect(slope / square).toBeCloseTo(1, 2)
      })
      const scored = await using(dropped.score(golden.adapter), (engine) =>
        engine.run(batch, adapterFeeds(adapter), {}, ['logp']),
      )
      expect(worstOf(dataOf(scored, 'logp'), unpack(golden.logp))).toBeLessThan(TOLERANCE)
    })

    /** The golden's adapter cut to a form: first rows of A and columns of B, which keep their share of the output. */
    function shaped(form: AdapterForm): AdapterWeights {
      const { rank, alpha } = golden.adapter
      const [a, b] = [new Map<string, Float32Array>(), new Map<string, Float32Array>()]
      for (const [path, values] of adapter.a) {
        if (!isAdapted(form, path)) continue
        const factor = alpha / rank / scaleOf(form, path)
        a.set(path, values.slice(0, (values.length / rank) * rankOf(form, path)))
        b.set(
          path,
          columnsOf(adapter.b.get(path)!, rank, rankOf(form, path)).map((value) => value * factor),
        )
      }
      return { config: { ...form, targets: form.targets ?? [] }, a, b }
    }

    /** The golden's adapter with zeros in B for what such an adapter lacks. */
    function widened({ config }: AdapterWeights): AdapterWeights {
      const { rank } = golden.adapter
      const b = [...adapter.b].map(([path, values]) => {
        const kept = isAdapted(config, path) ? rankOf(config, path) : 0
        return [path, values.map((value, i) => (i % rank < kept ? value : 0))] as const
      })
      return { ...adapter, b: new Map(b) }
    }

    /** The same adapter with every B zero. */
    function zeroed(): typeof adapter {
      const copy = new Map([...adapter.a].map(([path, values]) => [path, values.slice()]))
      const b = new Map([...adapter.b].map(([path, values]) => [path, new Float32Array(values.length)]))
      return { ...adapter, a: copy, b }
    }
  })
}

/** The first columns of a matrix. */
function columnsOf(values: Float32Array, columns: number, kept: number): Float32Array {
  return values.filter((_, i) => i % columns < kept)
}

/** Trains the distributions that tokens were drawn from. @param open as `gradientEngineConformance` has it */
function sampledConformance(name: string, open: OpenEngines): void {
  describe(`${name} trains what was sampled, temperatures and sets mixed in a row`, () => {
    const golden = readGolden<SampledGolden>('sampled.json')
    const adapter = formulaAdapter(golden.config, golden.adapter.rank, golden.adapter.alpha)
    const batch = toRowBatch(sampledRowsOf(golden))
    const column = (values: ArrayLike<number>) => perToken(batch, (_, n) => values[n] as number)
    const inputs = {
      weight: column(golden.weight),
      denominator: scalar(batch.trained.length),
      advantage: column(golden.advantage),
      mask: perToken(batch, () => 1),
      old_logp: column(unpack(golden.old)),
      reference_logp: column(unpack(golden.reference)),
    }
    let directory: string
    let engines: GradientEngines
    beforeAll(async () => {
      directory = await mkdtemp(join(tmpdir(), 'trainyard-conformance-'))
      const prepared = await prepareFormulaModel(golden.config, directory)
      engines = await open({ prepared, adapter: golden.adapter, hasKeptSets: true })
    })
    afterAll(() => rm(directory, { recursive: true, force: true, maxRetries: 20 }))
    const loss: LossKind = { kind: 'policy', options: resolveRlConfig({ ...golden.options }).policyLoss }

    it("has PyTorch's float64 loss, log q, entropy and gradients", async () => {
      const engine = await engines.train(loss, { isRecomputed: false })
      const result = await engine.run(batch, adapterFeeds(adapter), inputs)
      await engine.release()
      expect(dataOf(result, 'loss')[0]).toBeCloseTo(golden.loss, 5)
      expect(worstOf(dataOf(result, 'logp'), unpack(golden.logp))).toBeLessThan(TOLERANCE)
      expect(worstOf(dataOf(result, 'entropy'), unpack(golden.entropy))).toBeLessThan(TOLERANCE)
      expectGradients(result, golden)
      const whole = Float32Array.from(golden.gradientNames.flatMap((each) => [...dataOf(result, gradientName(each))]))
      expect(cosineOf(whole, unpack(golden.gradients))).toBeGreaterThan(0.99999)
      // one token alone could be drawn: its log q is 0
      golden.kept.forEach((ids, n) => {
        if (ids?.length === 1) expect(Math.abs(dataOf(result, 'logp')[n] as number)).toBe(0)
      })
    })

    it('scores by the same temperatures and sets', async () => {
      const engine = await engines.score(golden.adapter)
      const { logp } = await engine.run(batch, adapterFeeds(adapter), {}, ['logp'])
      await engine.release()
      expect(worstOf(dataOf({ logp: logp as HostTensor }, 'logp'), unpack(golden.logp))).toBeLessThan(TOLERANCE)
    })

    it('has the slope of central differences through the whole graph', async () => {
      const engine = await engines.train(loss, { isRecomputed: false })
      const first = await engine.run(batch, adapterFeeds(adapter), inputs)
      const names = Object.keys(adapterFeeds(adapter))
      const square = names.reduce(
        (sum, each) => dataOf(first, gradientName(each)).reduce((total, x) => total + x * x, sum),
        0,
      )
      // of the loss without its ratio, whose weight is a constant of the gradient: the clipped ratio of CISPO moves with logp
      const weightOf = (ratio: number) => Math.min(Math.max(ratio, 0), 5)
      const fixed = dataOf(first, 'ratio').map(weightOf)
      const lossAt = async (distance: number) => {
        const moved = Object.fromEntries(
          Object.entries(adapterFeeds(adapter)).map(([each, { shape, data }]) => {
            const slope = dataOf(first, gradientName(each))
            const values = Float32Array.from(
              data as Float32Array,
              (value, i) => value + distance * (slope[i] as number),
            )
            return [each, float32Tensor(values, shape)]
          }),
        )
        const result = await engine.run(batch, moved, inputs, ['logp', 'entropy'])
        const [logp, entropy] = [dataOf(result, 'logp'), dataOf(result, 'entropy')]
        const reference = unpack(golden.reference)
        const { beta, entropy_coef: bonus } = golden.options
        const total = batch.trained.reduce((sum, _, n) => {
          const x = (reference[n] as number) - (logp[n] as number)
          const each =
            -(fixed[n] as number) * (golden.advantage[n] as number) * (logp[n] as number) +
            beta * (Math.exp(x) - x - 1) -
            bonus * (entropy[n] as number)
          return sum + (golden.weight[n] as number) * each
        }, 0)
        return total / batch.trained.length
      }
      const distance = 0.0015 / Math.sqrt(square)
      const slope = ((await lossAt(distance)) - (await lossAt(-distance))) / (2 * distance)
      await engine.release()
      expect(slope / square).toBeCloseTo(1, 2)
    })
  })
}

function policyInputs(golden: DecoderGolden, batch: RowBatch): Record<string, HostTensor> {
  const column = (values: ArrayLike<number>): HostTensor =>
    float32Tensor(
      Float32Array.from({ length: batch.paddedCount }, (_, n) => values[n] ?? 0),
      [batch.paddedCount],
    )
  const segments = [...new Set(golden.segments)]
  const membership = new Float32Array(batch.paddedCount * segments.length)
  golden.segments.forEach((segment, n) => {
    membership[n * segments.length + segments.indexOf(segment)] = 1
  })
  return {
    weight: column(golden.weight),
    advantage: column(golden.advantage),
    mask: perToken(batch, () => 1),
    old_logp: column(unpack(golden.old)),
    segments: float32Tensor(membership, [batch.paddedCount, segments.length]),
  }
}

function expectGolden(
  result: Readonly<Record<string, HostTensor>>,
  golden: DecoderGolden,
  name: keyof DecoderGolden['losses'],
): void {
  const expected = golden.losses[name]
  expect(dataOf(result, 'loss')[0]).toBeCloseTo(expected.loss, 4)
  expect(worstOf(dataOf(result, 'logp'), unpack(golden.logp))).toBeLessThan(TOLERANCE)
  expect(worstOf(dataOf(result, 'entropy'), unpack(golden.entropy))).toBeLessThan(TOLERANCE)
  expectGradients(result, { gradientNames: golden.gradientNames, gradients: expected.gradients })
}

function expectGradients(
  result: Readonly<Record<string, HostTensor>>,
  golden: Pick<SampledGolden, 'gradientNames' | 'gradients'>,
): void {
  const gradients = unpack(golden.gradients)
  let at = 0
  for (const tensor of golden.gradientNames) {
    const actual = dataOf(result, gradientName(tensor))
    expect(worstOf(actual, gradients.subarray(at, at + actual.length)), tensor).toBeLessThan(TOLERANCE)
    at += actual.length
  }
  expect(at).toBe(gradients.length)
}

function dataOf(result: Readonly<Record<string, HostTensor>>, name: string): Float32Array {
  const tensor = result[name]
  if (tensor?.dtype !== 'float32') throw new Error(`no float32 output "${name}"`)
  return tensor.data
}

function bitsOf(result: Readonly<Record<string, HostTensor>>): Record<string, number[]> {
  return Object.fromEntries(Object.keys(result).map((name) => [name, Array.from(dataOf(result, name))]))
}

/** Largest difference of what is expected, relative to its largest number; what follows is padding. */
function worstOf(actual: Float32Array, expected: Float32Array): number {
  const scale = expected.reduce((max, value) => Math.max(max, Math.abs(value)), 0)
  return expected.reduce((max, value, i) => Math.max(max, Math.abs(value - (actual[i] ?? Number.NaN)) / scale), 0)
}

function cosineOf(a: Float32Array, b: Float32Array): number {
  const product = (x: Float32Array, y: Float32Array) => x.reduce((sum, value, i) => sum + value * (y[i] as number), 0)
  return product(a, b) / Math.sqrt(product(a, a) * product(b, b))
}

function scalar(value: number): HostTensor {
  return float32Tensor(Float32Array.of(value), [])
}
