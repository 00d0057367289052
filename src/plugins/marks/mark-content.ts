/**
 * What a mark copies of a conversation: what stood before the first answer, and all from there to the last one.
 *
 * Of a trajectory with several histories the main one is meant. Knows nothing of rows and requests.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import { type JsonObject, withoutNulls } from '#base/util/json.js'
import type { MarkContent } from './storage/marks.js'

/** A message of a trajectory. */
export interface SaidMessage {
  readonly message: JsonObject
  /** Sampled from the policy. */
  readonly isSampled: boolean
}

/** Longest copy, in UTF-16 units of JSON: some 60,000 tokens. A page of a hundred marks is read at once. */
export const MAX_CONTENT = 256 * 1024

/**
 * The main history of a trajectory in two parts.
 *
 * Where nothing says which messages were sampled, the last one of the assistant is the answer.
 *
 * @throws {InvalidRequestError} `nothing_to_mark` where the assistant said nothing
 */
export function splitConversation(
  messages: readonly SaidMessage[],
  name: string,
): Pick<MarkContent, 'prompt' | 'answer'> {
  const isAnswer = (each: SaidMessage): boolean => each.isSampled || each.message['role'] === 'assistant'
  const last = messages.findLastIndex(isAnswer)
  if (last === -1) {
    throw new InvalidRequestError('nothing_to_mark', `${name} holds no answer of the model`, {
      hint: 'a mark says what is thought of an answer: choose another trajectory',
    })
  }
  const sampled = messages.findIndex(({ isSampled }) => isSampled)
  const first = sampled === -1 || sampled > last ? last : sampled
  return {
    prompt: messages.slice(0, first).map(({ message }) => plain(message)),
    answer: messages.slice(first, last + 1).map((each) => ({
      ...plain(each.message),
      // what was put into its mouth is not learned
      ...(each.message['role'] === 'assistant' && !each.isSampled && sampled !== -1 ? { weight: 0 } : {}),
    })),
  }
}

/** A message without its nulls; what was sampled is the assistant's. */
export function plain(message: JsonObject): JsonObject {
  return { role: 'assistant', ...withoutNulls(message) }
}

/** @throws {InvalidRequestError} `mark_too_large` */
export function assertSize(content: MarkContent): void {
  const size = JSON.stringify(content).length
  if (size <= MAX_CONTENT) return
  throw new InvalidRequestError(
    'mark_too_large',
    `what is marked has ${size} characters with all that was said before it, expected at most ${MAX_CONTENT}`,
    { hint: 'trainyard jobs data gives the rows of a job in any length' },
  )
}
