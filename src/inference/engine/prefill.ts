/**
 * Prompts on their way into the cache: chunk by chunk, each in a cache of its own whose capacity is exactly what it holds.
 *
 * Short prompts that start together share a step. When a prompt is done its choices sample from its last row.
 */

import type { ActiveRequest } from './active-request.js'
import { KvCache, type KvShape } from './cache/kv-cache.js'
import { PREFIX_BLOCK_TOKENS, type PrefixCache, type PrefixScope } from './cache/prefix-cache.js'
import type { Choice, LogitsRow } from './sampling/choice.js'
import { logitsRow } from './sampling/logits-row.js'
import { distinctAdapters, type StepFetch, type StepModel } from './step-model.js'

/** Attention scores of one layer of one step: 32 MB. */
const MAX_SCORES = 8e6

/** One prompt. */
export class Prefill {
  readonly active: ActiveRequest
  readonly cache: KvCache
  /** Choices that wait for a row. */
  readonly pending: Choice[]
  readonly cachedTokens: number
  readonly #scope: PrefixScope
  #row: LogitsRow | null = null

  /** Starts with what the prefix cache knows of the prompt. */
  constructor(active: ActiveRequest, shape: KvShape, prefixes: PrefixCache) {
    const { promptTokenIds, adapter, cacheSalt } = active.request
    this.active = active
    this.pending = [...active.choices]
    this.cache = new KvCache(shape, 1, promptTokenIds.length)
    this.cache.addRow()
    this.#scope = { adapterDigest: adapter?.digest ?? null, cacheSalt }
    const blocks = prefixes.match(promptTokenIds, this.#scope)
    this.cachedTokens = blocks.length * PREFIX_BLOCK_TOKENS
    if (blocks.length > 0) this.cache.setCapacity(this.cachedTokens)
    for (const block of blocks) this.cache.appendBlock(0, block, PREFIX_BLOCK_TOKENS)
  }

  get position(): number {
    return this.cache.lengths[0] ?? 0
  }

  get remaining(): number {
    return this.active.request.promptTokenIds.length - this.position
  }

  /** The last position's row, once computed. */
  row(): LogitsRow {
    if (this.#row === null) throw new Error('prompt is not computed yet')
    return this.#row
  }

  /** Appends computed tokens. */
  append(newRows: Float32Array, from: { batch: number; index: number; tokens: number; count: number }): void {
    this.cache.setCapacity(this.position + from.count)
    this.cache.append(0, newRows, from)
  }

  complete(row: LogitsRow): void {
    this.#row = row
  }

  /** Offers the prompt's blocks for reuse. */
  storePrefix(prefixes: PrefixCache): void {
    const read = (start: number): Float32Array => this.cache.readBlock(0, start, PREFIX_BLOCK_TOKENS)
    prefixes.store(this.active.request.promptTokenIds, this.#scope, read)
  }
}

/**
 * Computes one chunk of the first prompt, with other short prompts beside it where they fit.
 *
 * @param queue prompts in order of arrival, at least one
 * @param budget tokens of this step
 * @returns the prompts that are complete now
 */
export async function runPrefillStep(
  model: StepModel,
  queue: readonly Prefill[],
  budget: number,
): Promise<readonly Prefill[]> {
  const group = chooseGroup(queue, budget)
  const [first] = group
  if (first === undefined) return []
  const chunk = Math.min(budget, tokensThatFit(model.config.headCount, first.position + budget))
  const counts = group.map((prefill) => Math.min(prefill.remaining, chunk))
  const tokens = Math.max(...counts)
  const batch = group.length
  const ids = new Int32Array(tokens * batch)
  group.forEach((prefill, index) => {
    const { promptTokenIds } = prefill.active.request
    for (let t = 0; t < (counts[index] ?? 0); t++) ids[t * batch + index] = promptTokenIds[prefill.position + t] ?? 0
  })
  const fetch = new Set<StepFetch>(['logprobs'])
  for (const { active } of group) for (const name of active.choices[0]?.fetch ?? []) fetch.add(name)
  const { adapters, indexOf } = distinctAdapters(group.map(({ active }) => active.layout))
  const result = await model.run(
    {
      ids,
      batch,
      tokens,
      starts: group.map(({ position }) => position),
      cache: first.position === 0 ? null : first.cache,
      logitRows: counts.map((count, index) => (count - 1) * batch + index),
      inverseTemperatures: group.map(({ active }) => active.choices[0]?.inverseTemperature ?? 1),
      adapters,
      adapterOfSequence: indexOf,
    },
    [...fetch],
  )
  const done: Prefill[] = []
  group.forEach((prefill, index) => {
    prefill.append(result.newRows, { batch, index, tokens, count: counts[index] ?? 0 })
    if (prefill.remaining > 0) return
    prefill.complete(logitsRow(result, index, model.config.vocabularySize))
    done.push(prefill)
  })
  return done
}

/** Tokens whose attention scores [H, T, C+T] stay within a fixed memory; the graph holds several such tensors at once. */
function tokensThatFit(headCount: number, columns: number): number {
  return Math.max(16, Math.floor(MAX_SCORES / (headCount * columns)))
}

/** The first prompt, and untouched ones of similar length while all fit the budget. */
function chooseGroup(queue: readonly Prefill[], budget: number): readonly Prefill[] {
  const [first, ...others] = queue
  if (first === undefined) return []
  const group = [first]
  if (first.position > 0 || first.remaining > budget) return group
  let longest = first.remaining
  let shortest = first.remaining
  for (const prefill of others) {
    if (prefill.position > 0) continue
    const nextLongest = Math.max(longest, prefill.remaining)
    const nextShortest = Math.min(shortest, prefill.remaining)
    const isPadded = nextLongest > 1.25 * nextShortest + 4
    if (isPadded || nextLongest * (group.length + 1) > budget) continue
    group.push(prefill)
    longest = nextLongest
    shortest = nextShortest
  }
  return group
}
