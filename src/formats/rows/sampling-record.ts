/**
 * The record of how a choice was sampled (`sampling`), as rows carry it: read, checked, and asked for a token at a time.
 *
 * Its meaning stands at the wire's schema (`contract/wire/sampling-record.ts`). Loops here run once per sampled token and kept id.
 */
import { DataError } from '#base/errors/errors.js'
import {
  appliedTemperature,
  isModelledToken,
  LONGEST_UNMODELLED_NAME,
  MOST_KEPT_IDS,
  MOST_RECORDED_TOKENS,
  MOST_UNMODELLED_NAMES,
} from '#base/sampling-record.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'

/** Rounding may leave a certain token this far above 0; it is then stored as 0. */
const POSITIVE_ROUNDING = 1e-6
const MAX_TOKEN_ID = 2 ** 31 - 1

/** How the tokens of one choice were drawn; N tokens. */
export interface ChoiceSampling {
  /** What logits were divided by; 0: the most likely token was taken, and sets hold it alone. */
  readonly temperature: number
  readonly topP: number
  /** 0: off. */
  readonly topK: number
  readonly minP: number
  /**
   * [N], log q: natural log-probability under the distribution that the token was drawn from, each at most 0. Null where nobody wrote
   * them down, as of a recorded request that says its temperature: the choice's own are then those of the raw logits.
   */
  readonly logprobs: Float32Array | null
  /** [N + 1]: the set of token t is `keptIds` from `keptFrom[t]` up to `keptFrom[t + 1]`; an empty one: all tokens. */
  readonly keptFrom: Int32Array
  /** [sum of sets], at most 512 a token. */
  readonly keptIds: Int32Array
  /** Fields whose effect the rest does not say (`isModelledAt`). */
  readonly unmodelled: readonly string[]
}

/** The tokens that could be drawn where token `t` was; null: all of them, or not known (`isModelledAt`). */
export function keptAt({ keptFrom, keptIds }: ChoiceSampling, t: number): Int32Array | null {
  const [start = 0, end = 0] = keptFrom.subarray(t, t + 2)
  return start === end ? null : keptIds.subarray(start, end)
}

/** Whether temperature and set say all about the distribution that token `t` was drawn from. */
export function isModelledAt({ keptFrom, unmodelled }: ChoiceSampling, t: number): boolean {
  return isModelledToken(unmodelled, (keptFrom[t + 1] ?? 0) - (keptFrom[t] ?? 0))
}

/**
 * Reads the record of one choice.
 *
 * @param path JSON path of the record, quoted in errors
 * @param tokenIds [N] of the choice; null: they are found from texts later, and then no sets can be given
 * @param count N
 * @param vocabularySize ids must be below it; absent: not checked
 * @returns null if there is none
 * @throws {DataError} `invalid_sampling` with the path of what is wrong
 */
export function parseSampling(
  value: JsonValue | undefined,
  path: string,
  { tokenIds, count, vocabularySize }: SampledTokens,
): ChoiceSampling | null {
  if (value === undefined || value === null) return null
  if (!isJsonObject(value)) throw invalid(path, 'must be an object or null', value)
  const given = value['logprobs'] ?? null
  const logprobs = given === null ? null : readLogprobs(given, `${path}.logprobs`, count)
  const kept = readKept(value['kept'], `${path}.kept`, { tokenIds, count, vocabularySize })
  return {
    temperature: appliedTemperature(numberIn(value, 'temperature', path, { default: 1, max: Number.MAX_VALUE })),
    topP: numberIn(value, 'top_p', path, { default: 1, max: 1 }),
    topK: wholeTopK(value, path),
    minP: numberIn(value, 'min_p', path, { default: 0, max: 1 }),
    logprobs,
    ...kept,
    unmodelled: readNames(value['unmodelled'], `${path}.unmodelled`),
  }
}

export interface SampledTokens {
  readonly tokenIds: Int32Array | null
  readonly count: number
  readonly vocabularySize?: number | undefined
}

function numberIn(
  record: JsonObject,
  name: string,
  path: string,
  range: { readonly default: number; readonly max: number },
): number {
  const value = record[name] ?? range.default
  const isInside = typeof value === 'number' && value >= 0 && value <= range.max
  if (isInside) return value
  const bounds = range.max === 1 ? 'from 0 to 1' : 'of at least 0'
  throw invalid(`${path}.${name}`, `must be a number ${bounds}`, value)
}

/** -1 is how some say that it is off. */
function wholeTopK(record: JsonObject, path: string): number {
  const value = record['top_k'] ?? 0
  if (typeof value === 'number' && Number.isInteger(value) && value >= -1) return Math.max(0, value)
  throw invalid(`${path}.top_k`, 'must be an integer of at least 0', value)
}

