/**
 * Kinds of JSON bodies: how large one may be, and how much may be in it. Counts are checked while bytes arrive, so that no schema ever
 * meets a million elements.
 */
import type { z } from 'zod'
import { CHAT_INT64_FIELDS } from '../wire/chat-completions.js'
import { idleOptionsOf } from '../wire/inference/idle-options.js'
import { unreadFieldsOf } from '../wire/inference/unread-fields.js'
import { MAX_LIST, MAX_TOKEN_IDS } from '../wire/maxima.js'
import type { JsonBody } from './endpoint.js'

type Of<S extends z.ZodType> = JsonBody<S>
type Groups<S extends z.ZodType> = JsonBody<S> & { readonly hasGroups: true }

/** A small object. */
export function small<S extends z.ZodType>(schema: S): Of<S> {
  const reader = { maxContainers: 20_000, maxValues: 200_000, maxNestedValues: 50_000, maxKeys: 20_000 }
  return { schema, size: 'smallBytes', reader }
}

/** A request of a training run, which has its number in the run's order even when it is refused. */
export function numbered<S extends z.ZodType>(schema: S): Of<S> {
  return { ...small(schema), told: ['model_id', 'seq_id'] }
}

/** How much a conversation may hold, in whosever words. */
export const CONVERSATION = {
  maxContainers: MAX_LIST,
  // a list of allowed ids may name every token of a large vocabulary
  maxValues: 300_000,
  maxNestedValues: 60_000,
  maxKeys: 20_000,
  int64Fields: CHAT_INT64_FIELDS,
  refusesHalves: true,
  keepsNumbers: true,
} as const

/** What of a request for an answer has no effect, though a schema knows it. */
const idleFieldsOf: NonNullable<JsonBody['idle']> = (value) => [...unreadFieldsOf(value), ...idleOptionsOf(value)]

/** A request for an answer to a conversation, with samplers. */
export function chat<S extends z.ZodType>(schema: S): Of<S> {
  return { schema, size: 'chatBytes', reader: CONVERSATION, idle: idleFieldsOf }
}

/** A conversation in the words of chat or of responses, whose samplers are not looked at. */
export function conversation<S extends z.ZodType>(schema: S): Of<S> {
  return { schema, size: 'chatBytes', reader: CONVERSATION, idle: unreadFieldsOf }
}

/** A conversation as data: nothing answers it, and all of it is kept. */
export function marked<S extends z.ZodType>(schema: S): Of<S> {
  const { int64Fields: _, keepsNumbers: __, refusesHalves: ___, ...reader } = CONVERSATION
  return { schema, size: 'chatBytes', reader }
}

/** Prompts to complete: evaluation harnesses send many of token ids at once. */
export function prompts<S extends z.ZodType>(schema: S): Of<S> {
  const reader = { ...CONVERSATION, maxValues: MAX_TOKEN_IDS, maxNestedValues: MAX_TOKEN_IDS }
  return { schema, size: 'chatBytes', reader, idle: idleFieldsOf }
}

/** A list of token ids. */
export function tokenIds<S extends z.ZodType>(schema: S): Of<S> {
  return { schema, size: 'smallBytes', reader: { maxContainers: 1000, maxValues: MAX_TOKEN_IDS, maxKeys: 1000 } }
}

/**
 * Trajectory groups. The counts are of one group: a million sampled tokens with their logprobs. Eleven million names kept the thread
 * that reads all large bodies for more than five minutes, collecting garbage near the end of its heap.
 */
export function groups<S extends z.ZodType>(schema: S): Groups<S> {
  const reader = { maxContainers: 4_000_000, maxValues: 20_000_000, maxNames: 100_000, keepsNumbers: true }
  return { schema, size: 'trajectoriesBytes', reader, hasGroups: true }
}
