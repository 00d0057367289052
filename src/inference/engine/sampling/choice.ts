/**
 * One choice of one request while it is generated: its random numbers, its output and the rules that end it.
 */
import { AppError, InvalidRequestError, RuntimeError } from '#base/errors/errors.js'
import { createRng, type Rng, randomSeed } from '#base/util/rng.js'
import type { GenerationRules, TokenEvent } from '../generation.js'
import { copyRow, type LogitsRow, logprobsOf, type StepFetch } from '../logits-row.js'
import { type DrawContext, recordDraw } from './draw-record.js'
import type { LogitsProcessor } from './logits-processor.js'
import { createProcessors } from './logits-processors.js'
import { reportedLogprob, reportedTokens } from './logprobs.js'
import { PromptLookup } from './prompt-lookup.js'
import {
  argMax,
  certain,
  type Draw,
  draw,
  drawFromProbabilities,
  drawsWithoutTop,
  effectiveTemperature,
  isGreedy,
} from './sampler.js'
import { checkStop, type StopRules } from './stop-conditions.js'
import {
  type AllowedTokens,
  allowedTokens,
  argMaxAllowed,
  drawAllowed,
  logMass,
  maskLogprobs,
  maskScores,
  type TokenMask,
} from './token-mask.js'

/** A choice in progress. */
export class Choice {
  readonly index: number
  readonly outputIds: number[] = []
  readonly #rules: GenerationRules
  readonly #stopRules: StopRules
  readonly #processors: readonly LogitsProcessor[]
  readonly #rng: Rng
  readonly #mask: TokenMask | null
  /** What the next token is sampled from once its mask is there. */
  #held: { readonly wait: Promise<void>; readonly row: LogitsRow } | null = null
  readonly #lookup: PromptLookup | null

  constructor(
    index: number,
    options: {
      readonly rules: GenerationRules
      readonly stopRules: StopRules
      readonly promptIds: readonly number[]
      /** Whether to guess tokens (`guess`). */
      readonly isSpeculative: boolean
    },
  ) {
    const { rules, stopRules, promptIds, isSpeculative } = options
    this.index = index
    this.#rules = rules
    this.#stopRules = stopRules
    const stopIds = [...stopRules.eosTokenIds, ...stopRules.stopTokenIds]
    this.#processors = createProcessors(rules, promptIds, stopIds)
    this.#rng = createRng(rules.seed === null ? randomSeed() : rules.seed + BigInt(index))
    this.#mask = rules.tokenMask?.(index) ?? null
    this.#lookup = isSpeculative ? new PromptLookup(promptIds) : null
  }

  /** Tokens that may come next, at most `limit`: a step that includes them may give several tokens at once. */
  guess(limit: number): readonly number[] {
    const left = this.#stopRules.maxTokens - this.outputIds.length - 1
    return this.#lookup?.propose(this.outputIds, Math.min(limit, left)) ?? []
  }

