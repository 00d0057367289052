/**
 * Sampling against exact probabilities: what is kept, and how often it is drawn.
 */
import { describe, expect, it } from 'vitest'
import { createRng } from '#base/util/rng.js'
import {
  argMax,
  draw,
  drawFromProbabilities,
  drawsWithoutTop,
  kthLargest,
  type SamplingRules,
} from '#inference/engine/sampling/sampler.js'

const sample = (...given: Parameters<typeof draw>): number => draw(...given).tokenId

const PLAIN: SamplingRules = { temperature: 1, topP: 1, topK: 0, minP: 0 }

function scoresOf(probabilities: readonly number[], temperature = 1, offset = 3): Float32Array {
  return Float32Array.from(probabilities, (p) => Math.log(p) * temperature + offset)
}

/** Probabilities of each token when uniform numbers sweep [0, 1) evenly. */
function swept(scores: Float32Array, rules: SamplingRules, points = 20_000): number[] {
  const counts = new Array<number>(scores.length).fill(0)
  for (let i = 0; i < points; i++) {
    const id = sample(scores, rules, (i + 0.5) / points)
    counts[id] = (counts[id] ?? 0) + 1
  }
  return counts.map((count) => count / points)
}

function expectClose(actual: readonly number[], expected: readonly number[], tolerance = 2e-4): void {
  expect(actual.length).toBe(expected.length)
  actual.forEach((value, i) => {
    expect(Math.abs(value - (expected[i] ?? 0)), `token ${i}: ${value} against ${expected[i]}`).toBeLessThan(tolerance)
  })
}

const P = [0.05, 0.4, 0.1, 0.25, 0.2]

