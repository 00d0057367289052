/**
 * What one way of writing tool calls is: found in a template, read while it is written. One file a form, listed in `call-formats.ts`.
 */
import type { JsonObject } from '#base/util/json.js'

/** A piece of a call: the first one of a call has its name. */
export interface ToolCallPiece {
  /** Counts the calls of an answer from 0. */
  readonly index: number
  readonly name: string | null
  readonly arguments: string
}

export interface AnswerPiece {
  readonly content: string
  readonly calls: readonly ToolCallPiece[]
}

/** Tool calls in an answer while it is written: text in, content and pieces of calls out. */
export interface ToolCallStream {
  push(text: string): AnswerPiece
  /** The answer is over: what was held back. */
  end(): AnswerPiece
  /** Something was marked as a call and is none, or was cut off. */
  readonly isMalformed: boolean
  /** A call that was shown has not come to its end. */
  readonly isOpen: boolean
  /** Calls that have come to their end. */
  readonly callCount: number
}

/** The tools of a request. */
export interface OfferedTools {
  /** Whether a call of this name is one: what names no tool is text. */
  isTool(name: string): boolean
  /** The schema of a tool's parameters, which tells texts from numbers where a form writes both alike. */
  parametersOf(name: string): JsonObject | null
}

/** A call, its arguments as JSON text. */
export interface WrittenCall {
  readonly name: string
  readonly arguments: string
}

/** How calls are written around their arguments, where those are JSON: what a grammar can hold them to. */
export interface CallFrame {
  /** Before the first call and behind the last. */
  readonly open: string
  readonly close: string
  /** Around the arguments of one. */
  readonly before: (name: string) => string
  readonly after: string
  /** Between two; null where a grammar has one call an answer, since nothing ends the last. */
  readonly separator: string | null
  /** The mark that makes a call of what follows it, wherever it stands in an answer. */
  readonly trigger: string
  /** It counts at the beginning of an answer only. */
  readonly isTriggerAtBeginning?: true
  /** The form whose reader reads these calls, where the form's own reads others besides. */
  readonly readAs?: 'hermes'
}

export interface CallFormat {
  /** Whether a template shows the model its earlier calls, or asks for calls, in this form. */
  isShownBy(template: string): boolean
  createStream(tools: OfferedTools): ToolCallStream
  /** Null where arguments are not written as JSON. */
  readonly frame: CallFrame | null
}

/** Length of the longest end of the text that begins the mark. */
export function longestPrefixAtEnd(text: string, mark: string): number {
  for (let length = Math.min(mark.length - 1, text.length); length > 0; length--) {
    if (text.endsWith(mark.slice(0, length))) return length
  }
  return 0
}
