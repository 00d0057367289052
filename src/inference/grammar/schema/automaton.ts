/**
 * Regular expressions as automata: states that some moves lead between, and sets of states (Hopcroft, Motwani and Ullman,
 * "Introduction to Automata Theory", 2.3).
 */
import { checkHeap } from '../heap-limit.js'
import type { CodeRange } from './character-class.js'
import { patternToEbnf } from './pattern-writer.js'

const MAX_STATES = 20_000

/** The automaton would be too large to work with. */
export class TooManyStates extends Error {}

export interface Move {
  readonly ranges: readonly CodeRange[]
  readonly to: number
}

/** An expression as states, some of which lead on without a character (Thompson's construction). */
export class Automaton {
  readonly moves: Move[][] = [[]]
  readonly #free: number[][] = [[]]
  readonly #end: number
  readonly #ranges: (readonly CodeRange[])[] = []
  #text: string
  #at = 0

  constructor(pattern: string) {
    this.#text = patternToEbnf(pattern, (ranges) => `<${this.#ranges.push(ranges) - 1}>`)
    this.#end = this.#alternatives(0)
  }

  /** The states that these lead to without a character, sorted. */
  closure(states: readonly number[]): number[] {
    const found = new Set(states)
    for (const state of found) for (const next of this.#free[state] ?? []) found.add(next)
    return [...found].sort((a, b) => a - b)
  }

  isEnd(states: readonly number[]): boolean {
    return states.includes(this.#end)
  }

  after(states: readonly number[], code: number): number[] {
    const has = ({ ranges }: Move): boolean => ranges.some(([from, to]) => from <= code && code <= to)
    return this.closure(states.flatMap((state) => (this.moves[state] ?? []).filter(has).map(({ to }) => to)))
  }

  #state(): number {
    if (this.moves.length >= MAX_STATES) throw new TooManyStates()
    checkHeap()
    this.#free.push([])
    return this.moves.push([]) - 1
  }

  #link(from: number, to: number): void {
    this.#free[from]?.push(to)
  }

  /** Each part of the expression's text adds its states behind one, and returns where it ends. */
  #alternatives(from: number): number {
    const end = this.#state()
    do {
      const start = this.#state()
      this.#link(from, start)
      this.#link(this.#sequence(start), end)
    } while (this.#takes(' | '))
    return end
  }

  #sequence(from: number): number {
    if (this.#takes('""')) return from
    let at = this.#part(from)
    while (!this.#text.startsWith(' | ', this.#at) && this.#takes(' ')) at = this.#part(at)
    return at
  }

  /** An atom is read once for every time it is repeated. */
  #part(from: number): number {
    const start = this.#at
    this.#skipAtom()
    const [least, most] = this.#quantifier()
    const end = this.#at
    let at = from
    const repeat = (): void => {
      this.#at = start
      at = this.#atom(at)
    }
    for (let count = 0; count < least; count++) repeat()
    if (most === null) {
      const loop = this.#state()
      this.#link(at, loop)
      at = loop
      repeat()
      this.#link(at, loop)
      at = loop
    } else {
      const last = this.#state()
      this.#link(at, last)
      for (let count = least; count < most; count++) {
        repeat()
        this.#link(at, last)
      }
      at = last
    }
    this.#at = end
    return at
  }

  #atom(from: number): number {
    if (this.#takes('(')) {
      const end = this.#alternatives(from)
      this.#takes(')')
      return end
    }
    const [whole = '', index] = /^<(\d+)>/.exec(this.#text.slice(this.#at, this.#at + 12)) ?? []
    this.#at += whole.length
    const to = this.#state()
    this.moves[from]?.push({ ranges: this.#ranges[Number(index)] ?? [], to })
    return to
  }

  #skipAtom(): void {
    let depth = 0
    do {
      const character = this.#text[this.#at]
      if (character === '<') this.#at = this.#text.indexOf('>', this.#at)
      else depth += character === '(' ? 1 : character === ')' ? -1 : 0
      this.#at++
    } while (depth > 0)
  }

  #quantifier(): readonly [least: number, most: number | null] {
    if (this.#takes('*')) return [0, null]
    if (this.#takes('+')) return [1, null]
    if (this.#takes('?')) return [0, 1]
    const [whole = '', least, most] = /^\{(\d+),(\d*)\}/.exec(this.#text.slice(this.#at, this.#at + 24)) ?? []
    this.#at += whole.length
    if (least === undefined) return [1, 1]
    return [Number(least), most === '' ? null : Number(most)]
  }

  #takes(text: string): boolean {
    if (!this.#text.startsWith(text, this.#at)) return false
    this.#at += text.length
    return true
  }
}

export function movesOf(automaton: Automaton, states: readonly number[]): Move[] {
  return states.flatMap((state) => automaton.moves[state] ?? [])
}

/** One character of each stretch that all moves take or leave as a whole. */
export function firstCodes(moves: readonly Move[]): number[] {
  return [...new Set(moves.flatMap(({ ranges }) => ranges.flatMap(([from, to]) => [from, to + 1])))]
}
