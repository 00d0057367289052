/**
 * The fields of training rows that are read, by where they stand: all others have no effect, and are named to whoever gives them.
 *
 * One list for the readers of jobs and for `trainyard data convert`. Knows nothing of lines and errors.
 */
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { SYSTEM_NAMES } from './row-parts.js'

/** Booleans by which rows and turns of other trainers say whether they train (axolotl; ms-swift); any other value says something else. */
const TRAIN_WORDS: readonly string[] = ['train', 'training', 'loss']

const MESSAGE_FIELDS = [
  ...['role', 'content', 'name', 'tool_calls', 'tool_call_id', 'reasoning', 'reasoning_content'],
  ...['function_call', 'refusal'],
] as const
const TOOL_FIELDS = ['tools', 'functions'] as const

export const READ_FIELDS = {
  messages: new Set(['messages', ...TOOL_FIELDS, ...SYSTEM_NAMES, 'loss_mask', 'weight']),
  pair: new Set(['prompt', 'completion', ...TOOL_FIELDS, ...SYSTEM_NAMES, 'loss_mask', 'weight']),
  labelled: new Set(['prompt', 'completion', 'label', ...TOOL_FIELDS, ...SYSTEM_NAMES]),
  preference: new Set(['prompt', 'chosen', 'rejected', ...TOOL_FIELDS, ...SYSTEM_NAMES]),
  openAiPreference: new Set(['input', 'preferred_output', 'non_preferred_output']),
  openAiInput: new Set(['messages', ...TOOL_FIELDS]),
  message: new Set([...MESSAGE_FIELDS, 'weight']),
  /** Of trajectories, where rewards say what trains. */
  trajectoryMessage: new Set(MESSAGE_FIELDS),
} satisfies Readonly<Record<string, ReadonlySet<string>>>

/** Whether a row or a turn says that it trains; null where it says nothing. Of two words the one that says no counts. */
export function trainWordOf(object: JsonObject): boolean | null {
  const said = TRAIN_WORDS.map((name) => object[name]).filter((value) => typeof value === 'boolean')
  return said.length === 0 ? null : said.every(Boolean)
}

/** A turn whose word is a `weight`, as OpenAI's rows have it. */
export function withWeightOfWord(message: JsonObject): JsonObject {
  const trains = trainWordOf(message)
  if (trains === null) return message
  const others = Object.fromEntries(
    Object.entries(message).filter(([name, value]) => !TRAIN_WORDS.includes(name) || typeof value !== 'boolean'),
  )
  return trains ? others : { ...others, weight: 0 }
}

/** Names of the fields of an object that say something and are not among those that are read. */
export function unreadIn(object: JsonObject, read: ReadonlySet<string>): string[] {
  return Object.entries(object).flatMap(([name, value]) => {
    const isWord = read.has('weight') && TRAIN_WORDS.includes(name) && typeof value === 'boolean'
    return read.has(name) || isWord || !isSaid(value) ? [] : [name]
  })
}

/** Null, and a list or object of nothing, say nothing: clients write out what they do not use. */
export function isSaid(value: JsonValue | undefined): boolean {
  if (value === undefined || value === null) return false
  return typeof value !== 'object' || Object.keys(value).length > 0
}

/** What a job would not read of a row in a form that it does: `score`, `messages[].audio`. */
export function unreadOfRow(row: JsonObject): string[] {
  const form = formOf(row)
  const lists = ['messages', 'prompt', 'completion', 'chosen', 'rejected', 'preferred_output', 'non_preferred_output']
  const ofMessages = lists.flatMap((name) => {
    const list = row[name]
    if (!Array.isArray(list)) return []
    return list
      .filter(isJsonObject)
      .flatMap((message) => unreadIn(message, READ_FIELDS.message).map((field) => `${name}[].${field}`))
  })
  return [...new Set([...unreadIn(row, form), ...ofMessages])]
}

function formOf(row: JsonObject): ReadonlySet<string> {
  if (isSaid(row['preferred_output'])) return READ_FIELDS.openAiPreference
  if (isSaid(row['chosen'])) return READ_FIELDS.preference
  return isSaid(row['completion']) ? READ_FIELDS.pair : READ_FIELDS.messages
}
