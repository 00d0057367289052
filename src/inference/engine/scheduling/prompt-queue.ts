/**
 * Prompts that are being computed: what is computed once for several requests, which prompt is next, and the step itself.
 *
 * Equal prompts are one prompt. A prompt that starts like an earlier one waits until that part is there, and copies it. The next
 * prompt is the one that would be done first if each were computed alone a few times slower from its arrival on: a short
 * prompt passes a long one, and nothing waits for ever. Keys take turns, by the tokens that were computed for each.
 */

import { minOf } from '#base/util/lists.js'
import { copyRow, type LogitsRow, logprobsOf } from '../logits-row.js'
import type { ModelRunner, PrefillPart, StepRows } from '../model-runner.js'
import { rankOf, reportedLogprob, topTokens } from '../sampling/logprobs.js'
import { type ActiveRequest, isBefore } from './active-request.js'
import { PREFIX_BLOCK_TOKENS, type PrefixCache } from './prefix-cache.js'
import { Prompt, type PromptSource, scopeOf } from './prompt.js'
import { measuredMs } from './step-budget.js'

/** Tokens in common from which waiting for another prompt is better than computing them again. */
const WORTH_WAITING = 2 * PREFIX_BLOCK_TOKENS
/** A prompt is due after this many times its own time alone. */
const PATIENCE = 4
/** A step may be longer by this factor to complete a prompt: a few tokens left over would cost almost as much as a step of its own. */
const STRETCH = 1.25
/** How much one step says of prompts that begin, and of the next part of its own prompt. */
const FIRST_TRUST = 0.3
const NEXT_TRUST = 0.7
/** Positions of a prompt whose log-probabilities are wanted, per step: each is a row of the vocabulary. */
const REPORTED_CHUNK = 32

/** A prompt that has just been computed to its end. */
export interface DonePrompt {
  readonly prompt: Prompt
  readonly row: LogitsRow
}

/** Prompts in flight. */
export class PromptQueue {
  readonly #runner: ModelRunner
  readonly #prefixes: PrefixCache
  #prompts: Prompt[] = []
  /** Whether prompts wait whose requests are behind all others. */
  isHolding = false
  /** Tokens computed for each key that has prompts here; one that comes anew begins where the least served one is. */
  readonly #served = new Map<string, number>()
  /** Milliseconds of a token where a prompt begins to be computed, as measured lately. */
  #msPerToken = 1

  constructor(runner: ModelRunner, prefixes: PrefixCache) {
    this.#runner = runner
    this.#prefixes = prefixes
  }

  /** Those that may be computed now. */
  get length(): number {
    return this.#open().length
  }

  /** Requests of these. */
  get requests(): readonly ActiveRequest[] {
    return this.#open().flatMap(({ followers }) => followers)
  }

  /** Requests whose prompts are not computed yet. */
  get requestCount(): number {
    return this.#prompts.reduce((sum, { followers }) => sum + followers.length, 0)
  }

  get sizeBytes(): number {
    return this.#prompts.reduce((sum, { sequence }) => sum + sequence.sizeBytes, 0)
  }