function readLogprobs(value: JsonValue | undefined, path: string, count: number): Float32Array {
  const list = listOf(value, path, count)
  const logprobs = new Float32Array(count)
  for (let t = 0; t < count; t += 1) {
    const logprob = list[t]
    if (typeof logprob !== 'number' || !Number.isFinite(logprob) || logprob > POSITIVE_ROUNDING) {
      throw invalid(`${path}[${t}]`, 'must be a finite number of at most 0', logprob)
    }
    logprobs[t] = Math.min(logprob, 0)
  }
  return logprobs
}

function readKept(
  value: JsonValue | undefined,
  path: string,
  { tokenIds, count, vocabularySize = MAX_TOKEN_ID }: SampledTokens,
): Pick<ChoiceSampling, 'keptFrom' | 'keptIds'> {
  const keptFrom = new Int32Array(count + 1)
  if (value === undefined || value === null) return { keptFrom, keptIds: new Int32Array(0) }
  if (!isJsonObject(value)) throw invalid(path, 'must be an object or null', value)
  const counts = listOf(value['counts'], `${path}.counts`, count)
  for (let t = 0; t < count; t += 1) {
    const size = counts[t]
    if (typeof size !== 'number' || !Number.isInteger(size) || size < 0 || size > MOST_KEPT_IDS) {
      throw invalid(`${path}.counts[${t}]`, `must be an integer from 0 to ${MOST_KEPT_IDS}`, size)
    }
    keptFrom[t + 1] = (keptFrom[t] ?? 0) + size
  }
  const total = keptFrom[count] ?? 0
  const ids = value['ids']
  if (!Array.isArray(ids)) throw invalid(`${path}.ids`, 'must be an array', ids)
  if (ids.length !== total) throw invalid(`${path}.ids`, `must have the ${total} ids that counts add up to`, ids.length)
  if (total > 0 && tokenIds === null) {
    throw new DataError('invalid_sampling', `${path} has sets, but the choice has no token ids to find in them.`, {
      param: path,
      hint: 'send token_ids with the choice, or leave kept out and name the rule in unmodelled',
    })
  }
  const keptIds = new Int32Array(total)
  for (let i = 0; i < total; i += 1) {
    const id = ids[i]
    if (typeof id !== 'number' || !Number.isInteger(id) || id < 0 || id >= vocabularySize) {
      throw invalid(`${path}.ids[${i}]`, `must be a token id from 0 to ${vocabularySize - 1}`, id)
    }
    keptIds[i] = id
  }
  checkSets(path, { keptFrom, keptIds }, tokenIds ?? new Int32Array(0))
  return { keptFrom, keptIds }
}

/** A token has been drawn from its set, and none stands in it twice. */
function checkSets(
  path: string,
  { keptFrom, keptIds }: Pick<ChoiceSampling, 'keptFrom' | 'keptIds'>,
  tokenIds: Int32Array,
): void {
  for (let t = 0; t < tokenIds.length; t += 1) {
    const set = keptIds.subarray(keptFrom[t], keptFrom[t + 1])
    if (set.length === 0) continue
    const different = new Set(set)
    const sampled = tokenIds[t] ?? -1
    if (!different.has(sampled)) {
      throw new DataError(
        'invalid_sampling',
        `${path}: the set of token ${t} does not hold ${sampled}, which was sampled.`,
        { param: path },
      )
    }
    if (different.size < set.length) {
      throw new DataError('invalid_sampling', `${path}: the set of token ${t} holds an id twice.`, { param: path })
    }
  }
}

function readNames(value: JsonValue | undefined, path: string): readonly string[] {
  if (value === undefined || value === null) return []
  if (!Array.isArray(value) || value.length > MOST_UNMODELLED_NAMES) {
    throw invalid(path, `must be an array of at most ${MOST_UNMODELLED_NAMES} names`, value)
  }
  return value.map((name, i) => {
    if (typeof name === 'string' && name !== '' && name.length <= LONGEST_UNMODELLED_NAME) return name
    throw invalid(`${path}[${i}]`, `must be a name of at most ${LONGEST_UNMODELLED_NAME} characters`, name)
  })
}

function listOf(value: JsonValue | undefined, path: string, count: number): readonly JsonValue[] {
  if (!Array.isArray(value)) throw invalid(path, 'must be an array', value)
  if (value.length === count && count <= MOST_RECORDED_TOKENS) return value
  throw invalid(path, `must have an entry for each of the choice's ${count} tokens`, value.length)
}

function invalid(path: string, expectation: string, value: unknown): DataError {
  return new DataError('invalid_sampling', `${path} ${expectation}, got ${given(value)}.`, { param: path })
}

function given(value: unknown): string {
  if (value === undefined) return 'nothing'
  if (Array.isArray(value)) return `${value.length} elements`
  if (typeof value === 'object' && value !== null) return 'an object'
  return JSON.stringify(value)?.slice(0, 80) ?? String(value)
}
