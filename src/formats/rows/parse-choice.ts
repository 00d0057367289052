/**
 * One Choice of a chat completion, as it appears inside trajectories: message, token ids, log-probabilities.
 *
 * Every rule about sampled tokens is checked here, so that later files may index the arrays without looking.
 * Kept apart from parse.ts because these loops run once per sampled token of a payload that may hold millions.
 */
import { DataError } from '#base/errors/errors.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { parseSampling } from './sampling-record.js'
import type { ChoiceItem, SampledToken } from './trajectory.js'

const ID_PREFIX = 'token_id:'
/** Rounding of float32 log-softmax may leave a certain token this far above 0; it is then stored as 0. */
const POSITIVE_ROUNDING = 1e-6
const MAX_TOKEN_ID = 2 ** 31 - 1
/** Rewards beyond this would overflow when squared deviations are averaged. */
export const MAX_REWARD_MAGNITUDE = 1e30

/** Limits that depend on the model; absent ones are not checked. */
export interface TokenLimits {
  /** Ids must be below this. */
  readonly vocabularySize?: number | undefined
  /** Called with the largest id of each list of ids, and its path: for who learns later how large the vocabulary is. */
  readonly noteLargestId?: ((id: number, path: string) => void) | undefined
}

/**
 * Reads a Choice object (one with a `message` key).
 *
 * @param path JSON path of the element, quoted in errors
 * @throws {DataError} `invalid_choice` for wrong types; `invalid_token_id`; `invalid_logprob` for a positive or
 *   non-finite value; `logprobs_mismatch` when the number of logprobs differs from the number of tokens; `invalid_sampling`;
 *   `invalid_reward`
 */
export function parseChoice(choice: JsonObject, path: string, limits: TokenLimits = {}): ChoiceItem {
  const message = choice['message']
  if (!isJsonObject(message))
    throw new DataError('invalid_choice', `${path}.message must be an object, got ${describe(message)}.`, {
      param: `${path}.message`,
    })
  const promptTokenIds = parseTokenIds(choice['prompt_token_ids'], `${path}.prompt_token_ids`, limits)
  const givenIds = parseTokenIds(choice['token_ids'], `${path}.token_ids`, limits)
  const entries = logprobEntries(choice['logprobs'], `${path}.logprobs`)
  const samplingOf = (tokenIds: Int32Array | null, count: number): ChoiceItem['sampling'] =>
    parseSampling(choice['sampling'], `${path}.sampling`, {
      tokenIds,
      count,
      vocabularySize: limits.vocabularySize,
    })
  if (entries === null) {
    return {
      kind: 'choice',
      message,
      finishReason: finishReasonOf(choice, path),
      promptTokenIds,
      tokenIds: givenIds,
      tokens: null,
      logprobs: null,
      ...turnReward(choice['reward'], `${path}.reward`, givenIds?.length ?? null),
      // of what was drawn in tokens that nobody knows nothing can be said
      sampling: givenIds === null ? null : samplingOf(givenIds, givenIds.length),
    }
  }
  if (givenIds !== null && givenIds.length !== entries.list.length) {
    const first = firstDifference(givenIds, readSpelledIds(entries.list, entries.path, limits))
    throw new DataError(
      'logprobs_mismatch',
      `${entries.path} has ${entries.list.length} entries but token_ids has ${givenIds.length}; they must be equal${first}.`,
      { param: entries.path },
    )
  }
  const logprobs = readLogprobs(entries.list, entries.path)
  const spelledIds = readSpelledIds(entries.list, entries.path, limits)
  if (givenIds !== null && spelledIds !== null) assertSameIds(givenIds, spelledIds, entries.path)
  const tokenIds = givenIds ?? spelledIds
  return {
    kind: 'choice',
    message,
    finishReason: finishReasonOf(choice, path),
    promptTokenIds,
    tokenIds,
    tokens: tokenIds === null ? readTokens(entries.list, entries.path) : null,
    logprobs,
    ...turnReward(choice['reward'], `${path}.reward`, entries.list.length),
    sampling: samplingOf(tokenIds, entries.list.length),
  }
}

