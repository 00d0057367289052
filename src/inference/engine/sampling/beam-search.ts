/**
 * Beam search: the most likely answers of a request, kept side by side.
 *
 * Each step ranks all continuations of all beams by the sum of their tokens' log-probabilities, after bias, penalties and forbidden
 * tokens. Those that end and are among the best n are set aside as finished; the best n others go on. Finished answers are ranked by
 * that sum / length ** lengthPenalty, the length being the generated tokens with the one that ended it. The search is over when n have
 * finished and no beam, at its present length, ranks before the last of them, or when the length limit is reached.
 * Source: `transformers` (generation with `num_beams`, `early_stopping=False`).
 */

import { type AppError, InvalidRequestError } from '#base/errors/errors.js'
import { append } from '#base/util/lists.js'
import type { GenerationRules, TokenEvent } from '../generation.js'
import { type LogitsRow, logprobsOf, type StepFetch } from '../logits-row.js'
import type { BeamRules } from './beam-rules.js'
import { Choice, nonFiniteLogits } from './choice.js'
import { createProcessors } from './logits-processors.js'
import { LOWEST_LOGPROB, type RankedToken, reportedLogprob, topTokens } from './logprobs.js'
import { checkStop, type StopResult, type StopRules } from './stop-conditions.js'

interface SearchOptions {
  readonly rules: GenerationRules
  readonly stopRules: StopRules
  readonly promptIds: readonly number[]
  readonly beam: BeamRules
}

/** Tokens of an answer, newest first. */
interface Written {
  readonly before: Written | null
  readonly tokenId: number
  /** Raw, as it is reported. */
  readonly logprob: number
  readonly top: readonly RankedToken[]
}

interface Continuation {
  readonly parent: Beam
  readonly written: Written
  readonly sum: number
}

interface Finished {
  readonly written: Written
  readonly score: number
  readonly stop: StopResult
}

/** One answer in progress. What it has written may become another's past from one step to the next. */
export class Beam extends Choice {
  readonly #search: BeamSearch
  written: Written | null = null
  sum = 0

  constructor(index: number, search: BeamSearch, options: SearchOptions) {
    super(index, { ...options, isSpeculative: false })
    this.#search = search
  }

  override get inverseTemperature(): number {
    return 1
  }

  override get fetch(): readonly StepFetch[] {
    return ['logprobs']
  }

  /** Nothing is told before the search is over. */
  override next(row: LogitsRow): AppError | null {
    return this.#search.collect(this, row)
  }
}

/** Where a beam goes on from: the tokens that `parent` had before this step, and one more. */
export interface Succession {
  readonly beam: Beam
  readonly parent: Beam
}

export class BeamSearch {
  readonly beams: readonly Beam[]
  /** Beams that go on. */
  alive: readonly Beam[]
  readonly #options: SearchOptions
  readonly #candidates = new Map<Beam, readonly Continuation[]>()
  #finished: readonly Finished[] = []

  constructor(options: SearchOptions) {
    this.#options = options
    this.beams = Array.from({ length: options.rules.n }, (_, index) => new Beam(index, this, options))
    this.alive = this.beams.slice(0, 1)
  }

