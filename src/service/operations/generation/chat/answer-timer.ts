/**
 * How long an answer took, by the engine host's clock: how fast a client reads has no part in it.
 */
import type { Timings, Usage } from '#contract/wire/chat-completions.js'

export class AnswerTimer {
  #startMs: number | null = null
  #firstMs: number | null = null
  #lastMs: number | null = null

  /** The prompt's first token is being computed. */
  start(atMs: number | undefined): void {
    this.#startMs = atMs ?? null
  }

  /** A token came. */
  heard(atMs: number | undefined): void {
    this.#firstMs ??= atMs ?? null
    this.#lastMs = atMs ?? this.#lastMs
  }

  timings(usage: Usage): Timings {
    const cached = usage.prompt_tokens_details?.cached_tokens ?? 0
    const computed = usage.prompt_tokens - cached
    const promptMs = (this.#firstMs ?? 0) - (this.#startMs ?? this.#firstMs ?? 0)
    const answerMs = (this.#lastMs ?? 0) - (this.#firstMs ?? 0)
    const written = usage.completion_tokens
    return {
      cache_n: cached,
      prompt_n: computed,
      prompt_ms: promptMs,
      prompt_per_token_ms: quotient(promptMs, computed),
      prompt_per_second: quotient(computed, promptMs / 1000),
      predicted_n: written,
      predicted_ms: answerMs,
      predicted_per_token_ms: quotient(answerMs, written),
      predicted_per_second: quotient(written, answerMs / 1000),
    }
  }
}

/** 0 where nothing was measured. */
function quotient(a: number, b: number): number {
  return b > 0 ? a / b : 0
}
