/**
 * The text of one choice, taken apart while it comes: reasoning, content, tool calls. A whole answer is what its stream has shown, but
 * for a call that the budget cut off, in the model's own words: arguments keep their spacing, order and numbers.
 *
 * Token ids and log-probabilities are not touched: they belong to the step that made them, whatever its text became.
 */

import type { JsonObject } from '#base/util/json.js'
import { ReasoningStream } from '#formats/answers/reasoning-stream.js'
import {
  createToolCallStream,
  createWholeCallStream,
  type OfferedTools,
  type StreamFormat,
  type ToolCallPiece,
  type ToolCallStream,
} from '#formats/answers/tool-call-stream.js'
import type { AnswerFormat } from '#inference/host/protocol.js'

/** What becomes of calls in an answer. */
export type ToolMode =
  | { readonly kind: 'none' }
  | {
      readonly kind: 'auto'
      readonly isParallel: boolean
      readonly names: readonly string[]
      /** The schemas of their parameters, by name. */
      readonly parameters?: ReadonlyMap<string, JsonObject>
      /** Of calls, where it is another than the model's own. */
      readonly form?: StreamFormat
      /** The whole answer is either calls, which begin so, or text. */
      readonly whole?: { readonly opening: string }
    }
  /** The whole answer is a JSON list of calls. */
  | { readonly kind: 'required'; readonly isParallel: boolean; readonly names: readonly string[] }
  /** The whole answer is the arguments of this function. */
  | { readonly kind: 'named'; readonly name: string }

export interface TextPiece {
  readonly reasoning: string
  readonly content: string
  readonly calls: readonly ToolCallPiece[]
}

export interface WholeText {
  readonly reasoning: string | null
  readonly content: string | null
  readonly calls: readonly { readonly name: string; readonly arguments: string }[]
}

export class AnswerText {
  readonly #mode: ToolMode
  readonly #reasoningStream: ReasoningStream | null
  readonly #toolStream: ToolCallStream | null
  #reasoning = ''
  #content = ''
  /** What the tool stream read: everything is content again if the budget cuts a call off. */
  #read = ''
  readonly #calls: { name: string; arguments: string }[] = []

  constructor(mode: ToolMode, format: AnswerFormat, isReasoningOpen: boolean) {
    this.#mode = mode
    this.#reasoningStream = format.hasReasoning || isReasoningOpen ? new ReasoningStream(isReasoningOpen) : null
    this.#toolStream = createStream(mode, format)
  }

  push(text: string): TextPiece {
    const { reasoning, content } = this.#reasoningStream?.push(text) ?? { reasoning: '', content: text }
    return this.#add(reasoning, this.#readContent(content))
  }

  /** What was held back, when the choice is over. */
  end(): TextPiece {
    const { reasoning, content } = this.#reasoningStream?.end() ?? { reasoning: '', content: '' }
    const last = this.#readContent(content)
    const held = this.#toolStream?.end() ?? { content: '', calls: [] }
    return this.#add(reasoning, { content: last.content + held.content, calls: [...last.calls, ...held.calls] })
  }

  /** What a stream has shown. */
  shown(): WholeText {
    return { reasoning: this.#reasoning, content: this.#content, calls: this.#calls }
  }

  get callCount(): number {
    return this.#wholeCalls().length
  }

  /** @param isCut the answer ended before the model ended it: a call that is open then is none, though a stream has shown it */
  whole(isCut = false): WholeText {
    const reasoning = this.#reasoning === '' ? null : this.#reasoning
    if (this.#mode.kind === 'named') return { reasoning, content: '', calls: this.#calls }
    const calls = this.#wholeCalls()
    if (this.#mode.kind === 'required') return { reasoning, content: calls.length > 0 ? null : '', calls }
    if (isCut && this.#toolStream?.isOpen === true) return { reasoning, content: this.#read, calls: [] }
    const isEmpty = this.#content.trim() === '' && (calls.length > 0 || reasoning !== null)
    return { reasoning, content: isEmpty ? null : this.#content, calls }
  }

  /** A list that was cut off ends with the last whole call: what a grammar was to hold is not shown half done. */
  #wholeCalls(): readonly { name: string; arguments: string }[] {
    const { kind } = this.#mode
    return kind === 'required' ? this.#calls.slice(0, this.#toolStream?.callCount) : this.#calls
  }

  #readContent(text: string): { content: string; calls: readonly ToolCallPiece[] } {
    if (text === '') return { content: '', calls: [] }
    this.#read += text
    if (this.#mode.kind === 'named') {
      const name = this.#calls.length === 0 ? this.#mode.name : null
      return { content: '', calls: [{ index: 0, name, arguments: text }] }
    }
    return this.#toolStream?.push(text) ?? { content: text, calls: [] }
  }

  #add(reasoning: string, part: { content: string; calls: readonly ToolCallPiece[] }): TextPiece {
    const isSingle = (this.#mode.kind === 'auto' || this.#mode.kind === 'required') && !this.#mode.isParallel
    const calls = isSingle ? part.calls.filter((call) => call.index === 0) : part.calls
    for (const call of calls) {
      if (call.name !== null) this.#calls.push({ name: call.name, arguments: '' })
      const open = this.#calls[call.index]
      if (open !== undefined) open.arguments += call.arguments
    }
    // half a list of calls is no text for anyone
    const content = this.#mode.kind === 'required' ? '' : part.content
    this.#reasoning += reasoning
    this.#content += content
    return { reasoning, content, calls }
  }
}

function createStream(mode: ToolMode, format: AnswerFormat): ToolCallStream | null {
  if (mode.kind !== 'required' && mode.kind !== 'auto') return null
  const tools: OfferedTools = {
    isTool: (name) => mode.names.includes(name),
    parametersOf: (name) => (mode.kind === 'auto' ? (mode.parameters?.get(name) ?? null) : null),
  }
  if (mode.kind === 'required') return createToolCallStream('list', tools)
  const form = mode.form ?? format.toolFormat
  if (form === null) return null
  const stream = createToolCallStream(form, tools)
  return mode.whole === undefined ? stream : createWholeCallStream(stream, mode.whole.opening)
}
