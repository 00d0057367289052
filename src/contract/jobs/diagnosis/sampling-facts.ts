/**
 * What answers say about how they were sampled, as figures of a job's report: which of their tokens train by temperature and kept set, and
 * which not. Plan, job and library count with it, and `findings.ts` says the sentences.
 *
 * Knows no wire form and no row: whoever has answers hands over what their records say.
 */
import { isModelledToken } from '#base/sampling-record.js'
import type { Facts } from './answers.js'

/** Rules that are told by name. */
const MOST_NAMES = 32

/** A sampled answer. */
export interface DrawnAnswer {
  /** Sampled tokens. */
  readonly tokens: number
  /** Null: plainly, at temperature 1 from the whole vocabulary. */
  readonly record: DrawnRecord | null
  /** Sampled from the weights that the job starts from. */
  readonly isOfStart: boolean
}

export interface DrawnRecord {
  readonly temperature: number
  /** Whether log q of each token is known. */
  readonly hasLogprobs: boolean
  /** Size of a token's kept set; 0: all tokens. */
  readonly keptAt: (t: number) => number
  readonly unmodelled: readonly string[]
}

/** What becomes of one token: its old log-probability is known, the trainer's, or nobody's. */
export type DrawnAs = 'plain' | 'recorded' | 'computed' | 'unknown' | 'unmodelled' | 'greedy'

/** How token `t` of an answer trains. */
export function drawnAs({ record, isOfStart }: Omit<DrawnAnswer, 'tokens'>, t: number): DrawnAs {
  if (record === null) return 'plain'
  if (record.temperature === 0) return 'greedy'
  const count = record.keptAt(t)
  if (!isModelledToken(record.unmodelled, count)) return 'unmodelled'
  if (record.hasLogprobs) return 'recorded'
  // at temperature 1 from all tokens log q is the log-softmax of the raw logits
  if (record.temperature === 1 && count === 0) return 'plain'
  return isOfStart ? 'computed' : 'unknown'
}

/**
 * Counts the tokens of all answers.
 *
 * @param ratio the job's `sampling_ratio`
 * @returns `sampling` (tokens, and how many of each kind but plain ones; under raw `ignored`) and `unmodelled` (tokens by the rule that nobody
 *   can follow); nothing where all were drawn plainly
 */
export function samplingFacts(answers: readonly DrawnAnswer[], ratio: 'sampled' | 'raw' = 'sampled'): Facts {
  const total = answers.reduce((sum, { tokens }) => sum + tokens, 0)
  const counts: Record<Exclude<DrawnAs, 'plain'>, number> = {
    recorded: 0,
    computed: 0,
    unknown: 0,
    unmodelled: 0,
    greedy: 0,
  }
  const names: Record<string, number> = {}
  for (const answer of answers) {
    const { record, tokens } = answer
    if (record === null) continue
    for (let t = 0; t < tokens; t += 1) {
      const as = drawnAs(answer, t)
      if (as === 'plain') continue
      counts[as] += 1
      if (as !== 'unmodelled') continue
      for (const name of record.unmodelled) {
        if (name in names || Object.keys(names).length < MOST_NAMES) names[name] = (names[name] ?? 0) + 1
      }
    }
  }
  const found = Object.values(counts).reduce((sum, count) => sum + count, 0)
  if (found === 0) return {}
  if (ratio === 'raw') return { sampling: { tokens: total, ignored: found } }
  return { sampling: { tokens: total, ...counts }, ...(counts.unmodelled === 0 ? {} : { unmodelled: names }) }
}
