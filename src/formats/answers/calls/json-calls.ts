/**
 * Calls written as JSON objects with a name and arguments, between marks or alone, given on while they are written.
 *
 * Where text could still become the mark of a call, or a call of a tool, it is held back. What turns out to be none is content; what was
 * shown as a call stays one, however it goes on. So all pieces together are the same wherever the text is cut.
 */
import {
  type AnswerPiece,
  type CallFormat,
  type CallFrame,
  longestPrefixAtEnd,
  type OfferedTools,
  type ToolCallPiece,
  type ToolCallStream,
} from './call-format.js'
import { type CallProgress, CallReader } from './call-reader.js'

/** Marks around calls: `open` once or before each, `close` after each where there is one. */
interface Marks {
  readonly open: string
  readonly close: string | null
}

const format = (marks: Marks, isShownBy: (template: string) => boolean, frame: CallFrame): CallFormat => ({
  isShownBy,
  createStream: (tools) => createJsonCalls(marks, tools),
  frame,
})

const head = (name: string, key: string): string => `{"name": ${JSON.stringify(name)}, "${key}": `

/** Calls in a JSON list behind a mark. */
const listFrame = (trigger: string, close: string, key = 'arguments'): CallFrame => ({
  trigger,
  open: `${trigger}[`,
  close,
  before: (name) => head(name, key),
  after: '}',
  separator: ', ',
})

/** `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, repeated: Hermes, Qwen 2.5 and 3, SmolLM2 and 3, Granite 4, spark. */
export const hermes = format(
  { open: '<tool_call>', close: '</tool_call>' },
  (template) => template.includes('<tool_call>') && !template.includes('<invoke'),
  {
    open: '<tool_call>\n{"name": ',
    close: '}\n</tool_call>',
    before: (name) => `${JSON.stringify(name)}, "arguments": `,
    after: '',
    separator: '}\n</tool_call>\n<tool_call>\n{"name": ',
    trigger: '<tool_call>',
  },
)

/** The whole answer is `{"name": …, "parameters": {…}}`, several separated by `;`: Llama 3.1 and later. */
export const llama3Json = format(
  // the answer begins with the object itself
  { open: '', close: null },
  (template) =>
    (template.includes('<|python_tag|>') || template.includes('ipython')) && template.includes('parameters'),
  {
    open: '{"name": ',
    close: '}',
    before: (name) => `${JSON.stringify(name)}, "parameters": `,
    after: '',
    separator: '}; {"name": ',
    trigger: '{"name"',
    isTriggerAtBeginning: true,
  },
)

/** `[TOOL_CALLS]` and a JSON list of `{"name": …, "arguments": {…}}`: Mistral up to its tokenizer of version 7. */
export const mistralList = format(
  { open: '[TOOL_CALLS]', close: null },
  (template) => template.includes('[TOOL_CALLS]'),
  listFrame('[TOOL_CALLS]', ']'),
)

/** `<|tool_call|>` and a JSON list: Granite 3. */
export const granite3 = format(
  { open: '<|tool_call|>', close: null },
  (template) => template.includes('<|tool_call|>'),
  listFrame('<|tool_call|>', ']'),
)

/** `<tool_calls>` and a JSON list: Apriel. */
export const apriel = format(
  { open: '<tool_calls>', close: null },
  (template) => template.includes('<tool_calls>['),
  listFrame('<tool_calls>', ']</tool_calls>'),
)

/** A JSON list of calls, which are held to it where they are required, and where a template's own form is not written as JSON. */
export const LIST_FRAME = listFrame('', ']', 'parameters')

/** A JSON list, to which required calls are held. */
export const createCallList = (tools: OfferedTools): ToolCallStream =>
  createJsonCalls({ open: '[', close: null }, tools)

function createJsonCalls(marks: Marks, tools: OfferedTools): ToolCallStream {
  return new MarkedCalls(marks, (name) => tools.isTool(name))
}

class MarkedCalls implements ToolCallStream {
  readonly #marks: Marks
  readonly #isTool: (name: string) => boolean
  /** `opened` is behind a mark, before its object; `text` behind what was no call after all. */
  #state: 'content' | 'opened' | 'call' | 'between' | 'text' = 'content'
  /** Text that is not decided yet. */
  #held = ''
  /** The mark of what may become a call, and what stood before its object: text if it is none. */
  #opening = ''
  #hasContent = false
  #reader: CallReader
  #hasName = false
  /** Calls that were begun, by their name. */
  #begun = 0
  callCount = 0
  isMalformed = false

  constructor(marks: Marks, isTool: (name: string) => boolean) {
    this.#marks = marks
    this.#isTool = isTool
    this.#reader = this.#newReader()
  }

  #newReader(): CallReader {
    return new CallReader(this.#isTool)
  }

  get isOpen(): boolean {
    return this.#hasName
  }

