/**
 * Free text that is held to a grammar only from a trigger on (the mark where a tool call begins). No mask is made before it, so free
 * text costs no more than without a grammar.
 *
 * Until then the grammar is not told of tokens and stays at its beginning, where free text would leave it anyway; it is told only once
 * the text ends in what may become a trigger, or after one. Where the vocabulary has tokens that hold a trigger and more, masks are
 * made everywhere.
 */
import { maxOf } from '#base/util/lists.js'
import { longestPrefixAtEnd } from '#formats/answers/calls/call-format.js'
import type { TokenMask } from '../engine/sampling/token-mask.js'
import type { TextTrigger } from './grammar-spec.js'
import type { TokenTable } from './token-table.js'

const REASONING_OPEN = '<think>'
const REASONING_CLOSE = '</think>'

/** What tokens say, in a vocabulary; and whether one of them holds a trigger and more. */
export interface TriggerVocabulary {
  textOf(id: number): string
  readonly mayOverrun: boolean
}

export function readTriggers({ texts }: TextTrigger, { offsets, bytes, controls }: TokenTable): TriggerVocabulary {
  const starts = new Uint32Array(offsets)
  // the bytes of all tokens in a row
  const all = Buffer.from(bytes)
  const mayOverrun = texts.some((text) => {
    const mark = Buffer.from(text)
    for (let at = all.indexOf(mark); at >= 0; at = all.indexOf(mark, at + 1))
      if (at + mark.length < endOfToken(starts, at)) return true
    return false
  })
  return {
    textOf: (id) => controls.get(id) ?? all.toString('utf8', starts[id], starts[id + 1]),
    mayOverrun,
  }
}

/** Where the token ends that has the byte at `at`: the first start behind it. */
function endOfToken(starts: Uint32Array, at: number): number {
  let low = 0
  let high = starts.length - 1
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((starts[middle] ?? 0) > at) high = middle
    else low = middle + 1
  }
  return starts[low] ?? 0
}

/** @param followed the grammar's mask of one choice */
export function triggeredMask(
  followed: TokenMask,
  trigger: TextTrigger,
  { textOf, mayOverrun }: TriggerVocabulary,
): TokenMask {
  const reasoning = trigger.isAfterReasoning ? new ReasoningGate() : null
  /** The end of the text that may become a trigger; where triggers count at the beginning only, the whole text. */
  let tail = ''
  let state: 'free' | 'begun' | 'held' | 'off' = 'free'
  const isFollowed = (): boolean =>
    state === 'begun' || state === 'held' || (mayOverrun && state === 'free' && reasoning?.isOpen !== true)

  function stateAfter(text: string): typeof state {
    tail = reasoning?.hasBegun === true ? text : tail + text
    if (trigger.isAtBeginning) {
      const begun = tail.trimStart()
      if (trigger.texts.some((mark) => begun.startsWith(mark))) return 'held'
      if (trigger.texts.some((mark) => mark.startsWith(begun))) return begun === '' ? 'free' : 'begun'
      return reasoning?.isUndecided === true ? 'free' : 'off'
    }
    if (trigger.texts.some((mark) => tail.includes(mark))) return 'held'
    tail = tail.slice(tail.length - maxOf(trigger.texts.map((mark) => longestPrefixAtEnd(tail, mark))))
    return tail === '' ? 'free' : 'begun'
  }

  return {
    get isFree() {
      return !isFollowed()
    },
    ready: () => (isFollowed() ? (followed.ready?.() ?? null) : null),
    next: () => (isFollowed() ? followed.next() : null),
    accept: (tokenId) => {
      if (state === 'held' || state === 'off') return state === 'held' ? followed.accept(tokenId) : undefined
      const wasBegun = state === 'begun'
      const text = textOf(tokenId)
      state = stateAfter(reasoning === null ? text : reasoning.push(text))
      // one that may have begun and did not is told as well: the grammar stands where it began again
      if (wasBegun || state === 'begun' || state === 'held') followed.accept(tokenId)
    },
  }
}

/** Leaves out the reasoning that an answer may begin with, as `ReasoningStream` does. */
class ReasoningGate {
  #state: 'undecided' | 'open' | 'over' = 'undecided'
  #text = ''
  /** This token began the reasoning, or ended it: what was read before does not count. */
  hasBegun = false

  get isUndecided(): boolean {
    return this.#state === 'undecided'
  }

  get isOpen(): boolean {
    return this.#state === 'open'
  }

  /** @returns what of the text is no reasoning, or may be none */
  push(text: string): string {
    this.hasBegun = false
    if (this.#state === 'over') return text
    this.#text += text
    if (this.#state === 'undecided') {
      const begun = this.#text.trimStart()
      if (!begun.startsWith(REASONING_OPEN)) {
        if (!REASONING_OPEN.startsWith(begun)) this.#state = 'over'
        return text
      }
      this.#state = 'open'
      this.#text = begun.slice(REASONING_OPEN.length)
    }
    this.hasBegun = true
    const at = this.#text.indexOf(REASONING_CLOSE)
    if (at < 0) {
      this.#text = this.#text.slice(-REASONING_CLOSE.length)
      return ''
    }
    this.#state = 'over'
    return this.#text.slice(at + REASONING_CLOSE.length)
  }
}