  /** 1 / temperature for the graph's probabilities. */
  get inverseTemperature(): number {
    return isGreedy(this.#rules) ? 1 : 1 / effectiveTemperature(this.#rules)
  }

  /** What this choice needs of a step. */
  get fetch(): readonly StepFetch[] {
    if (this.#processors.length > 0) {
      // The repetition penalty is the one rule that sees a constant added to the row.
      return this.#rules.repetitionPenalty === 1 ? ['logprobs'] : ['logprobs', 'logits']
    }
    if (this.#readsOneProbability()) return ['probabilities']
    return this.#drawsFromAll() ? ['logprobs', 'probabilities'] : ['logprobs']
  }

  /**
   * Samples the next tokens: one, and one more for each guess that turns out to be the token sampled there.
   *
   * Every token is drawn as it would be alone, so guesses change neither the distribution nor what a seed gives.
   *
   * @param guess what the step computed after this choice's last token
   * @param rowAt the row after the last token (0), after the first guess (1) and so on
   * @returns the tokens in order; an error comes last
   */
  nextAfter(guess: readonly number[], rowAt: (index: number) => LogitsRow): readonly (TokenEvent | AppError)[] {
    const events: (TokenEvent | AppError)[] = []
    const readsOne = this.#readsOneProbability()
    for (let i = 0; ; i++) {
      const event = this.next(rowAt(i))
      if (event === null) return events
      events.push(event)
      const isRight = !(event instanceof AppError) && event.tokenId === guess[i]
      if (!isRight && guess.length > 0) this.#lookup?.record(guess.length, i)
      if (!isRight || event.finishReason !== null) return events
      // from here on a mask counts, and the rows of this step do not hold what is then read
      if (readsOne && !this.#readsOneProbability()) return events
    }
  }

  /**
   * Samples the next token; null where nothing is told yet (beams) or its mask is not made yet (`maskWait`).
   *
   * @returns an error, which concerns this request only, if the model's numbers are not finite (`non_finite_logits`), the mask
   * allows no token (`empty_token_mask`), the rules leave none (`no_token_left`) or the mask's maker failed (`token_mask_failed`)
   */
  next(row: LogitsRow): TokenEvent | AppError | null {
    try {
      return this.#next(row)
    } catch (cause) {
      if (cause instanceof AppError) return cause
      return new RuntimeError('token_mask_failed', 'token mask of a request failed', { cause })
    }
  }

  /** Settles when the mask of the next token is there; null if nothing waits for it. */
  get maskWait(): Promise<void> | null {
    return this.#held?.wait ?? null
  }

  /** Samples the token whose mask was not made in time, from the row it had. */
  resume(): TokenEvent | AppError | null {
    const held = this.#held
    if (held === null) throw new Error('choice waits for no mask')
    this.#held = null
    return this.next(held.row)
  }

  #next(row: LogitsRow): TokenEvent | null {
    const wait = this.#mask?.ready?.() ?? null
    if (wait !== null) {
      this.#held = { wait, row: copyRow(row) }
      return null
    }
    const mask = this.#mask?.next() ?? null
    const allowed = mask === null ? null : allowedTokens(mask, logprobsOf(row).length)
    const mass = allowed === null ? 0 : logMass(logprobsOf(row), allowed)
    if (mass === Number.NEGATIVE_INFINITY) {
      // what the request is held to has no way out of what was written
      throw new InvalidRequestError(
        'empty_token_mask',
        'the grammar of the request allows nothing after what was written',
      )
    }
    let masked: Float32Array | null = null
    const logprobs = (): Float32Array => {
      masked ??= allowed === null ? logprobsOf(row) : maskLogprobs(logprobsOf(row), allowed, mass)
      return masked
    }
    const excludesTop = this.#excludesTop()
    const processed = this.#process(row, logprobs, allowed)
    const drawn = this.#draw(row, { logprobs, allowed, processed, excludesTop })
    const { tokenId } = drawn
    const raw = this.#rawLogprob(row, tokenId)
    // rounding can leave a little more for one token than all allowed ones have
    const logprob = allowed === null ? raw : Math.min(0, raw - mass)
    if (Number.isNaN(logprob)) {
      throw nonFiniteLogits()
    }
    const { recordsDraws } = this.#rules
    const record =
      recordsDraws === true ? recordDraw(drawn, { rules: this.#rules, row, allowed, processed, excludesTop }) : null
    this.outputIds.push(tokenId)
    this.#mask?.accept(tokenId)
    const stop = checkStop(this.#stopRules, this.outputIds)
    return {
      choice: this.index,
      tokenId,
      logprob: reportedLogprob(logprob),
      top: this.#reportsOthers() ? reportedTokens(logprobs(), this.#rules) : [],
      ...(record === null ? {} : { drawn: { ...record, logprob: reportedLogprob(record.logprob) } }),
      finishReason: stop?.finishReason ?? null,
      stopReason: stop?.stopReason ?? null,
    }
  }

  /** By this choice's rules, not by what else the step holds: the two ways differ in their last bits. */
  #rawLogprob(row: LogitsRow, tokenId: number): number {
    if (this.#readsOneProbability() && row.probabilities !== null) return Math.log(row.probabilities[tokenId] as number)
    return logprobsOf(row)[tokenId] as number
  }

  /**
   * Whether the probability of the token drawn says all there is to tell: at temperature 1 its logarithm is the log-probability.
   * A step of such choices computes no log-softmax over the vocabulary.
   */
  #readsOneProbability(): boolean {
    const isFree = this.#mask === null || this.#mask.isFree === true
    const isPlain = this.#processors.length === 0 && isFree && !this.#reportsOthers()
    return isPlain && this.#drawsFromAll() && this.inverseTemperature === 1
  }

  #reportsOthers(): boolean {
    return this.#rules.topLogprobs > 0 || (this.#rules.logprobTokenIds ?? []).length > 0
  }

  /** Scores of a request that has processors, as they were and as they are after them; null: it has none. */
  #process(row: LogitsRow, logprobs: () => Float32Array, allowed: AllowedTokens | null): DrawContext['processed'] {
    if (this.#processors.length === 0) return null
    const before = this.#rules.repetitionPenalty === 1 ? logprobs() : this.#logits(row, allowed)
    const after = before.slice()
    const acting = this.#processors.filter((processor) => processor.apply(after, this.outputIds))
    return { before, after, acting }
  }

  /**
   * What is read depends on this choice's rules only: a step may hold more because another row needs it.
   *
   * @param given.logprobs makes the row among allowed tokens, which most requests do without: it is as long as the vocabulary
   */
  #draw(
    row: LogitsRow,
    {
      logprobs,
      allowed,
      processed,
      excludesTop,
    }: Omit<DrawContext, 'rules' | 'row'> & { readonly logprobs: () => Float32Array },
  ): Draw {
    const rules = this.#rules
    if (processed !== null) {
      const { after } = processed
      const drawn = draw(after, rules, this.#uniform(), excludesTop)
      if (after[drawn.tokenId] !== Number.NEGATIVE_INFINITY) return drawn
      throw new InvalidRequestError('no_token_left', 'the rules of the request together forbid every next token', {
        hint: 'min_tokens, bad_words, allowed_token_ids, logit_bias and a grammar may contradict each other',
      })
    }
    if (isGreedy(rules)) {
      return certain(allowed === null ? argMax(logprobsOf(row)) : argMaxAllowed(logprobsOf(row), allowed))
    }
    const uniform = this.#uniform()
    if (this.#drawsFromAll() && row.probabilities !== null) {
      const { probabilities } = row
      if (allowed !== null) {
        const drawn = drawAllowed(probabilities, allowed, uniform)
        if (drawn !== null) return drawn
      } else {
        const tokenId = drawFromProbabilities(probabilities, uniform)
        return { tokenId, logprob: Math.min(0, Math.log(probabilities[tokenId] as number)), keptIds: null }
      }
    }
    return draw(logprobs(), rules, uniform, excludesTop)
  }

  /** A request without XTC draws one number per token, whatever others ask for. */
  #excludesTop(): boolean {
    return (
      (this.#rules.xtc ?? null) !== null && !isGreedy(this.#rules) && drawsWithoutTop(this.#rules, this.#rng.uniform())
    )
  }

  /** The logits, masked. */
  #logits(row: LogitsRow, allowed: AllowedTokens | null): Float32Array {
    if (row.logits === null) throw new Error('step did not fetch logits')
    return allowed === null ? row.logits : maskScores(row.logits, allowed)
  }

  #drawsFromAll(): boolean {
    const rules = this.#rules
    const isPlain = rules.topK <= 0 && rules.topP >= 1 && rules.minP <= 0 && (rules.xtc ?? null) === null
    return !isGreedy(rules) && isPlain
  }

  #uniform(): number {
    return isGreedy(this.#rules) ? 0 : this.#rng.uniform()
  }
}

/** A model, or an adapter, whose numbers overflow: no request's fault, and none will be answered. */
export function nonFiniteLogits(): RuntimeError {
  return new RuntimeError('non_finite_logits', 'the model produced numbers that are not finite', {
    hint: 'ask for an earlier step of the model, or for its base model',
    details: { reason: 'non_finite_logits' },
  })
}
