/**
 * The head fused with its loss against float64: values, closed-form gradients, and central differences of the loss itself.
 *
 * Tolerance: 1e-5 relative, 1e-6 absolute (float32 sums of a few numbers).
 */
import { describe, expect, test } from 'vitest'
import { GraphBuilder } from '#numerics/graph/builder.js'
import { linearCrossEntropy } from '../../spark/training/linear-cross-entropy.js'
import { expectClose } from '../../support/reference/expect-close.js'
import { integers, normals, runGraph } from '../../support/reference/op-case.js'
import { type ReferenceTensor, reference } from '../../support/reference/reference-tensor.js'

const [POSITIONS, WIDTH, VOCABULARY] = [7, 5, 6]
const DIFFERENCE = 1e-5

interface Case {
  readonly hidden: ReferenceTensor
  readonly weight: ReferenceTensor
  readonly labelPositions: ReferenceTensor
  readonly labels: ReferenceTensor
  readonly coefficients: ReferenceTensor
}

/** Three chunks of two; label 4 comes three times; the last place is padding. */
function makeCase(scale: number): Case {
  return {
    hidden: normals([POSITIONS, WIDTH], { seed: 'hidden', scale }),
    weight: normals([VOCABULARY, WIDTH], { seed: 'weight', scale }),
    labelPositions: integers([3, 2], [1, 0, 6, 3, 4, 0]),
    labels: integers([3, 2], [4, 2, 4, 4, 0, 0]),
    coefficients: reference('float32', [3, 2], [0.25, 0.5, 1, 0.125, -0.375, 0]),
  }
}

function logpOf({ hidden, weight, labelPositions, labels }: Case): { logp: number; probabilities: number[] }[] {
  return Array.from(labelPositions.data, (position, n) => {
    const logits = Array.from({ length: VOCABULARY }, (_, token) =>
      Array.from(
        { length: WIDTH },
        (_, i) => hidden.data[position * WIDTH + i]! * weight.data[token * WIDTH + i]!,
      ).reduce((a, b) => a + b),
    )
    const largest = Math.max(...logits)
    const normalizer = largest + Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - largest), 0))
    const probabilities = logits.map((logit) => Math.exp(logit - normalizer))
    return { logp: logits[labels.data[n]!]! - normalizer, probabilities }
  })
}

const lossOf = (inputs: Case): number =>
  logpOf(inputs).reduce((sum, { logp }, n) => sum - inputs.coefficients.data[n]! * logp, 0)

/** d loss / d one of the inputs, element by element. */
function differences(inputs: Case, of: 'hidden' | 'weight'): Float64Array {
  const { data } = inputs[of]
  const moved = (at: number, by: number): Case => ({
    ...inputs,
    [of]: { ...inputs[of], data: data.map((value, i) => (i === at ? value + by : value)) },
  })
  return data.map((_, i) => (lossOf(moved(i, DIFFERENCE)) - lossOf(moved(i, -DIFFERENCE))) / (2 * DIFFERENCE))
}

/** Runs the graph; the weight's gradient with its rows by label added. */
async function run(inputs: Case): Promise<Record<'logp' | 'hiddenGradient' | 'weightGradient', Float32Array>> {
  const g = new GraphBuilder('linear_cross_entropy')
  const outputs = linearCrossEntropy(g, {
    hidden: g.input('hidden', 'float32', ['M', WIDTH]),
    weight: g.input('weight', 'float32', [VOCABULARY, WIDTH]),
    labelPositions: g.input('labelPositions', 'int64', ['Q', 'C']),
    labels: g.input('labels', 'int64', ['Q', 'C']),
    coefficients: g.input('coefficients', 'float32', ['Q', 'C']),
  })
  for (const [name, value] of Object.entries(outputs)) g.output(value, name)
  const results = await runGraph(g.build(), { ...inputs })
  const data = (name: string) => results[name]!.data as Float32Array
  const weightGradient = data('weightGradient').slice()
  data('labelGradient').forEach((value, at) => {
    weightGradient[inputs.labels.data[Math.floor(at / WIDTH)]! * WIDTH + (at % WIDTH)]! += value
  })
  return { logp: data('logp'), hiddenGradient: data('hiddenGradient'), weightGradient }
}

describe.each([1, 6])('hidden states and weights of size %d', (scale) => {
  const inputs = makeCase(scale)
  // Logits reach the hundreds at the larger size: probabilities are 0 and 1 there, sums lose what the largest term hides.
  const tolerance = { relative: 1e-5, absolute: scale === 1 ? 1e-6 : 1e-4 }

  test('log-probabilities', async () => {
    const expected = logpOf(inputs).map(({ logp }) => logp)
    expectClose((await run(inputs)).logp, expected, tolerance, 'logp')
  })

  test('gradients of the closed form', async () => {
    const actual = await run(inputs)
    const { hidden, weight, labelPositions, labels, coefficients } = inputs
    const byHidden = new Float64Array(labels.data.length * WIDTH)
    const byWeight = new Float64Array(VOCABULARY * WIDTH)
    logpOf(inputs).forEach(({ probabilities }, n) => {
      probabilities.forEach((probability, token) => {
        const slope = coefficients.data[n]! * (probability - (token === labels.data[n] ? 1 : 0))
        for (let i = 0; i < WIDTH; i++) {
          byHidden[n * WIDTH + i]! += slope * weight.data[token * WIDTH + i]!
          byWeight[token * WIDTH + i]! += slope * hidden.data[labelPositions.data[n]! * WIDTH + i]!
        }
      })
    })
    expectClose(actual.hiddenGradient, byHidden, tolerance, 'hidden gradient')
    expectClose(actual.weightGradient, byWeight, tolerance, 'weight gradient')
    // The label that no position has gets its share of the probabilities, padding gets nothing.
    expect(actual.weightGradient.subarray(5 * WIDTH).some((value) => value !== 0)).toBe(true)
    expect([...actual.hiddenGradient.subarray(5 * WIDTH)].map(Math.abs)).toEqual(Array(WIDTH).fill(0))
  })
})

test('gradients are the differences of the loss', async () => {
  const inputs = makeCase(1)
  const actual = await run(inputs)
  const byPosition = new Float64Array(POSITIONS * WIDTH)
  actual.hiddenGradient.forEach((value, at) => {
    byPosition[inputs.labelPositions.data[Math.floor(at / WIDTH)]! * WIDTH + (at % WIDTH)]! += value
  })
  const tolerance = { relative: 1e-5, absolute: 2e-6 }
  expectClose(byPosition, differences(inputs, 'hidden'), tolerance, 'hidden gradient')
  expectClose(actual.weightGradient, differences(inputs, 'weight'), tolerance, 'weight gradient')
})

test('the division into chunks does not matter', async () => {
  const inputs = makeCase(1)
  const whole = await run(inputs)
  for (const shape of [
    [1, 6],
    [6, 1],
  ]) {
    const { labelPositions, labels, coefficients } = inputs
    const divided = await run({
      ...inputs,
      labelPositions: { ...labelPositions, shape },
      labels: { ...labels, shape },
      coefficients: { ...coefficients, shape },
    })
    expectClose(divided.logp, whole.logp)
    expectClose(divided.hiddenGradient, whole.hiddenGradient)
    expectClose(divided.weightGradient, whole.weightGradient)
  }
})
