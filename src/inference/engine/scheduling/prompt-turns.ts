/**
 * When prompts are computed and when the running choices get their next tokens: after one token of each choice there is a window of
 * time for prompts.
 *
 * Running choices are held up for as long as `step-budget.ts` says. Where they were admitted together with the waiting prompts, the
 * window is much longer, because they have no claim to go first: the prompts are computed almost without a break, and then all
 * answers go on in one step.
 */
import { minOf } from '#base/util/lists.js'
import { ALONE_MS, sharingMs } from './step-budget.js'

/** Tokens of prompts per step while choices run, and while none does. */
export interface FixedChunk {
  readonly sharing: number
  readonly alone: number
}

interface LetIn {
  readonly admittedMs: number
}

/** What is asked of prompts that wait. */
export interface PromptWork {
  readonly length: number
  readonly requests: Iterable<LetIn>
  tokensIn(budgetMs: number): number
  wholeTokens(budget: number): number
  msOf(tokens: number): number
}

/** What is asked of running choices. */
export interface DecodeWork {
  readonly count: number
  /** Steps that a token of each takes. */
  readonly batchCount: number
  readonly roundMs: number
  readonly running: { keys(): Iterable<LetIn> }
}

/** Let in within this time of each other, requests came together. */
const TOGETHER_MS = 1000
const MOST_TOKENS_SHARING = 256
/** Fewer leave most of a step to what every step costs, and prompts wait for ever on a busy machine. */
const LEAST_TOKENS_SHARING = 32
const LEAST_TOKENS_ALONE = 128

export class PromptTurns {
  readonly #prompts: PromptWork
  readonly #choices: DecodeWork
  readonly #mostTokens: number
  readonly #fixed: FixedChunk | null
  /** Steps of running choices before the next window. */
  #decodeTurns = 0
  #windowStartMs: number | null = null

  constructor(work: {
    readonly prompts: PromptWork
    readonly choices: DecodeWork
    /** Tokens of prompts that a step should have at most. */
    readonly mostPrefillTokens: number
    readonly fixed: FixedChunk | null
  }) {
    this.#prompts = work.prompts
    this.#choices = work.choices
    this.#mostTokens = work.mostPrefillTokens
    this.#fixed = work.fixed
  }

  /** How many tokens of prompts are computed now; 0: running choices are next, or there is nothing to do. */
  next(nowMs: number): number {
    if (this.#prompts.length === 0) return this.#close()
    if (this.#choices.count === 0) {
      this.#windowStartMs = null
      this.#decodeTurns = 0
      return this.#fixed?.alone ?? this.#prompts.wholeTokens(this.#tokensAlone())
    }
    if (this.#decodeTurns > 0) return 0
    const isFirst = this.#windowStartMs === null
    this.#windowStartMs ??= nowMs
    if (this.#fixed !== null) return isFirst ? this.#fixed.sharing : this.#close()
    const isTogether = this.#cameTogether()
    const windowMs = sharingMs({ prompts: this.#prompts.length, roundMs: this.#choices.roundMs, isTogether })
    const leftMs = windowMs - (nowMs - this.#windowStartMs)
    if (!isFirst && leftMs < this.#prompts.msOf(LEAST_TOKENS_SHARING)) return this.#close()
    // Of many that came together nobody is held up unfairly by a window that lasts a chunk longer, and what is cut off would be a
    // step of its own. A single one keeps to its window: no other waits for a place beside those that run.
    if (isTogether && this.#prompts.length > 1) {
      return this.#prompts.wholeTokens(Math.min(this.#tokensAlone(), this.#prompts.tokensIn(windowMs)))
    }
    return Math.min(MOST_TOKENS_SHARING, Math.max(LEAST_TOKENS_SHARING, this.#prompts.tokensIn(leftMs)))
  }

  /** Running choices have made a step. */
  decoded(): void {
    this.#decodeTurns--
  }

  #close(): 0 {
    if (this.#windowStartMs !== null) this.#decodeTurns = this.#choices.batchCount
    this.#windowStartMs = null
    return 0
  }

  #tokensAlone(): number {
    return Math.min(this.#mostTokens, Math.max(LEAST_TOKENS_ALONE, this.#prompts.tokensIn(ALONE_MS)))
  }

  #cameTogether(): boolean {
    const first = (requests: Iterable<LetIn>): number => minOf(Array.from(requests, ({ admittedMs }) => admittedMs))
    return first(this.#choices.running.keys()) >= first(this.#prompts.requests) - TOGETHER_MS
  }
}