describe('sampler', () => {
  it('XTC leaves out what passes the threshold but for the least likely of it', () => {
    const rules = { ...PLAIN, xtc: { probability: 1, threshold: 0.19 } }
    const drawn = new Set(Array.from({ length: 500 }, (_, i) => sample(scoresOf(P), rules, (i + 0.5) / 500, true)))
    // of 0.4, 0.25 and 0.2 the last one stays, and so do 0.05 and 0.1
    expect([...drawn].sort()).toEqual([0, 2, 4])
    const one = { ...rules, xtc: { probability: 1, threshold: 0.3 } }
    expect(swept(scoresOf(P), one, 1000)).toEqual(swept(scoresOf(P), PLAIN, 1000))
  })

  it('XTC acts as often as it is told to', () => {
    const rules = { ...PLAIN, xtc: { probability: 0.25, threshold: 0.1 } }
    expect([0, 0.2, 0.25, 0.9].map((uniform) => drawsWithoutTop(rules, uniform))).toEqual([true, true, false, false])
    expect(drawsWithoutTop(PLAIN, 0)).toBe(false)
  })

  it('draws with exactly the softmax probabilities', () => {
    expectClose(swept(scoresOf(P), PLAIN), P)
  })

  it('divides scores by the temperature', () => {
    expectClose(swept(scoresOf(P, 0.5), { ...PLAIN, temperature: 0.5 }), P)
    expectClose(swept(scoresOf(P, 2), { ...PLAIN, temperature: 2 }), P)
  })

  it('is greedy below 1e-5, whatever the other rules say, and takes the first of equals', () => {
    const rules = { temperature: 0, topP: 0.1, topK: 2, minP: 0.9 }
    expect(sample(scoresOf(P), rules, 0.99)).toBe(1)
    expect(argMax(Float32Array.of(1, 5, 5, 2))).toBe(1)
  })

  it('gives a token under every rule where all are forbidden, which its score says', () => {
    const forbidden = new Float32Array(5).fill(Number.NEGATIVE_INFINITY)
    for (const rules of [{}, { topP: 0.9 }, { topK: 2 }, { minP: 0.1 }, { topP: 0.9, topK: 2, minP: 0.1 }]) {
      const given = [false, true].map((excludesTop) => sample(forbidden, { ...PLAIN, ...rules }, 0.5, excludesTop))
      expect(given, JSON.stringify(rules)).toEqual([0, 0])
    }
  })

  it('raises tiny temperatures instead of overflowing', () => {
    expect(sample(Float32Array.of(1e4, 1e4 - 1, -1e4), { ...PLAIN, temperature: 1e-4 }, 0.5)).toBe(0)
  })

  it('top_k keeps the k most likely tokens and renormalises', () => {
    expectClose(swept(scoresOf(P), { ...PLAIN, topK: 2 }), [0, 0.4 / 0.65, 0, 0.25 / 0.65, 0])
  })

  it('top_k keeps ties at the border', () => {
    expectClose(swept(scoresOf([0.4, 0.2, 0.2, 0.1, 0.1]), { ...PLAIN, topK: 2 }), [0.5, 0.25, 0.25, 0, 0])
  })

  it('top_k beyond the vocabulary keeps all', () => {
    expectClose(swept(scoresOf(P), { ...PLAIN, topK: 99 }), P)
  })

  it('top_p keeps a token while the tokens above it hold less than top_p', () => {
    expectClose(swept(scoresOf(P), { ...PLAIN, topP: 0.66 }), [0, 0.4 / 0.85, 0, 0.25 / 0.85, 0.2 / 0.85])
    expectClose(swept(scoresOf(P), { ...PLAIN, topP: 0.6 }), [0, 0.4 / 0.65, 0, 0.25 / 0.65, 0])
  })

  it('top_p always keeps the most likely token', () => {
    expectClose(swept(scoresOf(P), { ...PLAIN, topP: 1e-6 }), [0, 1, 0, 0, 0])
  })

  it('top_p on a wide flat vocabulary keeps the exact nucleus', () => {
    const probabilities = Array.from({ length: 5000 }, (_, i) => 1 / (i + 10))
    const total = probabilities.reduce((a, b) => a + b, 0)
    const scores = Float32Array.from(probabilities, (p) => Math.log(p))
    let above = 0
    let size = 0
    while (above < 0.8 * total) above += probabilities[size++] ?? 0
    const last = sample(scores, { ...PLAIN, topP: 0.8 }, 1 - 1e-12)
    expect(Math.abs(last - (size - 1))).toBeLessThanOrEqual(1)
  })

  it('min_p drops tokens below its share of the most likely one', () => {
    expectClose(swept(scoresOf(P), { ...PLAIN, minP: 0.55 }), [0, 0.4 / 0.65, 0, 0.25 / 0.65, 0])
  })

  it('applies min_p, then top_k, then top_p on what is left', () => {
    // min_p 0.3 keeps .4 .25 .2; top_k 2 keeps .4 .25; the first of them holds .615 of that, so top_p 0.6 keeps it alone.
    expectClose(swept(scoresOf(P), { temperature: 1, minP: 0.3, topK: 2, topP: 0.6 }), [0, 1, 0, 0, 0])
    expectClose(swept(scoresOf(P), { temperature: 1, minP: 0.3, topK: 2, topP: 0.62 }), [
      0,
      0.4 / 0.65,
      0,
      0.25 / 0.65,
      0,
    ])
  })

  it('never draws a forbidden token', () => {
    const scores = scoresOf(P)
    scores[1] = Number.NEGATIVE_INFINITY
    for (const rules of [PLAIN, { ...PLAIN, topP: 0.9 }, { ...PLAIN, topK: 4 }, { ...PLAIN, minP: 0.01 }]) {
      expect(swept(scores, rules, 500)[1]).toBe(0)
    }
    const only = new Float32Array(50).fill(Number.NEGATIVE_INFINITY)
    only[17] = -3
    for (const rules of [PLAIN, { ...PLAIN, topP: 0.5 }, { ...PLAIN, topK: 3 }])
      expect(sample(only, rules, 0.7)).toBe(17)
  })

  it('inverts given probabilities, ignoring rounding above their sum', () => {
    const probabilities = Float32Array.of(0, 0.25, 0, 0.75, 0)
    expect(drawFromProbabilities(probabilities, 0)).toBe(1)
    expect(drawFromProbabilities(probabilities, 0.2499)).toBe(1)
    expect(drawFromProbabilities(probabilities, 0.25)).toBe(3)
    expect(drawFromProbabilities(Float32Array.of(0.5, 0.4999, 0), 0.99999)).toBe(1)
  })

  it('finds every token of a long row in the middle of its share', () => {
    const weights = Array.from({ length: 1003 }, (_, i) => (i % 7 === 3 ? 0 : 1 + ((i * 37) % 101)))
    const total = weights.reduce((a, b) => a + b, 0)
    const probabilities = Float32Array.from(weights, (weight) => weight / total)
    let below = 0
    for (const [i, weight] of weights.entries()) {
      if (weight > 0) expect(drawFromProbabilities(probabilities, (below + weight / 2) / total)).toBe(i)
      below += weight
    }
  })

  it('gives the last possible token what rounding leaves, also behind whole blocks', () => {
    const probabilities = new Float32Array(32).fill(1 / 64)
    probabilities[31] = 0
    expect(drawFromProbabilities(probabilities, 0.99999)).toBe(30)
  })

  it('finds the first of the largest scores in rows of any length', () => {
    const rng = createRng('argmax')
    for (let turn = 0; turn < 200; turn++) {
      const row = Float32Array.from({ length: 1 + rng.integer(40) }, () => rng.integer(9) - 12)
      expect(argMax(row)).toBe(row.indexOf(Math.max(...row)))
    }
  })

  it('finds the k-th largest of any row', () => {
    const rng = createRng('kth')
    for (let turn = 0; turn < 50; turn++) {
      const row = Float32Array.from({ length: 200 }, () => Math.round(rng.normal() * 10))
      const k = 1 + rng.integer(200)
      expect(kthLargest(row, k)).toBe([...row].sort((a, b) => b - a)[k - 1])
    }
  })
})
