/**
 * Log-probabilities of an answer as they are shown to people: of the distribution that was sampled, where a record says what that was.
 *
 * Answers tell the raw ones. Those of the tokens that could be drawn follow from them: log q(b) = log q(a) + (z_b − z_a) / T. Of an answer that
 * was not drawn (temperature 0), or by rules that nobody can follow, the raw ones are shown, and which they are is said (`shownAs`).
 */
import type { ChoiceLogprobs } from './chat-completions.js'
import type { SamplingRecord } from './sampling-record.js'

type TokenLogprob = NonNullable<ChoiceLogprobs['content']>[number]

/** Whether a record's numbers can take the place of the raw ones. */
function isFollowed({ temperature, logprobs, unmodelled }: SamplingRecord): boolean {
  return temperature > 0 && logprobs !== null && unmodelled.length === 0
}

/**
 * Tokens with the log-probabilities that are shown. Alternatives that could not be drawn are left out.
 *
 * @param record of these tokens; absent: they were drawn plainly
 */
export function toSampled(
  tokens: readonly TokenLogprob[],
  record: SamplingRecord | null | undefined,
): readonly TokenLogprob[] {
  if (record === null || record === undefined || !isFollowed(record)) return tokens
  return tokens.map((token, t) => {
    const own = record.logprobs?.[t]
    if (own === undefined) return token
    const count = record.kept.counts[t] ?? 0
    const ranked = [...token.top_logprobs].sort((a, b) => b.logprob - a.logprob)
    const shown = ranked.slice(0, count === 0 ? ranked.length : count).map((other) => ({
      ...other,
      logprob: own + (other.logprob - token.logprob) / record.temperature,
    }))
    return { ...token, logprob: own, top_logprobs: shown }
  })
}

/** Which log-probabilities are shown, as a clause; null where they are simply the model's. */
export function shownAs(record: SamplingRecord | null | undefined): string | null {
  if (record === null || record === undefined) return null
  const { temperature, top_p: topP, top_k: topK, min_p: minP, logprobs, unmodelled } = record
  if (temperature === 0) return "the model's own: the most likely token was always taken"
  if (unmodelled.length > 0) return `the model's own, without what ${unmodelled.join(', ')} did`
  if (logprobs === null) return `the model's own, not those at temperature ${temperature}`
  const rules = [
    temperature === 1 ? null : `temperature ${temperature}`,
    topK === 0 ? null : `top_k ${topK}`,
    topP === 1 ? null : `top_p ${topP}`,
    minP === 0 ? null : `min_p ${minP}`,
  ].filter((rule) => rule !== null)
  return `of the distribution that was sampled${rules.length === 0 ? '' : `: ${rules.join(', ')}`}`
}