  /** Whether all beams that go on have been computed. */
  get isComplete(): boolean {
    return this.alive.every((beam) => this.#candidates.has(beam))
  }

  get isOver(): boolean {
    return this.alive.length === 0
  }

  /** Takes what may come after a beam. */
  collect(parent: Beam, row: LogitsRow): AppError | null {
    const { rules, stopRules, promptIds } = this.#options
    const stopIds = [...stopRules.eosTokenIds, ...stopRules.stopTokenIds]
    const logprobs = logprobsOf(row)
    const scores = logprobs.slice()
    if (Number.isNaN(scores[0])) return nonFiniteLogits()
    // made anew, because a processor counts what one answer has written, and the past of a beam changes
    for (const processor of createProcessors(rules, promptIds, stopIds)) processor.apply(scores, parent.outputIds)
    const top = topTokens(logprobs, rules.topLogprobs)
    const best = topTokens(scores, rules.n + stopIds.length).filter(({ logprob }) => logprob > LOWEST_LOGPROB)
    const continuations = best.map(({ id, logprob }): Continuation => {
      const raw = reportedLogprob(logprobs[id] ?? Number.NEGATIVE_INFINITY)
      return { parent, sum: parent.sum + logprob, written: { before: parent.written, tokenId: id, logprob: raw, top } }
    })
    this.#candidates.set(parent, continuations)
    return null
  }

  /** One token further. @returns how the beams that go on do so; each parent's best continuation stays with it */
  advance(): readonly Succession[] {
    const { n } = this.#options.rules
    const ranked = this.alive.flatMap((beam) => this.#candidates.get(beam) ?? []).sort((a, b) => b.sum - a.sum)
    this.#candidates.clear()
    const next: Continuation[] = []
    for (const [rank, continuation] of ranked.entries()) {
      const outputIds = [...continuation.parent.outputIds, continuation.written.tokenId]
      const stop = checkStop(this.#options.stopRules, outputIds)
      if (stop === null) next.push(continuation)
      else if (rank < n || stop.finishReason === 'length') this.#finish(continuation, outputIds.length, stop)
      if (next.length === n) break
    }
    const length = (this.alive[0]?.outputIds.length ?? 0) + 1
    const successions = this.#isDecided(next, length) ? [] : this.#succeed(next)
    this.alive = successions.map(({ beam }) => beam)
    return successions
  }

  /** The best answers, best first, token by token. @returns an error if there are fewer than n */
  results(): readonly (readonly TokenEvent[])[] | AppError {
    const { n, recordsDraws } = this.#options.rules
    if (this.#finished.length < n) {
      return new InvalidRequestError(
        'invalid_value',
        `use_beam_search found ${this.#finished.length} different answers, n is ${n}.`,
        { param: 'n' },
      )
    }
    return this.#finished.map(({ written, stop }, choice) => {
      const tokens: Written[] = []
      for (let at: Written | null = written; at !== null; at = at.before) tokens.unshift(at)
      return tokens.map(({ tokenId, logprob, top }, i): TokenEvent => {
        const isLast = i === tokens.length - 1
        const end = isLast ? stop : { finishReason: null, stopReason: null }
        const drawn = { logprob, keptIds: null, unmodelled: ['use_beam_search'] }
        return { choice, tokenId, logprob, top, ...(recordsDraws === true ? { drawn } : {}), ...end }
      })
    })
  }

  #score(sum: number, length: number): number {
    return sum / length ** this.#options.beam.lengthPenalty
  }

  #finish({ written, sum }: Continuation, length: number, stop: StopResult): void {
    const finished = { written, stop, score: this.#score(sum, length) }
    const { n } = this.#options.rules
    this.#finished = [...this.#finished, finished].sort((a, b) => b.score - a.score).slice(0, n)
  }

  #isDecided(next: readonly Continuation[], length: number): boolean {
    const [best] = next
    const worst = this.#finished[this.#options.rules.n - 1]
    return best === undefined || (worst !== undefined && this.#score(best.sum, length) <= worst.score)
  }

  #succeed(next: readonly Continuation[]): readonly Succession[] {
    const taken = new Set<Beam>()
    const beamOf = new Map<Continuation, Beam>()
    for (const continuation of next) {
      if (taken.has(continuation.parent)) continue
      taken.add(continuation.parent)
      beamOf.set(continuation, continuation.parent)
    }
    const free = this.beams.filter((beam) => !taken.has(beam))
    const made = next.map((continuation) => {
      const beam = beamOf.get(continuation) ?? free.shift()
      if (beam === undefined) throw new Error('more continuations than beams')
      return { beam, continuation, outputIds: [...continuation.parent.outputIds, continuation.written.tokenId] }
    })
    for (const { beam, continuation, outputIds } of made) {
      beam.written = continuation.written
      beam.sum = continuation.sum
      beam.outputIds.length = 0
      append(beam.outputIds, outputIds)
    }
    return made.map(({ beam, continuation }) => ({ beam, parent: continuation.parent }))
  }
}
