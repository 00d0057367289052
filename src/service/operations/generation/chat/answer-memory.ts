/**
 * Answers of a while with the tokens that were sampled, so that a conversation that comes back goes on behind exactly those. A message holds
 * less: not how its text was cut into tokens, nor what stood around its calls.
 *
 * An answer is found by its message, by the place of that in its conversation, and by the id of its first call where it has one: the same
 * words further on say nothing of a message that was corrected. What prompt it answered is checked where it is rendered
 * (`model/text/sampled-turns.ts`). Of one server, in memory: where nothing is found the text counts, as it does everywhere else.
 * Each owner sees its own; who holds most gives way first.
 */
import { createHash } from 'node:crypto'
import { parseExact, stringifyExact } from '#base/json/exact-json.js'
import { isJsonObject, type JsonValue } from '#base/util/json.js'
import type { ChatRequest } from '#contract/wire/chat-completions.js'
import { isOwnCall } from '#formats/answers/call-id.js'
import type { SampledTurn } from '#inference/host/protocol.js'
import { echoOf } from './chat-messages.js'

type Message = ChatRequest['messages'][number]

/** Tokens of all answers, of 4 bytes and more; an answer counts some beside. */
const MOST_TOKENS = 2 * 1024 ** 2
const BESIDE = 128
/** Answers of one text and place that are told apart by their prompts only. */
const MOST_OF_ONE = 16
/** Answers of a conversation that are looked up, the newest: each is hashed. */
const MOST_RECALLED = 256

interface Shelf {
  readonly turns: Map<string, readonly SampledTurn[]>
  tokens: number
}

const costOf = (turns: readonly SampledTurn[]): number =>
  turns.reduce((sum, { tokenIds }) => sum + tokenIds.length + BESIDE, 0)

export class AnswerMemory {
  readonly #shelves = new Map<string, Shelf>()
  readonly #mostTokens: number
  #tokens = 0

  constructor(mostTokens = MOST_TOKENS) {
    this.#mostTokens = mostTokens
  }

  /**
   * @param messages the answer in all forms that a client may have of it
   * @param index which message of its conversation the answer is: how many the request had
   */
  remember(owner: string, messages: readonly Message[], index: number, turn: SampledTurn): void {
    const shelf = this.#shelves.get(owner) ?? { turns: new Map(), tokens: 0 }
    this.#shelves.set(owner, shelf)
    for (const key of new Set(messages.map((message) => keyOf(message, index)))) {
      const before = shelf.turns.get(key) ?? []
      const now = [...before, turn].slice(-MOST_OF_ONE)
      shelf.turns.delete(key)
      shelf.turns.set(key, now)
      this.#count(shelf, costOf(now) - costOf(before))
    }
    this.#shrink()
  }

  /** The answers that may stand in a conversation. */
  recall(owner: string, messages: readonly Message[]): readonly SampledTurn[] {
    const shelf = this.#shelves.get(owner)
    if (shelf === undefined) return []
    const answers = messages
      .map((message, index) => ({ message, index }))
      .filter(({ message }) => message.role === 'assistant')
      .slice(-MOST_RECALLED)
    return answers.flatMap(({ message, index }) => {
      const key = keyOf(message, index)
      const found = shelf.turns.get(key) ?? []
      if (found.length === 0) return []
      // what is used stays
      shelf.turns.delete(key)
      shelf.turns.set(key, found)
      return found
    })
  }

  #shrink(): void {
    while (this.#tokens > this.#mostTokens) {
      const [owner, shelf] = [...this.#shelves].reduce((most, each) => (each[1].tokens > most[1].tokens ? each : most))
      const [oldest] = shelf.turns
      if (oldest === undefined) return
      shelf.turns.delete(oldest[0])
      this.#count(shelf, -costOf(oldest[1]))
      if (shelf.turns.size === 0) this.#shelves.delete(owner)
    }
  }

  #count(shelf: Shelf, tokens: number): void {
    shelf.tokens += tokens
    this.#tokens += tokens
  }
}

/** Where a message stands and what it says, however it is written: white space at the ends and the spelling of JSON arguments do not count. */
function keyOf(message: Message, index: number): string {
  const calls = (message.tool_calls ?? []) as readonly { readonly id?: unknown; readonly function?: unknown }[]
  const reasoning = message.reasoning ?? message.reasoning_content ?? ''
  const id = calls[0]?.id
  const said = [
    index,
    (echoOf(message) ?? '').trim(),
    typeof reasoning === 'string' ? reasoning.trim() : '',
    calls.map(({ function: called }) => {
      const { name = null, arguments: given = null } = (called ?? {}) as { name?: JsonValue; arguments?: JsonValue }
      return [name, argumentsOf(given)]
    }),
    isOwnCall(id) ? String(id) : null,
  ]
  return createHash('sha256').update(JSON.stringify(said)).digest('base64')
}

function argumentsOf(given: JsonValue): string {
  if (isJsonObject(given)) return stringifyExact(given)
  if (typeof given !== 'string') return ''
  try {
    const parsed = parseExact(given)
    return isJsonObject(parsed) ? stringifyExact(parsed) : given
  } catch {
    return given
  }
}
