/**
 * Conversations to training examples: token ids and a mask over what the assistant wrote.
 *
 * What trains is what a chat without further settings must generate: `asked-turns.ts`. Deviation from ART, which renders with
 * `enable_thinking` false: this server's chats do so only when they say it. Every turn is tokenized apart, as at inference, where the prompt
 * is tokenized before anything is generated.
 */
import { DataError } from '#base/errors/errors.js'
import type { JsonObject, JsonValue } from '#base/util/json.js'
import { askedTexts } from './asked-turns.js'
import { isAssistant, type TurnSpan } from './assistant-turns.js'
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
  /** Template variables, as `chat_template_kwargs` of the chat that asks for the turns. */
  readonly kwargs?: JsonObject | null | undefined
}

/** A sequence to train on. */
export interface MaskedSequence {
  readonly tokenIds: number[]
  /** 1 on tokens of assistant turns including their end-of-turn token, 0 elsewhere; as long as `tokenIds`. */
  readonly mask: Uint8Array
}

/** What a conversation trains. */
export interface MaskedTurns {
  readonly sequences: readonly MaskedSequence[]
  /** The messages that the template leaves out, as people are told of them. */
  readonly leftOut: readonly string[]
}

export type MaskedTokens = MaskedSequence & Pick<MaskedTurns, 'leftOut'>

/**
 * Renders a conversation as chats ask for its turns, and marks what must be generated.
 *
 * @returns one sequence, or several where the template writes a turn otherwise once the conversation goes on; without any assistant
 *   message the mask is all 0
 * @throws {DataError} `last_message_not_assistant` with `assistantTurns: 'last'`; `assistant_turn_not_found` when the
 *   template writes a turn in a way that cannot be located
 * @throws {InvalidRequestError} as `renderConversation`
 */
export function renderTurns(model: TextModel, conversation: MaskedConversation): MaskedTurns {
  const template = chatTemplateOf(model)
  const { messages, tools, kwargs, assistantTurns = 'all' } = conversation
  const renderMessages = (some: readonly JsonValue[], addGenerationPrompt: boolean): BarredText =>
    template.render({ messages: some, tools, kwargs, addGenerationPrompt })
  const turns = assistantIndices(messages, assistantTurns)
  const texts = askedTexts(messages, turns, {
    model,
    whole: renderMessages(messages, false),
    render: (count, addGenerationPrompt) => renderMessages(messages.slice(0, count), addGenerationPrompt),
    renderOther: (some, addGenerationPrompt) => renderMessages(some, addGenerationPrompt).text,
  })
  return {
    sequences: texts.map(({ rendered, spans }) => tokenize(model, rendered, spans)),
    leftOut: leftOutOf(model, messages, { tools, kwargs }),
  }
}

/**
 * The same of a conversation that is one sequence.
 *
 * @throws {DataError} `several_sequences` where it takes several; else as `renderTurns`
 */
export function renderWithMask(model: TextModel, conversation: MaskedConversation): MaskedTokens {
  const { sequences, leftOut } = renderTurns(model, conversation)
  const [only] = sequences
  if (only !== undefined && sequences.length === 1) return { ...only, leftOut }
  throw new DataError(
    'several_sequences',
    'the chat template writes earlier answers in another way than the last, so that the answers are not one sequence',
    { param: 'messages', hint: 'give each answer a row of its own' },
  )
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
function tokenize(model: TextModel, { text, barriers }: BarredText, spans: readonly TurnSpan[]): MaskedSequence {
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
