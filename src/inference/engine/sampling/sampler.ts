/**
 * Draws one token from a row of scores: greedy, or temperature, min_p, top_k, top_p, XTC in that order.
 *
 * Scores are logits or log-probabilities: every rule here is blind to a constant added to the row. The draw inverts the
 * cumulative distribution with one uniform number, so one token costs one number of the request's generator.
 * Order and borders are vLLM's, v0.17 (ties at the top_k border stay; a token stays in top_p while
 * the tokens ranked above it hold less than top_p).
 */
import { appliedTemperature } from '#base/sampling-record.js'

/** The rules of one request. */
export interface SamplingRules {
  /** As `appliedTemperature` has it; greedy: the other rules are off. */
  readonly temperature: number
  readonly topP: number
  /** 0: off. */
  readonly topK: number
  readonly minP: number
  /** Absent or null: off. */
  readonly xtc?: XtcRules | null
}

/**
 * "Exclude top choices": sometimes all tokens above a probability are left out, except the least likely of them.
 *
 * Source: the sampler of text-generation-webui and llama.cpp (`xtc_*` parameters), applied last, as the former does.
 */
export interface XtcRules {
  /** How often it acts. */
  readonly probability: number
  /** Above 0.5 two tokens cannot pass it: it never acts. */
  readonly threshold: number
}

export function isGreedy(rules: SamplingRules): boolean {
  return effectiveTemperature(rules) === 0
}

/** The temperature that is really applied; 0: none, the answer is the most likely token. */
export function effectiveTemperature(rules: SamplingRules): number {
  return appliedTemperature(rules.temperature)
}

/** Index of the largest score; the first of equals. */
export function argMax(scores: Float32Array): number {
  const blocks = scores.length - (scores.length % BLOCK)
  let best = 0
  let bestScore = Number.NEGATIVE_INFINITY
  const scan = (start: number, end: number): void => {
    for (let i = start; i < end; i++) {
      const score = scores[i] as number
      if (score > bestScore) {
        bestScore = score
        best = i
      }
    }
  }
  for (let i = 0; i < blocks; i += BLOCK) if (hasLarger(scores, i, bestScore)) scan(i, i + BLOCK)
  scan(blocks, scores.length)
  return best
}

/** Scores compared in one go; almost every block of a long row holds nothing new, and this halves the time. */
const BLOCK = 8

function hasLarger(scores: Float32Array, i: number, bound: number): boolean {
  return (
    (scores[i] as number) > bound ||
    (scores[i + 1] as number) > bound ||
    (scores[i + 2] as number) > bound ||
    (scores[i + 3] as number) > bound ||
    (scores[i + 4] as number) > bound ||
    (scores[i + 5] as number) > bound ||
    (scores[i + 6] as number) > bound ||
    (scores[i + 7] as number) > bound
  )
}

/**
 * Draws a token.
 *
 * @param scores [V], any constant offset; -inf forbids a token
 * @param uniform in [0, 1)
 * @param excludesTop XTC acts on this token
 * @returns the greedy token when nothing else is possible
 */
export function draw(scores: Float32Array, rules: SamplingRules, uniform: number, excludesTop = false): Draw {
  const best = argMax(scores)
  const top = scores[best] as number
  if (isGreedy(rules) || top === Number.NEGATIVE_INFINITY) return certain(best)
  const inverse = 1 / effectiveTemperature(rules)
  const isTruncating = rules.minP > 0 || rules.topK > 0 || rules.topP < 1
  if (!isTruncating && !excludesTop) return drawFromAll(scores, top, inverse, uniform, best)
  const kept = truncate(scores, top, inverse, rules)
  return drawFromKept(excludesTop ? withoutTop(kept, rules.xtc?.threshold ?? 1) : kept, uniform)
}

/** A token, and the distribution it was drawn from. */
export interface Draw {
  readonly tokenId: number
  /** Its natural log-probability among the tokens that could be drawn, at the temperature. */
  readonly logprob: number
  /** What truncation left, the token among it; null: nothing was truncated. */
  readonly keptIds: readonly number[] | null
}

/** The one token that could come. */
export function certain(tokenId: number): Draw {
  return { tokenId, logprob: 0, keptIds: [tokenId] }
}

/** Whether XTC acts on the next token. */
export function drawsWithoutTop({ xtc }: SamplingRules, uniform: number): boolean {
  return (xtc ?? null) !== null && uniform < (xtc?.probability ?? 0)
}

/** Leaves out what is at least as likely as the threshold, but for the least likely of it. */
function withoutTop(kept: Kept, threshold: number): Kept {
  const total = kept.weights.reduce((sum, weight) => sum + weight, 0)
  const isTop = kept.weights.map((weight) => weight >= threshold * total)
  let least = -1
  for (const [i, weight] of kept.weights.entries()) {
    if (isTop[i] === true && (least < 0 || weight < (kept.weights[least] as number))) least = i
  }
  const isLeft = (i: number): boolean => isTop[i] !== true || i === least
  return { ids: kept.ids.filter((_, i) => isLeft(i)), weights: kept.weights.filter((_, i) => isLeft(i)) }
}

/** Tokens that survived truncation and their unnormalised probabilities. */
interface Kept {
  readonly ids: number[]
  readonly weights: number[]
}

/**
 * Inverts the cumulative sum of given probabilities.
 *
 * Whole blocks are passed over by their sum: token by token, each subtraction waiting for the one before it, takes six times as long.
 *
 * @param probabilities [V], summing to about 1
 */
