/**
 * The gradient of every weight against PyTorch and against central differences of a float64 decoder, in two packed rows with
 * segments.
 *
 * PyTorch's are goldens of test/goldens/make_decoder_goldens.py (float64): norm, products with two tensors, some elements. The float64 decoder's own log-probabilities are PyTorch's (goldens of test/goldens/make_decoder_goldens.py). Directions are
 * random signs v: for an error e of the gradient, e·v is about ‖e‖, so that a few directions see every kind of error.
 * Tolerance: 1e-4 of the tensor's gradient norm.
 */
import { describe, expect, test } from 'vitest'
import { createRng } from '#base/util/rng.js'
import { PROJECTIONS, projectionPath, projectionShape } from '#model/architectures/decoder-config.js'
import { rotaryFrequencies } from '#numerics/nn/rotary-embedding.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import { decoderParameters, toHfTensors } from '#plugins/torch/parameters.js'
import { perToken, toRowBatch } from '#training/trainer/row-batch.js'
import { openRowSession } from '#training/trainer/row-session.js'
import { buildFullTrainGraph, fullGradients } from '../../spark/training/full-graph.js'
import {
  type DecoderGolden,
  formulaAdapter,
  formulaTensor,
  formulaWeights,
  readGolden,
  rowsOf,
  unpack,
} from '../../support/model/decoder-goldens.js'
import { type ReferenceWeights, referenceLogp } from '../../support/reference/reference-decoder.js'
import { temporaryDirectory } from '../../support/temporary-directory.js'

/** Of one gradient: what `full_gradient_goldens` says. */
interface GradientGolden {
  readonly norm: number
  readonly products: readonly number[]
  readonly elements: readonly number[]
}

interface FullGolden {
  readonly loss: number
  readonly gradients: Readonly<Record<string, GradientGolden>>
}

const DIRECTIONS = 3
/** Step of the differences; float64 leaves about nine digits. */
const STEP = 1e-5

describe.each(['llama', 'qwen2', 'qwen3', 'biased'])('all weights: %s', (variant) => {
  const golden = readGolden<DecoderGolden>(`decoder-${variant}.json`)
  const fromTorch = readGolden<Readonly<Record<string, FullGolden>>>('full-gradients.json')[variant]!
  const { config } = golden
  const formula = formulaWeights(config)
  const weights = new Map([...formula].map(([name, { data }]) => [name, Float64Array.from(data)]))
  const rows = rowsOf(golden)
  const batch = toRowBatch(rows)
  // Weighted tokens, one of them with 0, over a denominator that is not their sum.
  const weightOf = (index: number): number => (index % 5 === 2 ? 0 : 0.5 + (index % 4))
  const denominator = 9
  const loss = (tensors: ReferenceWeights): number =>
    referenceLogp(config, tensors, rows, batch.trained).reduce(
      (sum, logp, n) => sum - (weightOf(batch.trained[n]!.index) * logp) / denominator,
      0,
    )

  test('the float64 decoder with the adapter merged has PyTorch’s log-probabilities', () => {
    const { rank, alpha } = golden.adapter
    const adapter = formulaAdapter(config, rank, alpha)
    const merged = new Map(weights)
    for (let layer = 0; layer < config.layerCount; layer++) {
      for (const projection of PROJECTIONS) {
        const path = projectionPath(layer, projection)
        const inputs = projectionShape(config, projection)[1]
        const [a, b] = [adapter.a.get(path)!, adapter.b.get(path)!]
        const change = (at: number): number => {
          const [row, column] = [Math.floor(at / inputs), at % inputs]
          return Array.from({ length: rank }, (_, r) => b[row * rank + r]! * a[r * inputs + column]!).reduce(
            (x, y) => x + y,
          )
        }
        merged.set(
          `${path}.weight`,
          weights.get(`${path}.weight`)!.map((w, at) => w + (alpha / rank) * change(at)),
        )
      }
    }
    const expected = unpack(golden.logp)
    referenceLogp(config, merged, rows, batch.trained).forEach((logp, n) => {
      expect(Math.abs(logp - expected[n]!)).toBeLessThan(2e-6)
    })
  })

  test('loss and every gradient are PyTorch’s and the differences of the loss', async () => {
    const frequencies = rotaryFrequencies(config.rotary, config.headSize)
    const options = { runtime: createOrtRuntime(), directory: await temporaryDirectory(), frequencies, threads: 1 }
    const session = await openRowSession(buildFullTrainGraph(config), options)
    const parameters = decoderParameters(config)
    const feeds = parameters.map(({ name, shape, parts }) => {
      const data = Float32Array.from(parts.flatMap((part) => [...weights.get(part.name)!]))
      return [name, float32Tensor(data, shape)] as const
    })
    const result = await session.run(batch, Object.fromEntries(feeds), {
      weight: perToken(batch, ({ index }) => weightOf(index)),
      denominator: float32Tensor(Float32Array.of(denominator), []),
    })
    await session.release()
    const expectedLoss = loss(weights)
    expect(Math.abs(fromTorch.loss / expectedLoss - 1)).toBeLessThan(1e-9)
    expect(Math.abs((result['loss']!.data as Float32Array)[0]! / expectedLoss - 1)).toBeLessThan(1e-5)

    const gradients = toHfTensors(config, fullGradients(config, batch, result))
    expect([...gradients.keys()].sort()).toEqual([...weights.keys()].sort())
    for (const [name, { shape, data }] of gradients) {
      expect(shape, name).toEqual(formula.get(name)!.shape)
      const norm = Math.hypot(...data)
      expect(norm, name).toBeGreaterThan(1e-5)
      expectTorch(data, fromTorch.gradients[name]!, name)
      const rng = createRng(`direction ${name}`)
      for (let direction = 0; direction < DIRECTIONS; direction++) {
        const signs = Float64Array.from(data, () => (rng.uniform() < 0.5 ? -1 : 1))
        const slope = data.reduce((sum, value, i) => sum + value * signs[i]!, 0)
        expect(Math.abs(slope - difference(name, signs)) / norm, name).toBeLessThan(1e-4)
      }
    }
  })

  /** d loss / d step along a direction of one tensor. */
  function difference(name: string, direction: Float64Array): number {
    const along = (step: number) =>
      loss(
        new Map(weights).set(
          name,
          weights.get(name)!.map((value, i) => value + step * direction[i]!),
        ),
      )
    return (along(STEP) - along(-STEP)) / (2 * STEP)
  }
})

/** Everything the golden has of a gradient, to 1e-4 of its norm. */
function expectTorch(gradient: Float32Array, golden: GradientGolden, name: string): void {
  const product = (index: number): number =>
    formulaTensor(`${name}/product/${index}`, gradient.length, 1).reduce((sum, u, i) => sum + u * gradient[i]!, 0)
  const places = Array.from(formulaTensor(`${name}/places`, golden.elements.length, 1), (u) =>
    Math.trunc(((u + 1) / 2) * gradient.length),
  )
  const pairs = [
    [Math.hypot(...gradient), golden.norm],
    ...golden.products.map((expected, index) => [product(index), expected]),
    ...golden.elements.map((expected, n) => [gradient[places[n]!]!, expected]),
  ] as [number, number][]
  for (const [actual, expected] of pairs) expect(Math.abs(actual - expected) / golden.norm, name).toBeLessThan(1e-4)
}
