/**
 * One choice of one request while it is generated: its random numbers, its output and the rules that end it.
 */
import { createRng, type Rng, randomSeed } from '#base/util/rng.js'
import type { GenerationRules, TokenEvent } from '../generation.js'
import type { StepFetch } from '../step-model.js'
import { createProcessors, type LogitsProcessor } from './logits-processors.js'
import { reportedLogprob, topTokens } from './logprobs.js'
import { argMax, drawFromProbabilities, effectiveTemperature, isGreedy, sample } from './sampler.js'
import { checkStop, type StopRules } from './stop-conditions.js'

/** One row of what a step returned; a view is valid until the next step. */
export interface LogitsRow {
  readonly logits: Float32Array | null
  readonly logprobs: Float32Array
  readonly probabilities: Float32Array | null
}

/** A choice in progress. */
export class Choice {
  readonly index: number
  readonly outputIds: number[] = []
  readonly #rules: GenerationRules
  readonly #stopRules: StopRules
  readonly #processors: readonly LogitsProcessor[]
  readonly #rng: Rng

  constructor(
    index: number,
    options: { readonly rules: GenerationRules; readonly stopRules: StopRules; readonly promptIds: readonly number[] },
  ) {
    const { rules, stopRules, promptIds } = options
    this.index = index
    this.#rules = rules
    this.#stopRules = stopRules
    const stopIds = [...stopRules.eosTokenIds, ...stopRules.stopTokenIds]
    this.#processors = createProcessors(rules, promptIds, stopIds)
    this.#rng = createRng(rules.seed === null ? randomSeed() : rules.seed + BigInt(index))
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
    return this.#drawsFromAll() ? ['logprobs', 'probabilities'] : ['logprobs']
  }

  /**
   * Samples the next token.
   *
   * @returns null if the model's numbers are not finite
   */
  next(row: LogitsRow): TokenEvent | null {
    const tokenId = this.#sample(row)
    const logprob = row.logprobs[tokenId] as number
    if (Number.isNaN(logprob)) return null
    this.outputIds.push(tokenId)
    const stop = checkStop(this.#stopRules, tokenId, this.outputIds.length)
    return {
      choice: this.index,
      tokenId,
      logprob: reportedLogprob(logprob),
      top: topTokens(row.logprobs, this.#rules.topLogprobs),
      finishReason: stop?.finishReason ?? null,
      stopReason: stop?.stopReason ?? null,
    }
  }

  #sample(row: LogitsRow): number {
    const rules = this.#rules
    if (this.#processors.length > 0) {
      const scores = Float32Array.from(row.logits ?? row.logprobs)
      for (const processor of this.#processors) processor.apply(scores, this.outputIds)
      return sample(scores, rules, this.#uniform())
    }
    if (isGreedy(rules)) return argMax(row.logprobs)
    const uniform = this.#uniform()
    if (this.#drawsFromAll() && row.probabilities !== null) return drawFromProbabilities(row.probabilities, uniform)
    return sample(row.logprobs, rules, uniform)
  }

  #drawsFromAll(): boolean {
    const rules = this.#rules
    return !isGreedy(rules) && rules.topK <= 0 && rules.topP >= 1 && rules.minP <= 0
  }

  #uniform(): number {
    return isGreedy(this.#rules) ? 0 : this.#rng.uniform()
  }
}
