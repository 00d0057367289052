/**
 * Reasoning and answer apart, while they are written: what stands between `<think>` and `</think>` is reasoning.
 */

export interface ReasoningPiece {
  readonly reasoning: string
  readonly content: string
}

const OPEN = '<think>'
const CLOSE = '</think>'

/** Reads one answer. */
export class ReasoningStream {
  #state: 'start' | 'reasoning' | 'content'
  #held = ''

  /** @param isOpen the prompt ended with an open block, so the answer begins inside it */
  constructor(isOpen: boolean) {
    this.#state = isOpen ? 'reasoning' : 'start'
  }

  push(text: string): ReasoningPiece {
    const all = this.#held + text
    this.#held = ''
    if (this.#state === 'content') return { reasoning: '', content: all }
    if (this.#state === 'start') {
      const begun = all.trimStart()
      if (OPEN.startsWith(begun.slice(0, OPEN.length)) && begun.length < OPEN.length) {
        this.#held = all
        return { reasoning: '', content: '' }
      }
      if (!begun.startsWith(OPEN)) {
        this.#state = 'content'
        return { reasoning: '', content: all }
      }
      this.#state = 'reasoning'
      return this.#readReasoning(begun.slice(OPEN.length))
    }
    // a model may repeat the mark that its prompt ended with
    return this.#readReasoning(all)
  }

  end(): ReasoningPiece {
    const held = this.#held
    this.#held = ''
    return this.#state === 'reasoning' ? { reasoning: held, content: '' } : { reasoning: '', content: held }
  }

  #readReasoning(text: string): ReasoningPiece {
    const at = text.indexOf(CLOSE)
    if (at >= 0) {
      this.#state = 'content'
      return { reasoning: text.slice(0, at), content: text.slice(at + CLOSE.length) }
    }
    let length = Math.min(CLOSE.length - 1, text.length)
    while (length > 0 && !text.endsWith(CLOSE.slice(0, length))) length--
    this.#held = text.slice(text.length - length)
    return { reasoning: text.slice(0, text.length - length), content: '' }
  }
}