/** Names a JSON value's type for an error message; numbers and short strings are quoted. */
export function describe(value: unknown): string {
  if (value === undefined) return 'nothing'
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'an array'
  if (typeof value === 'object') return 'an object'
  if (typeof value === 'string') return value.length <= 40 ? `'${value}'` : 'a string'
  return String(value)
}

/** @param count tokens of the choice; null: not known */
function turnReward(value: JsonValue | undefined, path: string, count: number | null): Pick<ChoiceItem, 'reward'> {
  const isReward = (each: unknown): each is number => typeof each === 'number' && Math.abs(each) <= MAX_REWARD_MAGNITUDE
  if (value === undefined || value === null) return {}
  if (isReward(value)) return { reward: value }
  const refuse = (problem: string): never => {
    throw new DataError('invalid_reward', `${path} ${problem}.`, { param: path })
  }
  if (!Array.isArray(value)) return refuse(`must be a finite number, or a list of one a token, got ${describe(value)}`)
  if (count === null) return refuse('is a list, but nobody knows the tokens: give token_ids or logprobs')
  if (value.length !== count) return refuse(`has ${value.length} numbers for ${count} tokens`)
  const wrong = value.findIndex((each) => !isReward(each))
  if (wrong >= 0) return refuse(`has as element ${wrong} ${describe(value[wrong])}, expected a finite number`)
  return { reward: Float32Array.from(value as readonly number[]) }
}

function finishReasonOf(choice: JsonObject, path: string): string | null {
  const reason = choice['finish_reason'] ?? null
  if (reason !== null && typeof reason !== 'string') {
    throw new DataError('invalid_choice', `${path}.finish_reason must be a string or null, got ${describe(reason)}.`, {
      param: `${path}.finish_reason`,
    })
  }
  return reason
}

function parseTokenIds(value: JsonValue | undefined, path: string, limits: TokenLimits): Int32Array | null {
  if (value === undefined || value === null) return null
  if (!Array.isArray(value))
    throw new DataError('invalid_choice', `${path} must be an array of integers, got ${describe(value)}.`, {
      param: path,
    })
  const bound = limits.vocabularySize ?? MAX_TOKEN_ID
  const ids = new Int32Array(value.length)
  let largestAt = 0
  for (let t = 0; t < value.length; t += 1) {
    const id: unknown = value[t]
    if (typeof id !== 'number' || !Number.isInteger(id) || id < 0 || id >= bound)
      throw invalidTokenId(`${path}[${t}]`, id, bound)
    ids[t] = id
    if (id > (ids[largestAt] ?? 0)) largestAt = t
  }
  if (ids.length > 0) limits.noteLargestId?.(ids[largestAt] ?? 0, `${path}[${largestAt}]`)
  return ids
}

function invalidTokenId(path: string, got: unknown, bound: number): DataError {
  return new DataError('invalid_token_id', `${path} must be a token id from 0 to ${bound - 1}, got ${describe(got)}.`, {
    param: path,
  })
}

/** `logprobs.content`, or `logprobs.refusal` when content is absent. */
function logprobEntries(
  value: JsonValue | undefined,
  path: string,
): { list: readonly JsonObject[]; path: string } | null {
  if (value === undefined || value === null) return null
  if (!isJsonObject(value))
    throw new DataError('invalid_choice', `${path} must be an object or null, got ${describe(value)}.`, { param: path })
  const name = (value['content'] ?? null) === null ? 'refusal' : 'content'
  const list = value[name] ?? null
  if (list === null) return null
  if (!Array.isArray(list))
    throw new DataError('invalid_choice', `${path}.${name} must be an array or null, got ${describe(list)}.`, {
      param: `${path}.${name}`,
    })
  for (let t = 0; t < list.length; t += 1) {
    if (!isJsonObject(list[t]))
      throw new DataError('invalid_choice', `${path}.${name}[${t}] must be an object, got ${describe(list[t])}.`, {
        param: `${path}.${name}[${t}]`,
      })
  }
  return { list, path: `${path}.${name}` }
}

