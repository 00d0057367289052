/**
 * How a choice was sampled, where it was not drawn plainly (at temperature 1 from the whole vocabulary): bounds of that record, and which
 * of its tokens a learner can follow. One place for the wire (`contract/wire/sampling-record.ts`), for rows (`formats/rows/sampling-record.ts`)
 * and for the engine, which makes it.
 */
import { append } from '#base/util/lists.js'

/** Of one token: larger sets are not recorded. */
export const MOST_KEPT_IDS = 512
/** Of one record, beyond any context. */
export const MOST_RECORDED_TOKENS = 1_048_576
/** Of one record, all its sets together: 64 MB. */
export const MOST_RECORDED_IDS = 16_777_216
/** Of one answer of this service, the sets of all its choices together, but for those of the sampled token alone. */
export const MOST_ANSWERED_IDS = 1_000_000
export const MOST_UNMODELLED_NAMES = 32
export const LONGEST_UNMODELLED_NAME = 64

/** Below this temperature the answer is the most likely token. */
const GREEDY_TEMPERATURE = 1e-5
/** Positive temperatures below this are raised to it, so that scores stay finite. */
const LOWEST_TEMPERATURE = 0.01

/**
 * The temperature that a request or a record means, as vLLM and our engine have it: what logits are divided by.
 *
 * @returns 0: the most likely token is taken
 */
export function appliedTemperature(asked: number): number {
  return asked < GREEDY_TEMPERATURE ? 0 : Math.max(asked, LOWEST_TEMPERATURE)
}

/** Rules that only leave tokens out. Named as unmodelled they concern the tokens without a set: the others have theirs recorded. */
const CUTS: ReadonlySet<string> = new Set([
  'top_k',
  'top_p',
  'min_p',
  'xtc_probability',
  'allowed_token_ids',
  'bad_words',
  'min_tokens',
  'structured_outputs',
])

/**
 * Whether a learner can compute the distribution that a token was drawn from, by temperature and kept set alone.
 *
 * @param count size of the token's kept set; 0: none is recorded, so nothing was left out unless a cut is unmodelled
 */
export function isModelledToken(unmodelled: readonly string[], count: number): boolean {
  return unmodelled.every((name) => count > 0 && CUTS.has(name))
}

/** What a record says of each token. */
interface TokensOfRecord {
  /** Null: nobody knows them. */
  readonly logprobs: readonly number[] | null
  readonly kept: { readonly counts: readonly number[]; readonly ids: readonly number[] }
  readonly unmodelled: readonly string[]
}

/** Consecutive tokens of one choice. */
export interface SampledPart<R extends TokensOfRecord> {
  /** Their reported log-probabilities. */
  readonly logprobs: readonly number[]
  /** Absent: they were drawn plainly. */
  readonly sampling?: R | undefined
}

/** The record of a choice whose tokens came in parts, as a stream has them; undefined where all were drawn plainly. */
export function joinSampling<R extends TokensOfRecord>(parts: readonly SampledPart<R>[]): R | undefined {
  const first = parts.find(({ sampling }) => sampling !== undefined)?.sampling
  if (first === undefined) return undefined
  const joined = { logprobs: [] as number[], counts: [] as number[], ids: [] as number[] }
  const unmodelled = new Set<string>()
  const isKnown = parts.every(({ sampling }) => sampling?.logprobs !== null)
  for (const { logprobs, sampling } of parts) {
    for (const logprob of sampling?.logprobs ?? logprobs) joined.logprobs.push(Math.min(0, logprob))
    append(joined.counts, sampling?.kept.counts ?? logprobs.map(() => 0))
    append(joined.ids, sampling?.kept.ids ?? [])
    for (const name of sampling?.unmodelled ?? []) unmodelled.add(name)
  }
  const { logprobs, ...kept } = joined
  return { ...first, logprobs: isKnown ? logprobs : null, kept, unmodelled: [...unmodelled] }
}

/** Truncations of a request that leave sets of any size. */
interface TruncatingRequest {
  readonly top_p?: unknown
  readonly min_p?: unknown
  readonly top_k?: unknown
}

/**
 * A request to sample, so that what it truncates is recorded: where top_p or min_p alone say how many tokens may be drawn, at most the 512
 * likeliest are, which takes next to nothing from the distribution.
 */
export function withRecordedSets<R extends TruncatingRequest>(request: R): R | (R & { readonly top_k: number }) {
  const { top_p: topP = 1, min_p: minP = 0, top_k: topK = 0 } = request
  const truncates = Number(topP ?? 1) < 1 || Number(minP ?? 0) > 0
  const isOpen = Number(topK ?? 0) <= 0
  return truncates && isOpen ? { ...request, top_k: MOST_KEPT_IDS } : request
}
