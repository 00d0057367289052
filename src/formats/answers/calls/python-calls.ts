/**
 * Calls as Python writes them: `[get_weather(city="Rome"), now()]`, the whole answer for Llama 3.2 and 4, between marks for LFM2, in
 * `<code>` for SmolLM3's Python tools; and Gemma 4's and FunctionGemma's calls, which have the same literals with other quotation marks.
 */
import { type BlockMarks, createBlockCalls } from './block-calls.js'
import type {
  AnswerPiece,
  CallFormat,
  OfferedTools,
  ToolCallPiece,
  ToolCallStream,
  WrittenCall,
} from './call-format.js'
import { hermes } from './json-calls.js'
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

/** Its template shows tools of two kinds: those of JSON are called in Hermes' form, those of Python in `<code>f(a="b")</code>`. */
export const smollm3: CallFormat = {
  isShownBy: (template) => template.includes('python_tools') && template.includes('<code>'),
  createStream: (tools) => new SmolLmCalls(tools),
  frame: hermes.frame === null ? null : { ...hermes.frame, readAs: 'hermes' },
}

/** Reads what is no call in JSON once more, for calls in Python. */
class SmolLmCalls implements ToolCallStream {
  readonly #json: ToolCallStream
  readonly #python: ToolCallStream
  /** Positions in the answer of the calls of each reader. */
  readonly #places: { readonly json: number[]; readonly python: number[] } = { json: [], python: [] }
  #count = 0

  constructor(tools: OfferedTools) {
    this.#json = hermes.createStream(tools)
    this.#python = createBlockCalls({ open: '<code>', close: '</code>' }, readPythonCalls, tools)
  }

  get callCount(): number {
    return this.#json.callCount + this.#python.callCount
  }

  get isMalformed(): boolean {
    return this.#json.isMalformed || this.#python.isMalformed
  }

  get isOpen(): boolean {
    return this.#json.isOpen
  }

  push(text: string): AnswerPiece {
    return this.#join(this.#json.push(text), (content) => this.#python.push(content))
  }

  end(): AnswerPiece {
    const last = this.#join(this.#json.end(), (content) => this.#python.push(content))
    const rest = this.#join({ content: '', calls: [] }, () => this.#python.end())
    return { content: last.content + rest.content, calls: [...last.calls, ...rest.calls] }
  }

  /** Content comes before the calls behind it, so its own calls do too. */
  #join({ content, calls }: AnswerPiece, read: (content: string) => AnswerPiece): AnswerPiece {
    const python = read(content)
    const placed = (kind: 'json' | 'python', piece: ToolCallPiece): ToolCallPiece => {
      this.#places[kind][piece.index] ??= this.#count++
      return { ...piece, index: this.#places[kind][piece.index] ?? 0 }
    }
    return {
      content: python.content,
      calls: [...python.calls.map((piece) => placed('python', piece)), ...calls.map((piece) => placed('json', piece))],
    }
  }
}

/** `<|tool_call>call:weather{city:<|"|>Rome<|"|>}<tool_call|>` */
export const gemma4 = gemmaCalls({ open: '<|tool_call>', close: '<tool_call|>', quote: '<|"|>' })

/** `<start_function_call>call:weather{city:<escape>Rome<escape>}<end_function_call>`, of Gemma's model for calls. */
export const functionGemma = gemmaCalls({
  open: '<start_function_call>',
  close: '<end_function_call>',
  quote: '<escape>',
})

function gemmaCalls({ quote, ...marks }: BlockMarks & { readonly quote: string }): CallFormat {
  const read = (block: string): readonly WrittenCall[] | null => readGemmaCall(block, quote)
  return {
    isShownBy: (template) => template.includes(marks.open) && template.includes('call:'),
    createStream: (tools) => createBlockCalls(marks, read, tools),
    frame: null,
  }
}

function readGemmaCall(block: string, quote: string): readonly WrittenCall[] | null {
  return readLiteral(() => {
    const reader = new LiteralReader(block, { quotes: [quote], hasBareKeys: true })
    reader.expect('call:')
    const name = reader.name()
    reader.expect('{')
    const given = reader.mapping(1)
    return reader.isAtEnd ? [{ name, arguments: given }] : null
  })
}