  push(text: string): AnswerPiece {
    const out = { content: '', calls: [] as ToolCallPiece[] }
    let rest: string | null = this.#held + text
    this.#held = ''
    while (rest !== null && rest !== '') {
      if (this.#state === 'content') rest = this.#readContent(rest, out)
      else if (this.#state === 'opened') rest = this.#readOpened(rest, out)
      else if (this.#state === 'call') rest = this.#readCall(rest, out)
      else if (this.#state === 'between') rest = this.#readBetween(rest)
      else {
        out.content += rest
        rest = null
      }
    }
    return out
  }

  end(): AnswerPiece {
    const held = this.#held
    this.#held = ''
    if (this.#state === 'opened' || this.#state === 'call') {
      // an object that was never closed, or none at all
      this.isMalformed = true
      return { content: this.#hasName ? '' : this.#opening + this.#reader.text + held, calls: [] }
    }
    if (this.#state === 'between') return { content: this.#begunBetween(), calls: [] }
    return {
      content:
        this.#state === 'content' && (this.#hasContent || held.trim() !== '' || this.callCount === 0) ? held : '',
      calls: [],
    }
  }

  /** Up to the next mark; the beginning of a mark waits, and so does white space that may stand alone before a call. */
  #readContent(text: string, out: { content: string }): string | null {
    const { open } = this.#marks
    if (open === '') return this.#readUnmarked(text, out)
    const at = text.indexOf(open)
    if (at >= 0) {
      const before = text.slice(0, at)
      const isBlank = !this.#hasContent && before.trim() === ''
      if (!isBlank) this.#give(before, out)
      this.#opening = isBlank ? before + open : open
      this.#state = 'opened'
      return text.slice(at + open.length)
    }
    const heldLength = longestPrefixAtEnd(text, open)
    const shown = text.slice(0, text.length - heldLength)
    if (!this.#hasContent && shown.trim() === '') this.#held = text
    else {
      this.#give(shown, out)
      this.#held = text.slice(shown.length)
    }
    return null
  }

  /** Without a mark a call is an answer that begins with an object. */
  #readUnmarked(text: string, out: { content: string }): string | null {
    const start = text.trimStart()
    if (!this.#hasContent && start === '') {
      this.#held = text
      return null
    }
    if (!this.#hasContent && start.startsWith('{')) {
      this.#state = 'call'
      this.#opening = text.slice(0, text.length - start.length)
      return start
    }
    this.#give(text, out)
    return null
  }

  #give(text: string, out: { content: string }): void {
    if (text === '') return
    this.#hasContent = true
    out.content += text
  }

  /** From a mark to its object. A closing mark, or the end, in its place says that there is no call. */
  #readOpened(text: string, out: { content: string }): string | null {
    const { close } = this.#marks
    const at = text.indexOf('{')
    const closed = close === null ? -1 : text.indexOf(close)
    if (closed >= 0 && (at < 0 || closed < at)) {
      this.#giveUp(out)
      return text
    }
    const heldLength = close === null || at >= 0 ? 0 : longestPrefixAtEnd(text, close)
    const end = at >= 0 ? at : text.length - heldLength
    this.#opening += text.slice(0, end)
    if (at >= 0) {
      this.#state = 'call'
      return text.slice(at)
    }
    this.#held = text.slice(end)
    return null
  }

  /** What was taken for a call is text, and so is all that follows. */
  #giveUp(out: { content: string }): void {
    this.isMalformed = true
    this.#give(this.#opening + this.#reader.text, out)
    this.#state = 'text'
  }

  /** A mark behind the last call, with no object: what stands there is text. */
  #begunBetween(): string {
    const { open, close } = this.#marks
    const at = open === '' || close === null ? -1 : this.#opening.indexOf(open)
    if (at < 0) return ''
    this.isMalformed = true
    return this.#opening.slice(at)
  }

  /** From the end of a call to the next object; anything else between calls is left out. */
  #readBetween(text: string): string | null {
    const at = text.indexOf('{')
    this.#opening += at < 0 ? text : text.slice(0, at)
    if (at < 0) return null
    this.#state = 'call'
    const { close } = this.#marks
    const closed = close === null ? -1 : this.#opening.indexOf(close)
    if (close !== null && closed >= 0) this.#opening = this.#opening.slice(closed + close.length)
    return text.slice(at)
  }

  #readCall(text: string, out: { content: string; calls: ToolCallPiece[] }): string | null {
    const progress = this.#reader.push(text)
    this.#report(progress, out)
    if (progress.rest === null) return null
    if (!progress.isCall) {
      this.#giveUp(out)
      return progress.rest
    }
    this.callCount++
    this.#state = 'between'
    this.#opening = ''
    this.#reader = this.#newReader()
    this.#hasName = false
    return progress.rest
  }

  #report({ name, arguments: given }: CallProgress, out: { calls: ToolCallPiece[] }): void {
    if (name !== null) {
      this.#hasName = true
      this.#begun++
    }
    if (name === null && given === '') return
    out.calls.push({ index: this.#begun - 1, name, arguments: given })
  }
}
