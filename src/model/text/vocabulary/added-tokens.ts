/**
 * Tokens that are found in the text as a whole before any other rule applies: control tokens such as `<|im_end|>` and
 * the non-special added tokens such as `<think>`.
 *
 * Finds the leftmost longest one. A *barrier* is a position inside user-written text that spells a control token: no
 * control token may reach across it (`model/text/template/control-tokens.ts` makes the barriers, this file only respects them).
 */

import { WORD } from './patterns.js'

export interface AddedToken {
  readonly id: number
  readonly content: string
  /** Control tokens are special; they are parsed only on request and dropped by `skipSpecialTokens`. */
  readonly isSpecial: boolean
  /** The token swallows white space before it. */
  readonly stripsLeft: boolean
  /** The token swallows white space after it. */
  readonly stripsRight: boolean
  /** The token counts only between non-word characters. */
  readonly isSingleWord: boolean
  /** It is looked for in normalized text, behind all that are not (default false). */
  readonly isNormalized?: boolean
}

/** A piece of text, or a token found in it. */
export type TextOrToken = { readonly text: string; readonly start: number } | { readonly id: number }

export interface PartitionOptions {
  /** Whether control tokens are looked for; the other added tokens always are. */
  readonly parseSpecial: boolean
  /** Sorted positions that no control token may span. */
  readonly barriers?: readonly number[]
  /** Where to begin (default 0). */
  readonly start?: number
}

export interface AddedTokenFinder {
  /** Cuts text into pieces and added tokens, in order; empty pieces are left out. */
  partition(text: string, options: PartitionOptions): TextOrToken[]
}

interface TrieNode {
  readonly children: Map<number, TrieNode>
  token: AddedToken | null
}

const endsWithWord = new RegExp(`[${WORD}]$`, 'u')
const startsWithWord = new RegExp(`^[${WORD}]`, 'u')
const whiteSpace = /\p{White_Space}/u

/** Builds the finder for a vocabulary's added tokens; tokens with empty content are ignored. */
export function createAddedTokenFinder(tokens: readonly AddedToken[]): AddedTokenFinder {
  const all = buildTrie(tokens)
  const plain = buildTrie(tokens.filter((token) => !token.isSpecial))
  const firstOfAll = firstCharacters(all)
  const firstOfPlain = firstCharacters(plain)

  return {
    partition(text, { parseSpecial, barriers = [], start = 0 }) {
      const root = parseSpecial ? all : plain
      const first = parseSpecial ? firstOfAll : firstOfPlain
      const parts: TextOrToken[] = []
      const pushText = (from: number, to: number): void => {
        if (to > from) parts.push({ text: text.slice(from, to), start: from })
      }
      let textStart = start
      let barrier = 0
      if (first === null) {
        pushText(start, text.length)
        return parts
      }
      first.lastIndex = start
      for (let hit = first.exec(text); hit !== null; hit = first.exec(text)) {
        const at = hit.index
        while (barrier < barriers.length && (barriers[barrier] ?? 0) <= at) barrier++
        const limit = barriers[barrier] ?? Number.POSITIVE_INFINITY
        const token = at >= textStart ? longestMatch(root, text, at, limit) : null
        let end = at + (token?.content.length ?? 1)
        // the reference implementation passes over all of a match that does not stand alone
        if (token === null || (token.isSingleWord && !standsAlone(text, at, end))) {
          first.lastIndex = end
          continue
        }
        pushText(textStart, token.stripsLeft ? trimmedEnd(text, textStart, at) : at)
        parts.push({ id: token.id })
        if (token.stripsRight) while (whiteSpace.test(text[end] ?? '')) end++
        textStart = end
        first.lastIndex = end
      }
      pushText(textStart, text.length)
      return parts
    },
  }
}

function buildTrie(tokens: readonly AddedToken[]): TrieNode {
  const root: TrieNode = { children: new Map(), token: null }
  for (const token of tokens) {
    if (token.content === '') continue
    let node = root
    for (let i = 0; i < token.content.length; i++) {
      const unit = token.content.charCodeAt(i)
      let child = node.children.get(unit)
      if (child === undefined) {
        child = { children: new Map(), token: null }
        node.children.set(unit, child)
      }
      node = child
    }
    node.token = token
  }
  return root
}

/** A pattern that jumps to the next character that can start an added token; null when there is none. */
function firstCharacters(root: TrieNode): RegExp | null {
  const units = [...root.children.keys()]
  if (units.length === 0) return null
  return new RegExp(`[${units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('')}]`, 'g')
}

/** @param limit position that a control token may not reach across */
function longestMatch(root: TrieNode, text: string, at: number, limit: number): AddedToken | null {
  let node: TrieNode | undefined = root
  let best: AddedToken | null = null
  for (let i = at; i < text.length; i++) {
    node = node.children.get(text.charCodeAt(i))
    if (node === undefined) break
    const { token } = node
    if (token === null || (token.isSpecial && i + 1 > limit)) continue
    best = token
  }
  return best
}

function standsAlone(text: string, start: number, end: number): boolean {
  return !endsWithWord.test(text.slice(Math.max(0, start - 2), start)) && !startsWithWord.test(text.slice(end, end + 2))
}

function trimmedEnd(text: string, from: number, to: number): number {
  let end = to
  while (end > from && whiteSpace.test(text[end - 1] ?? '')) end--
  return end
}