function readLogprobs(list: readonly JsonObject[], path: string): Float32Array {
  const logprobs = new Float32Array(list.length)
  for (let t = 0; t < list.length; t += 1) {
    const logprob = list[t]?.['logprob']
    if (typeof logprob !== 'number' || !Number.isFinite(logprob) || logprob > POSITIVE_ROUNDING) {
      throw new DataError(
        'invalid_logprob',
        `${path}[${t}].logprob must be a finite number of at most 0, got ${describe(logprob)}.`,
        {
          param: `${path}[${t}].logprob`,
        },
      )
    }
    logprobs[t] = Math.min(logprob, 0)
  }
  return logprobs
}

/** Ids from texts of the form `token_id:<id>`; null unless every token is written that way. */
function readSpelledIds(list: readonly JsonObject[], path: string, limits: TokenLimits): Int32Array | null {
  const bound = limits.vocabularySize ?? MAX_TOKEN_ID
  const ids = new Int32Array(list.length)
  let largestAt = 0
  for (let t = 0; t < list.length; t += 1) {
    const token = list[t]?.['token']
    if (typeof token !== 'string')
      throw new DataError('invalid_choice', `${path}[${t}].token must be a string, got ${describe(token)}.`, {
        param: `${path}[${t}].token`,
      })
    if (!token.startsWith(ID_PREFIX)) return null
    const digits = token.slice(ID_PREFIX.length)
    if (!/^\d{1,10}$/.test(digits)) return null
    const id = Number(digits)
    if (id >= bound) throw invalidTokenId(`${path}[${t}].token`, token, bound)
    ids[t] = id
    if (id > (ids[largestAt] ?? 0)) largestAt = t
  }
  if (ids.length > 0) limits.noteLargestId?.(ids[largestAt] ?? 0, `${path}[${largestAt}].token`)
  return ids
}

/** Where two lists of ids part, as the end of a sentence; empty where the texts name no ids. */
function firstDifference(given: Int32Array, spelled: Int32Array | null): string {
  if (spelled === null) return ''
  const shorter = Math.min(given.length, spelled.length)
  const t = given.subarray(0, shorter).findIndex((id, at) => id !== spelled[at])
  const at = t === -1 ? shorter : t
  return `, and they part at token ${at}: token_ids has ${given[at] ?? 'no more'}, the log-probabilities ${spelled[at] ?? 'no more'}`
}

function assertSameIds(given: Int32Array, spelled: Int32Array, path: string): void {
  for (let t = 0; t < given.length; t += 1) {
    if (given[t] !== spelled[t]) {
      throw new DataError(
        'logprobs_mismatch',
        `${path}[${t}].token names id ${spelled[t]} but token_ids has ${given[t]}.`,
        { param: `${path}[${t}].token` },
      )
    }
  }
}

function readTokens(list: readonly JsonObject[], path: string): SampledToken[] {
  return list.map((entry, t) => {
    const text = entry['token']
    if (typeof text !== 'string')
      throw new DataError('invalid_choice', `${path}[${t}].token must be a string, got ${describe(text)}.`, {
        param: `${path}[${t}].token`,
      })
    const bytes = entry['bytes'] ?? null
    if (bytes !== null && !isByteList(bytes)) {
      throw new DataError('invalid_choice', `${path}[${t}].bytes must be an array of integers from 0 to 255 or null.`, {
        param: `${path}[${t}].bytes`,
      })
    }
    return { text, bytes }
  })
}

function isByteList(value: unknown): value is readonly number[] {
  return (
    Array.isArray(value) &&
    value.every((byte) => typeof byte === 'number' && Number.isInteger(byte) && byte >= 0 && byte <= 255)
  )
}
