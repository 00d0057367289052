/**
 * Conversations to training examples: token ids and a mask over what the assistant wrote.
 *
 * Where the turns lie is found in `assistant-turns.ts`. Every turn is tokenized apart, as at inference, where the prompt
 * is tokenized before anything is generated.
 */
import { DataError } from '#base/errors.js'
import type { JsonObject, JsonValue } from '#base/util/json.js'
import { isAssistant, locateTurns, type TurnSpan } from './assistant-turns.js'
import { chatTemplateOf, describeMessage } from './render.js'
import type { BarredText } from './template/control-tokens.js'
import type { TextModel } from './text-model.js'

export interface MaskedConversation {
  readonly messages: readonly JsonValue[]
  readonly tools?: readonly JsonValue[] | null | undefined
  /**
   * Train on every assistant message, on the last message, which must then be the assistant's, or on the assistant messages
   * at these positions (default `all`).
   */
  readonly assistantTurns?: 'all' | 'last' | readonly number[] | undefined
  /** Template variables; `trainingKwargs` sets its defaults where the template reads them and the caller says nothing. */
  readonly kwargs?: JsonObject | null | undefined
}

export interface MaskedTokens {
  readonly tokenIds: number[]
  /** 1 on tokens of assistant turns including their end-of-turn token, 0 elsewhere; as long as `tokenIds`. */
  readonly mask: Uint8Array
  /** The messages that the template leaves out, as people are told of them. */
  readonly leftOut: readonly string[]
}

/** Template variables that training sets unless told otherwise: no thinking block, earlier reasoning kept. */
const trainingDefaults: JsonObject = { enable_thinking: false, preserve_thinking: true }

/**
 * The template variables for training: `enable_thinking` false and `preserve_thinking` true where the template reads
 * them, and the caller's own, which win.
 *
 * @throws {InvalidRequestError} `no_chat_template`
 */
export function trainingKwargs(model: TextModel, kwargs: JsonObject | null = null): JsonObject {
  const { variables } = chatTemplateOf(model).facts
  const defaults = Object.entries(trainingDefaults).filter(([name]) => variables.has(name))
  return { ...Object.fromEntries(defaults), ...kwargs }
}

/**
 * Renders a conversation and marks what the assistant wrote.
 *
 * @returns ids of the whole conversation; without any assistant message the mask is all 0
 * @throws {DataError} `last_message_not_assistant` with `assistantTurns: 'last'`; `assistant_turn_not_found` when the
 *   template writes a turn in a way that cannot be located
 * @throws {InvalidRequestError} as `renderConversation`
 */
export function renderWithMask(model: TextModel, conversation: MaskedConversation): MaskedTokens {
  const template = chatTemplateOf(model)
  const { messages, tools, assistantTurns = 'all' } = conversation
  const kwargs = trainingKwargs(model, conversation.kwargs ?? null)
  const renderMessages = (some: readonly JsonValue[], addGenerationPrompt: boolean): BarredText =>
    template.render({ messages: some, tools, kwargs, addGenerationPrompt })
  const render = (count: number, addGenerationPrompt: boolean): BarredText =>
    renderMessages(messages.slice(0, count), addGenerationPrompt)
  const renderProbe = (addGenerationPrompt: boolean): string =>
    renderMessages([{ role: 'user', content: 'x' }], addGenerationPrompt).text

  const turns = assistantIndices(messages, assistantTurns)
  const whole = render(messages.length, false)
  const rendering = { model, whole, render, renderProbe }
  // A last turn whose prompt is a prefix of the whole needs none of the others.
  const only = assistantTurns === 'last' ? turns[0] : undefined
  const isAlone = only !== undefined && only > 0 && whole.text.startsWith(render(only, true).text)
  const spans = locateTurns(messages, isAlone ? [only] : null, rendering)
  const tokens = tokenize(
    model,
    whole,
    turns.flatMap((turn) => spans.get(turn) ?? []),
  )
  return { ...tokens, leftOut: leftOutOf(model, messages, { tools, kwargs }) }
}

/** The messages of which nothing is in a rendering, as people are told of them. */
export function leftOutOf(
  model: TextModel,
  messages: readonly JsonValue[],
  { tools, kwargs }: Pick<MaskedConversation, 'tools' | 'kwargs'>,
): string[] {
  const indices = chatTemplateOf(model).leftOutMessages({ messages, tools, kwargs, addGenerationPrompt: false })
  return indices.map((index) => describeMessage(messages, index))
}

function assistantIndices(messages: readonly JsonValue[], which: 'all' | 'last' | readonly number[]): number[] {
  const all = messages.flatMap((message, index) => (isAssistant(message) ? [index] : []))
  if (which === 'all') return all
  if (which !== 'last') return all.filter((index) => which.includes(index))
  if (!isAssistant(messages.at(-1))) {
    throw new DataError('last_message_not_assistant', 'last message must be from the assistant', {
      param: `messages[${messages.length - 1}]`,
    })
  }
  return all.slice(-1)
}

/** Tokenizes spans and the text between them apart and marks the spans. */
function tokenize(
  model: TextModel,
  { text, barriers }: BarredText,
  spans: readonly TurnSpan[],
): Omit<MaskedTokens, 'leftOut'> {
  const { tokenizer } = model
  const tokenIds: number[] = []
  const trained: number[] = []
  const append = (start: number, end: number, isTrained: number): void => {
    if (start === end) return
    const ids = tokenizer.encode(text.slice(start, end), {
      parseSpecial: true,
      barriers: barriers.map((barrier) => barrier - start).filter((barrier) => barrier > 0 && barrier < end - start),
      after: tokenIds.at(-1),
    })
    for (const id of ids) {
      tokenIds.push(id)
      trained.push(isTrained)
    }
  }
  let position = 0
  for (const { start, end } of spans) {
    append(position, start, 0)
    append(start, end, 1)
    position = end
  }
  append(position, text.length, 0)
  return { tokenIds, mask: Uint8Array.from(trained) }
}
