/**
 * Whether every text that one regular expression matches is matched by another, decided and not tried out.
 *
 * A pattern beside a format, as libraries of schemas write them (zod: `"format": "uuid"` and the expression that it checks), can be
 * held to alone where it asks for no less than the format. Both become automata, and their sets of states are walked side by side
 * (the subset construction; Hopcroft, Motwani and Ullman, "Introduction to Automata Theory", 2.3 and 4.2). What is too large to
 * walk counts as not included.
 */
import { checkHeap } from '../heap-limit.js'
import { Automaton, firstCodes, movesOf, TooManyStates } from './automaton.js'

/** Pairs of sets of states that are looked at. */
const MAX_PAIRS = 5000

/**
 * Both match whole texts, as everywhere here.
 *
 * @returns false also where the answer would take too long
 * @throws {PatternError} for an expression that this program does not read
 */
export function isPatternWithin(pattern: string, outer: string): boolean {
  try {
    return isWithin(new Automaton(pattern), new Automaton(outer))
  } catch (error) {
    if (error instanceof TooManyStates) return false
    throw error
  }
}

function isWithin(inner: Automaton, outer: Automaton): boolean {
  const queue: (readonly [readonly number[], readonly number[]])[] = [[inner.closure([0]), outer.closure([0])]]
  const seen = new Set([keyOf(queue[0]?.[0] ?? [], queue[0]?.[1] ?? [])])
  for (const [ours, theirs] of queue) {
    if (inner.isEnd(ours) && !outer.isEnd(theirs)) return false
    for (const code of firstCodes([...movesOf(inner, ours), ...movesOf(outer, theirs)])) {
      const next = inner.after(ours, code)
      if (next.length === 0) continue
      const other = outer.after(theirs, code)
      checkHeap()
      const key = keyOf(next, other)
      if (seen.has(key)) continue
      // from every state the end can be reached, so a text is lost already here
      if (other.length === 0 || seen.size >= MAX_PAIRS) return false
      seen.add(key)
      queue.push([next, other])
    }
  }
  return true
}

const keyOf = (ours: readonly number[], theirs: readonly number[]): string => `${ours.join()}|${theirs.join()}`
