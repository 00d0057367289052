/**
 * Calls as Python writes them: `[get_weather(city="Rome"), now()]`, the whole answer for Llama 3.2 and 4, between marks for LFM2, in
 * `<code>` for SmolLM3's Python tools; and Gemma 4's calls, which have the same literals with other quotation marks.
 */
import { createBlockCalls } from './block-calls.js'
import type { AnswerPiece, CallFormat, OfferedTools, ToolCallStream, WrittenCall } from './call-format.js'
import { LiteralReader, readLiteral, readPythonCalls } from './python-literals.js'

export const lfm2: CallFormat = {
  isShownBy: (template) => template.includes('<|tool_call_start|>') || template.includes('<|tool_list_start|>'),
  createStream: (tools) =>
    createBlockCalls({ open: '<|tool_call_start|>', close: '<|tool_call_end|>' }, readPythonCalls, tools),
  frame: null,
}

/** Llama 3.2's and 4's list of calls is the whole answer. */
export const pythonic: CallFormat = {
  isShownBy: (template) => /\[\s*func_name1\(/.test(template) || template.includes('<|python_start|>'),
  createStream: (tools) => new UnmarkedCalls(tools),
  frame: null,
}

const BEGUN = /^\s*(<\|python_start\|>)?\s*(\[\s*([\p{L}_][\p{L}\p{N}_.-]*\s*(\([\s\S]*)?)?)?$/u

/** An answer that may yet be a list of calls is held back; it is read when it is over. */
class UnmarkedCalls implements ToolCallStream {
  readonly #tools: OfferedTools
  #held = ''
  #isText = false
  callCount = 0
  isMalformed = false
  readonly isOpen = false

  constructor(tools: OfferedTools) {
    this.#tools = tools
  }

  push(text: string): AnswerPiece {
    if (this.#isText) return { content: text, calls: [] }
    this.#held += text
    if (BEGUN.test(this.#held) || '<|python_start|>'.startsWith(this.#held.trim())) return { content: '', calls: [] }
    this.#isText = true
    return this.#giveHeld()
  }

  end(): AnswerPiece {
    const calls = readPythonCalls(this.#held.replace(/^\s*<\|python_start\|>|<\|python_end\|>\s*$/g, ''))
    const isList = calls !== null && calls.length > 0 && calls.every(({ name }) => this.#tools.isTool(name))
    if (this.#isText || !isList) {
      this.isMalformed = !this.#isText && this.#held.includes('[')
      return this.#giveHeld()
    }
    this.callCount = calls.length
    return { content: '', calls: calls.map((call, index) => ({ index, ...call })) }
  }

  #giveHeld(): AnswerPiece {
    const content = this.#held
    this.#held = ''
    return { content, calls: [] }
  }
}

const GEMMA = { quotes: ['<|"|>'], hasBareKeys: true }

/** `<|tool_call>call:weather{city:<|"|>Rome<|"|>}<tool_call|>` */
export const gemma4: CallFormat = {
  isShownBy: (template) => template.includes('<|tool_call>') && template.includes('call:'),
  createStream: (tools) => createBlockCalls({ open: '<|tool_call>', close: '<tool_call|>' }, readGemmaCall, tools),
  frame: null,
}

function readGemmaCall(block: string): readonly WrittenCall[] | null {
  return readLiteral(() => {
    const reader = new LiteralReader(block, GEMMA)
    reader.expect('call:')
    const name = reader.name()
    reader.expect('{')
    const given = reader.mapping(1)
    return reader.isAtEnd ? [{ name, arguments: given }] : null
  })
}