export function drawFromProbabilities(probabilities: Float32Array, uniform: number): number {
  const blocks = probabilities.length - (probabilities.length % DRAWN_BLOCK)
  let left = uniform
  let start = 0
  for (; start < blocks; start += DRAWN_BLOCK) {
    const mass = eightFrom(probabilities, start) + eightFrom(probabilities, start + 8)
    // not `left < mass`: what is not finite is looked at token by token
    if (!(left >= mass)) break
    left -= mass
  }
  for (let i = start; i < probabilities.length; i++) {
    const p = probabilities[i] as number
    if (p <= 0) continue
    if (left < p) return i
    left -= p
  }
  // Rounding can leave a sliver above the sum; it belongs to the last possible token.
  return Math.max(
    0,
    probabilities.findLastIndex((p) => p !== 0),
  )
}

const DRAWN_BLOCK = 16

/** In pairs, which the processor adds side by side. */
function eightFrom(values: Float32Array, i: number): number {
  const first =
    (values[i] as number) + (values[i + 1] as number) + ((values[i + 2] as number) + (values[i + 3] as number))
  const second =
    (values[i + 4] as number) + (values[i + 5] as number) + ((values[i + 6] as number) + (values[i + 7] as number))
  return first + second
}

function drawFromAll(scores: Float32Array, top: number, inverse: number, uniform: number, best: number): Draw {
  const weights = new Float32Array(scores.length)
  let total = 0
  let exactTotal = 0
  for (let i = 0; i < scores.length; i++) {
    const weight = Math.exp(((scores[i] as number) - top) * inverse)
    weights[i] = weight
    total += weights[i] as number
    exactTotal += weight
  }
  let left = uniform * total
  let last = best
  for (let i = 0; i < weights.length; i++) {
    const weight = weights[i] as number
    if (weight <= 0) continue
    last = i
    if (left < weight) break
    left -= weight
  }
  const logprob = ((scores[last] as number) - top) * inverse - Math.log(exactTotal)
  return { tokenId: last, logprob: Math.min(0, logprob), keptIds: null }
}

function drawFromKept({ ids, weights }: Kept, uniform: number): Draw {
  let total = 0
  for (const weight of weights) total += weight
  let left = uniform * total
  let at = 0
  for (; at < ids.length - 1; at++) {
    const weight = weights[at] as number
    if (left < weight) break
    left -= weight
  }
  return { tokenId: ids[at] as number, logprob: Math.log((weights[at] as number) / total), keptIds: ids }
}

/** Applies min_p, then top_k, then top_p; the most likely token always survives. */
function truncate(scores: Float32Array, top: number, inverse: number, rules: SamplingRules): Kept {
  let floor = rules.minP > 0 ? top + Math.log(rules.minP) / inverse : Number.NEGATIVE_INFINITY
  if (rules.topK > 0 && rules.topK < scores.length) floor = Math.max(floor, kthLargest(scores, rules.topK))
  const isNucleus = rules.topP < 1
  if (!isNucleus) return collect(scores, top, inverse, floor)
  if (floor === Number.NEGATIVE_INFINITY) return nucleusOfAll(scores, top, inverse, rules.topP)
  return cutNucleus(collect(scores, top, inverse, floor), rules.topP, null)
}

function collect(scores: Float32Array, top: number, inverse: number, floor: number): Kept {
  const kept: Kept = { ids: [], weights: [] }
  for (let i = 0; i < scores.length; i++) {
    const score = scores[i] as number
    if (score < floor || score === Number.NEGATIVE_INFINITY) continue
    kept.ids.push(i)
    kept.weights.push(Math.exp((score - top) * inverse))
  }
  return kept
}

/** The nucleus of the whole vocabulary: only tokens above a falling threshold are sorted. */
function nucleusOfAll(scores: Float32Array, top: number, inverse: number, topP: number): Kept {
  let total = 0
  for (let i = 0; i < scores.length; i++) total += Math.exp(((scores[i] as number) - top) * inverse)
  for (let depth = 4; ; depth *= 2) {
    const floor = top - depth / inverse
    const kept = collect(scores, top, inverse, floor)
    const mass = kept.weights.reduce((sum, weight) => sum + weight, 0)
    // Every token outside is less likely than every token inside, so once the mass suffices the nucleus is inside.
    if (mass >= topP * total || depth > 1e4) return cutNucleus(kept, topP, total)
  }
}

function cutNucleus(kept: Kept, topP: number, knownTotal: number | null): Kept {
  const total = knownTotal ?? kept.weights.reduce((sum, weight) => sum + weight, 0)
  const order = kept.ids.map((_, i) => i).sort((a, b) => (kept.weights[b] as number) - (kept.weights[a] as number))
  const nucleus: Kept = { ids: [], weights: [] }
  let above = 0
  for (const i of order) {
    if (nucleus.ids.length > 0 && above >= topP * total) break
    const weight = kept.weights[i] as number
    nucleus.ids.push(kept.ids[i] as number)
    nucleus.weights.push(weight)
    above += weight
  }
  return nucleus
}

/**
 * The k-th largest score, equals counted separately.
 *
 * A min-heap of the k best seen so far: almost every score fails the first comparison.
 */
export function kthLargest(scores: Float32Array, k: number): number {
  const heap = new Float32Array(k).fill(Number.NEGATIVE_INFINITY)
  for (let i = 0; i < scores.length; i++) {
    const score = scores[i] as number
    if (score > (heap[0] as number)) siftDown(heap, score)
  }
  return heap[0] as number
}

function siftDown(heap: Float32Array, value: number): void {
  let parent = 0
  for (;;) {
    let child = 2 * parent + 1
    if (child >= heap.length) break
    if (child + 1 < heap.length && (heap[child + 1] as number) < (heap[child] as number)) child++
    if ((heap[child] as number) >= value) break
    heap[parent] = heap[child] as number
    parent = child
  }
  heap[parent] = value
}
