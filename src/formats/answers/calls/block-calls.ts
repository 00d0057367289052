/**
 * Calls between two marks whose inside is no JSON: a block is held back until it ends and then read whole, so that its calls are the same
 * wherever the text is cut. What is no call is content, with its marks; text between and behind calls is left out, as for calls in JSON.
 */
import type { AnswerPiece, OfferedTools, ToolCallStream, WrittenCall } from './call-format.js'
import { longestPrefixAtEnd } from './call-format.js'

export interface BlockMarks {
  readonly open: string
  /** Empty: the block goes on to the end of the answer, or to the next opening mark. */
  readonly close: string
}

/** @returns null for what is no call of a tool */
export type BlockReader = (block: string, tools: OfferedTools) => readonly WrittenCall[] | null

export function createBlockCalls(marks: BlockMarks, read: BlockReader, tools: OfferedTools): ToolCallStream {
  return new BlockCalls(marks, read, tools)
}

class BlockCalls implements ToolCallStream {
  readonly #marks: BlockMarks
  readonly #read: BlockReader
  readonly #tools: OfferedTools
  /** `text` behind what was no call after all. */
  #state: 'content' | 'block' | 'between' | 'text' = 'content'
  #held = ''
  /** White space before a block that may stand alone before a call. */
  #before = ''
  #hasContent = false
  callCount = 0
  isMalformed = false
  /** No call is shown before its end. */
  readonly isOpen = false

  constructor(marks: BlockMarks, read: BlockReader, tools: OfferedTools) {
    this.#marks = marks
    this.#read = read
    this.#tools = tools
  }

  push(text: string): AnswerPiece {
    const out: { content: string; calls: AnswerPiece['calls'][number][] } = { content: '', calls: [] }
    this.#held += text
    while (this.#step(out));
    return out
  }

  end(): AnswerPiece {
    const out: { content: string; calls: AnswerPiece['calls'][number][] } = { content: '', calls: [] }
    const held = this.#held
    this.#held = ''
    if (this.#state === 'block') this.#finish(held, '', out)
    else if (this.#state === 'text') out.content = held
    else if (this.#state === 'content' && (this.#hasContent || held.trim() !== '' || this.callCount === 0)) {
      out.content = held
    }
    return out
  }

  /** @returns whether there is more to do */
  #step(out: { content: string; calls: AnswerPiece['calls'][number][] }): boolean {
    if (this.#state === 'text') {
      out.content += this.#held
      this.#held = ''
      return false
    }
    return this.#state === 'block' ? this.#stepBlock(out) : this.#stepOutside(out)
  }

  #stepOutside(out: { content: string }): boolean {
    const { open } = this.#marks
    const at = this.#held.indexOf(open)
    const end = at >= 0 ? at : this.#held.length - longestPrefixAtEnd(this.#held, open)
    const shown = this.#held.slice(0, end)
    const isBlank = !this.#hasContent && shown.trim() === ''
    if (this.#state === 'content' && !isBlank) {
      this.#hasContent = true
      out.content += shown
    }
    if (at < 0) {
      if (this.#state === 'between' || !isBlank) this.#held = this.#held.slice(end)
      return false
    }
    this.#before = this.#state === 'content' && isBlank ? shown : ''
    this.#held = this.#held.slice(at + open.length)
    this.#state = 'block'
    return true
  }

  #stepBlock(out: { content: string; calls: AnswerPiece['calls'][number][] }): boolean {
    const { open, close } = this.#marks
    const mark = close === '' ? open : close
    const at = this.#held.indexOf(mark)
    if (at < 0) return false
    const block = this.#held.slice(0, at)
    this.#held = this.#held.slice(close === '' ? at : at + mark.length)
    this.#finish(block, close, out)
    return true
  }

  #finish(block: string, close: string, out: { content: string; calls: AnswerPiece['calls'][number][] }): void {
    const calls = this.#read(block, this.#tools)
    if (calls === null || calls.length === 0 || !calls.every(({ name }) => this.#tools.isTool(name))) {
      this.isMalformed = true
      this.#state = 'text'
      out.content += this.#before + this.#marks.open + block + close
      return
    }
    for (const { name, arguments: given } of calls) {
      out.calls.push({ index: this.callCount, name, arguments: given })
      this.callCount++
    }
    this.#state = 'between'
  }
}
