/**
 * Reads tool calls from an answer while it is written. Picks the reader by the name of the form, so that callers know
 * no form.
 */
import type { AnswerPiece, OfferedTools, ToolCallStream } from './calls/call-format.js'
import { CALL_FORMATS, type ToolFormat } from './calls/call-formats.js'
import { createCallList } from './calls/json-calls.js'

export type { OfferedTools, ToolCallPiece, ToolCallStream } from './calls/call-format.js'

/** How a model writes calls of its own accord, or `list`: a JSON list, to which required calls are held. */
export type StreamFormat = ToolFormat | 'list'

export function createToolCallStream(format: StreamFormat, tools: OfferedTools): ToolCallStream {
  return format === 'list' ? createCallList(tools) : CALL_FORMATS[format].createStream(tools)
}

/**
 * Calls that are the whole answer, or none: an answer that begins otherwise is text to its end, marks of calls in it too.
 *
 * @param opening what calls begin with; empty where only the reader can tell
 */
export function createWholeCallStream(calls: ToolCallStream, opening: string): ToolCallStream {
  let held = ''
  let isText: boolean | null = opening === '' ? false : null
  return {
    push: (text): AnswerPiece => {
      if (isText === true) return { content: text, calls: [] }
      if (isText === false) return calls.push(text)
      held += text
      const start = held.trimStart()
      if (start.length < opening.length && opening.startsWith(start)) return { content: '', calls: [] }
      isText = !start.startsWith(opening)
      const all = held
      held = ''
      return isText ? { content: all, calls: [] } : calls.push(all)
    },
    end: () => (isText === false ? calls.end() : { content: held, calls: [] }),
    get isMalformed() {
      return calls.isMalformed
    },
    get isOpen() {
      return calls.isOpen
    },
    get callCount() {
      return calls.callCount
    },
  }
}
