/**
 * A regular expression and bounds of length at once, as rules of EBNF: the expression's automaton, each state once for every length
 * that a text may have there. Only where that stays small, which names, codes and identifiers do.
 */
import { checkHeap } from '../heap-limit.js'
import { Automaton, firstCodes, movesOf, TooManyStates } from './automaton.js'
import { type CodeRange, classAlternatives, plainPart } from './character-class.js'
import { isPatternWithin } from './pattern-inclusion.js'
import { OWN_NAME, type OwnRule } from './schema-patches.js'
import { patternRule } from './string-pattern.js'

/** Rules of one string: more take the compiler too long. */
const MAX_RULES = 1500
/** Sets of states of the automaton. */
const MAX_SETS = 300

interface Bounds {
  readonly minLength: number
  /** Null: none. */
  readonly maxLength: number | null
}

/**
 * The rule of a string that matches the expression as a whole and has so many characters.
 *
 * @returns null where its rules would be too many, or no text is possible
 * @throws {PatternError} for an expression that cannot be held to
 */
export function boundedPatternRule(pattern: string, bounds: Bounds): OwnRule | null {
  const { minLength, maxLength } = bounds
  const rule = patternRule(pattern)
  // many expressions say the length themselves
  if (isPatternWithin(pattern, `[\\s\\S]{${minLength},${maxLength ?? ''}}`)) return { rule, helpers: [] }
  try {
    return rulesOf(toSets(new Automaton(pattern)), bounds)
  } catch (error) {
    if (error instanceof TooManyStates) return null
    throw error
  }
}

/** A set of states that some text leads to. */
interface StateSet {
  readonly isEnd: boolean
  /** By set that comes next: the characters that lead there and that JSON writes as they are. */
  readonly moves: ReadonlyMap<number, readonly CodeRange[]>
}

/** The subset construction. */
function toSets(automaton: Automaton): readonly StateSet[] {
  const start = automaton.closure([0])
  const numbers = new Map([[start.join(), 0]])
  const queue = [start]
  const sets: StateSet[] = []
  for (const states of queue) {
    const moves = new Map<number, CodeRange[]>()
    const codes = firstCodes(movesOf(automaton, states)).sort((a, b) => a - b)
    for (const [index, from] of codes.entries()) {
      const next = automaton.after(states, from)
      const ranges = plainPart([[from, (codes[index + 1] ?? from + 1) - 1]])
      if (next.length === 0 || ranges.length === 0) continue
      const key = next.join()
      const number = numbers.get(key) ?? queue.push(next) - 1
      if (number >= MAX_SETS) throw new TooManyStates()
      numbers.set(key, number)
      moves.set(number, [...(moves.get(number) ?? []), ...ranges])
    }
    sets.push({ isEnd: automaton.isEnd(states), moves })
  }
  return sets
}

/** Places are a set and a length; kept are those from which a text can end in time, for a grammar that leads nowhere is stuck. */
function rulesOf(sets: readonly StateSet[], { minLength, maxLength }: Bounds): OwnRule | null {
  // without a most, lengths beyond the least are all the same
  const last = maxLength ?? minLength
  if (sets.length * (last + 1) > MAX_RULES) throw new TooManyStates()
  const lengthAfter = (length: number): number | null =>
    length < last ? length + 1 : maxLength === null ? length : null
  const isEnd = (set: number, length: number): boolean => sets[set]?.isEnd === true && length >= minLength
  const movesFrom = (set: number, length: number): readonly Move[] => {
    const next = lengthAfter(length)
    if (next === null) return []
    return [...(sets[set]?.moves ?? [])].map(([to, ranges]) => ({ ranges, to, length: next }))
  }
  const useful = new Set<string>()
  for (let isGrowing = true; isGrowing; ) {
    isGrowing = false
    for (let length = last; length >= 0; length--) {
      for (const set of sets.keys()) {
        const isNew = !useful.has(nameOf(set, length))
        const leadsOn =
          isEnd(set, length) || movesFrom(set, length).some((move) => useful.has(nameOf(move.to, move.length)))
        if (isNew && leadsOn) isGrowing = useful.add(nameOf(set, length)) !== undefined
      }
    }
  }
  if (!useful.has(nameOf(0, 0))) return null
  const helpers: string[] = []
  const queue = [{ to: 0, length: 0 }]
  const found = new Set([nameOf(0, 0)])
  for (const { to: set, length } of queue) {
    const next = movesFrom(set, length).filter((move) => useful.has(nameOf(move.to, move.length)))
    const options = next.map(
      (move) => `(${classAlternatives(move.ranges).join(' | ')}) ${nameOf(move.to, move.length)}`,
    )
    const end = isEnd(set, length) ? [String.raw`"\""`] : []
    checkHeap()
    helpers.push(`${nameOf(set, length)} ::= ${[...end, ...options].join(' | ')}`)
    for (const move of next) {
      const name = nameOf(move.to, move.length)
      if (!found.has(name)) queue.push(move)
      found.add(name)
    }
  }
  return { rule: String.raw`"\"" ${nameOf(0, 0)}`, helpers }
}

interface Move {
  readonly ranges: readonly CodeRange[]
  readonly to: number
  readonly length: number
}

const nameOf = (set: number, length: number): string => `${OWN_NAME}_${set}_${length}`