  /** Tokens of the prompt that is due first that take about so long. */
  tokensIn(budgetMs: number): number {
    return Math.max(PREFIX_BLOCK_TOKENS, Math.round(budgetMs / this.#nextMsPerToken))
  }

  /** The budget of a step, or a little more where that completes the prompt that is due first. */
  wholeTokens(budget: number): number {
    const remaining = this.#due()[0]?.remaining ?? 0
    return remaining > budget && remaining <= STRETCH * budget ? remaining : budget
  }

  /** Milliseconds that so many tokens of the prompt that is due first take. */
  msOf(tokens: number): number {
    return tokens * this.#nextMsPerToken
  }

  get #nextMsPerToken(): number {
    return this.#due()[0]?.msPerToken ?? this.#msPerToken
  }

  add(active: ActiveRequest, nowMs: number): void {
    const isReported = (active.request.rules.promptLogprobs ?? null) !== null
    const same = this.#prompts.filter((prompt) => prompt.reported === null && isSameScope(prompt, active))
    const ids = active.request.promptTokenIds
    let source: PromptSource | null = null
    if (!isReported) {
      for (const prompt of same) {
        const common = commonTokens(prompt.tokenIds, ids)
        if (common === ids.length && common === prompt.tokenIds.length) {
          prompt.follow(active)
          return
        }
        // The last token is computed in any case, and a block is the unit that is shared.
        const shared = Math.min(common, ids.length - 1)
        const tokens = shared - (shared % PREFIX_BLOCK_TOKENS)
        if (tokens >= WORTH_WAITING && tokens > (source?.tokens ?? 0) && prompt.priority <= active.priority) {
          source = { prompt, tokens }
        }
      }
    }
    const least = minOf(this.#served.values())
    if (!this.#served.has(active.keyId)) this.#served.set(active.keyId, Number.isFinite(least) ? least : 0)
    this.#prompts.push(new Prompt(active, { runner: this.#runner, arrivedMs: nowMs, source }))
  }

  /** Takes a request out; a prompt nobody waits for is dropped. */
  forget(active: ActiveRequest): void {
    for (const { followers } of this.#prompts) {
      const at = followers.indexOf(active)
      if (at >= 0) followers.splice(at, 1)
    }
    this.#keep(({ followers }) => followers.length > 0)
  }

  #keep(isKept: (prompt: Prompt) => boolean): void {
    this.#prompts = this.#prompts.filter(isKept)
    const keys = new Set(this.#prompts.map(({ keyId }) => keyId))
    for (const keyId of this.#served.keys()) if (!keys.has(keyId)) this.#served.delete(keyId)
  }

  /**
   * The prompts of the next step: the one that is due first, and short ones that were not begun while all fit.
   *
   * @param budget tokens of the step
   */
  choose(budget: number): readonly Prompt[] {
    const [first, ...others] = this.#due()
    if (first === undefined) return []
    if (!first.isBegun) first.begin(this.#prefixes)
    const group = [first]
    if (first.position > 0 || first.remaining > budget || first.reported !== null) return group
    let longest = first.remaining
    let total = longest
    for (const prompt of others) {
      if (prompt.isBegun || prompt.reported !== null || prompt.remaining + total > budget) continue
      // Attention is padded to the longest.
      if (prompt.remaining > 2 * longest + PREFIX_BLOCK_TOKENS || longest > 2 * prompt.remaining + PREFIX_BLOCK_TOKENS)
        continue
      if (this.#prefixes.match(prompt.tokenIds, prompt.scope).length > 0) continue
      prompt.begin(this.#prefixes)
      if (prompt.position > 0) continue
      group.push(prompt)
      longest = Math.max(longest, prompt.remaining)
      total += prompt.remaining
    }
    return group
  }

  /**
   * Computes a chunk of the chosen prompts.
   *
   * @returns those that are complete now; they have left the queue
   */
  async step(group: readonly Prompt[], budget: number): Promise<readonly DonePrompt[]> {
    const [first] = group
    if (first === undefined) return []
    const chunk = this.#runner.prefillLimit(first.position, budget)
    const parts = group.map((prompt): PrefillPart => {
      const { sequence, adapter, position, remaining } = prompt
      const isReported = prompt.reported !== null
      const count = Math.min(remaining, isReported ? Math.min(chunk, REPORTED_CHUNK) : chunk)
      const ids = prompt.tokenIds.slice(position, position + count)
      return { sequence, adapter, ids, rows: isReported ? 'all' : count === remaining ? 'last' : 'none' }
    })
    const startedMs = performance.now()
    const rows = await this.#runner.prefill(parts)
    this.#measure(group, parts, performance.now() - startedMs)
    const done: DonePrompt[] = []
    for (const [part, prompt] of group.entries()) {
      const count = parts[part]?.ids.length ?? 0
      this.#served.set(prompt.keyId, (this.#served.get(prompt.keyId) ?? 0) + count)
      if (prompt.reported !== null) this.#report(prompt, (token) => rows.row(part, token), count)
      rows.keep(part, count)
      if (prompt.remaining === 0) done.push({ prompt, row: lastRow(rows, part, count) })
    }
    this.#keep((prompt) => prompt.remaining > 0)
    return done
  }

  #open(): readonly Prompt[] {
    return this.isHolding ? this.#prompts.filter(({ isBehind }) => !isBehind) : this.#prompts
  }

  /** Prompts that can go on, by whose turn it is. */
  #due(): Prompt[] {
    return this.#open()
      .filter((prompt) => !prompt.isWaiting)
      .sort((a, b) => this.#compare(a, b))
  }

  #compare(a: Prompt, b: Prompt): number {
    if (a.priority !== b.priority) return a.priority - b.priority
    const served = (prompt: Prompt): number => this.#served.get(prompt.keyId) ?? 0
    if (served(a) !== served(b)) return served(a) - served(b)
    const due = (prompt: Prompt): number => prompt.arrivedMs + PATIENCE * prompt.remaining * this.#msPerToken
    if (due(a) !== due(b)) return due(a) - due(b)
    const [x, y] = [a.followers[0], b.followers[0]]
    return x !== undefined && y !== undefined && isBefore(y, x) ? 1 : -1
  }

  /** A later part of a prompt takes longer, for all it looks back on: what is next is guessed from the prompt's own last part. */
  #measure(group: readonly Prompt[], parts: readonly PrefillPart[], ms: number): void {
    const tokens = parts.reduce((sum, { ids }) => sum + ids.length, 0)
    if (group.some(({ msPerToken }) => msPerToken === null)) {
      this.#msPerToken = measuredMs(this.#msPerToken, { tokens, ms, trust: FIRST_TRUST })
    }
    for (const prompt of group) {
      prompt.msPerToken = measuredMs(prompt.msPerToken ?? this.#msPerToken, { tokens, ms, trust: NEXT_TRUST })
    }
  }

  /** Tells how likely each prompt token was after those before it. */
  #report(prompt: Prompt, rowAt: (token: number) => LogitsRow, count: number): void {
    for (let i = 0; i < count; i++) {
      const position = prompt.position + i + 1
      const tokenId = prompt.tokenIds[position]
      if (tokenId === undefined) return
      const logprobs = logprobsOf(rowAt(i))
      const entry = {
        position,
        tokenId,
        rank: rankOf(logprobs, tokenId),
        logprob: reportedLogprob(logprobs[tokenId] ?? Number.NEGATIVE_INFINITY),
        top: topTokens(logprobs, prompt.reported ?? 0),
      }
      for (const { listener } of prompt.followers) listener.onPromptToken?.(entry)
    }
  }
}

/** A row that outlives the step. Its probabilities are left out: they belong to one request's temperature. */
function lastRow(rows: StepRows, part: number, count: number): LogitsRow {
  return copyRow({ ...rows.row(part, count - 1), probabilities: null })
}

function isSameScope(prompt: Prompt, active: ActiveRequest): boolean {
  const { adapterDigest, cacheSalt } = scopeOf(active)
  return prompt.scope.adapterDigest === adapterDigest && prompt.scope.cacheSalt === cacheSalt
}

function commonTokens(a: readonly number[], b: readonly number[]): number {
  const length = Math.min(a.length, b.length)
  for (let i = 0; i < length; i++) if (a[i] !== b[i]) return i
  return length
}
