/**
 * Tool calls in an answer while it is written: text in, content and pieces of calls out.
 *
 * Where text could still become the mark of a call, or a call of a tool, it is held back. What turns out to be none is content; what was
 * shown as a call stays one, however it goes on. So all pieces together are the same wherever the text is cut.
 */
import type { ToolFormat } from './answer-format.js'
import { type CallProgress, CallReader } from './call-reader.js'

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

/** How a model writes calls of its own accord, or `list`: a JSON list, to which required calls are held. */
export type StreamFormat = ToolFormat | 'list'

/** Marks around calls: `open` once or before each, `close` after each where there is one. */
const MARKS: Readonly<Record<StreamFormat, { readonly open: string; readonly close: string | null }>> = {
  hermes: { open: '<tool_call>', close: '</tool_call>' },
  list: { open: '[', close: null },
  mistral: { open: '[TOOL_CALLS]', close: null },
  // the answer begins with the object itself
  llama3_json: { open: '', close: null },
}

/** @param isTool whether a call of this name is one; what names no tool is text */
export function createToolCallStream(format: StreamFormat, isTool: (name: string) => boolean): ToolCallStream {
  return new MarkedCalls(MARKS[format], isTool)
}

class MarkedCalls implements ToolCallStream {
  readonly #marks: { readonly open: string; readonly close: string | null }
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

  constructor(marks: { readonly open: string; readonly close: string | null }, isTool: (name: string) => boolean) {
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

/** Length of the longest end of the text that begins the mark. */
function longestPrefixAtEnd(text: string, mark: string): number {
  for (let length = Math.min(mark.length - 1, text.length); length > 0; length--) {
    if (text.endsWith(mark.slice(0, length))) return length
  }
  return 0
}
