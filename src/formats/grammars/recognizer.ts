/**
 * Whether a text is of a grammar: Earley's recognizer (Earley 1970, with the nullable rules of Aycock and Horspool 2002) over
 * characters.
 *
 * Knows nothing of tokens, masks or xgrammar: what those hold an answer to is checked by this.
 */
import { assertNever } from '#base/util/assert-never.js'
import { checkedPattern } from './checked-pattern.js'
import { type Expression, type Grammar, UnknownForm } from './expression.js'

/** A text and a grammar that would take more rules, or more items of them, than are looked at. */
export class TooLarge extends Error {
  constructor() {
    super('its grammar is too large for a check')
  }
}

const MOST_PRODUCTIONS = 200_000

export interface Recognizer {
  /**
   * @param start where in `text`, in code units
   * @returns every place where a text of the grammar ends that begins there
   * @throws {TooLarge}
   */
  endsOf(text: string, start: number): ReadonlySet<number>
}

/** Where texts of a terminal end that begin at a place. */
type Terminal = (text: string, start: number) => readonly number[]
/** A number is a rule. */
type Part = number | Terminal

interface Production {
  readonly rule: number
  readonly parts: readonly Part[]
  /** Of its first place among all places of all productions. */
  readonly place: number
}

interface Item {
  readonly production: Production
  readonly dot: number
  readonly origin: number
}

interface Column {
  readonly items: Item[]
  readonly known: Set<number>
  readonly predicted: Set<number>
  /** By the rule that they wait for. */
  readonly waiting: Map<number, Item[]>
}

/** @throws {TooLarge}; {UnknownForm} for a rule that is defined nowhere; SyntaxError for a regular expression that JavaScript cannot read */
export function createRecognizer(grammar: Grammar, mostItems = 500_000): Recognizer {
  const { productions, root, nullable } = compile(grammar)

  return {
    endsOf: (text, start) => {
      const columns = new Map<number, Column>()
      const ends = new Set<number>()
      let itemCount = 0
      const columnAt = (at: number): Column => {
        const column = columns.get(at) ?? {
          items: [],
          known: new Set<number>(),
          predicted: new Set<number>(),
          waiting: new Map<number, Item[]>(),
        }
        columns.set(at, column)
        return column
      }
      const add = (at: number, item: Item): void => {
        const column = columnAt(at)
        const key = (item.production.place + item.dot) * (text.length + 1) + item.origin
        if (column.known.has(key)) return
        itemCount += 1
        if (itemCount > mostItems) throw new TooLarge()
        column.known.add(key)
        column.items.push(item)
      }
      const advanced = (item: Item): Item => ({ ...item, dot: item.dot + 1 })
      const predict = (at: number, rule: number): void => {
        const { predicted } = columnAt(at)
        if (predicted.has(rule)) return
        predicted.add(rule)
        for (const production of productions.get(rule) ?? []) add(at, { production, dot: 0, origin: at })
      }

      predict(start, root)
      for (let at = start; at <= text.length; at += 1) {
        const column = columns.get(at)
        if (column === undefined) continue
        // grows while it is read
        for (const item of column.items) {
          const part = item.production.parts[item.dot]
          if (part === undefined) {
            const { rule } = item.production
            if (rule === root && item.origin === start) ends.add(at)
            for (const waiting of columnAt(item.origin).waiting.get(rule) ?? []) add(at, advanced(waiting))
          } else if (typeof part === 'number') {
            const others = column.waiting.get(part)
            if (others === undefined) column.waiting.set(part, [item])
            else others.push(item)
            predict(at, part)
            if (nullable.has(part)) add(at, advanced(item))
          } else {
            for (const end of part(text, at)) add(end, advanced(item))
          }
        }
        // nothing later waits for what begins and ends here
        column.known.clear()
      }
      return ends
    },
  }
}

interface Compiled {
  readonly productions: ReadonlyMap<number, readonly Production[]>
  readonly root: number
  readonly nullable: ReadonlySet<number>
}

function compile({ root, rules }: Grammar): Compiled {
  const productions = new Map<number, Production[]>()
  const names = new Map([...rules.keys()].map((name, index) => [name, index]))
  let ruleCount = names.size
  let productionCount = 0
  let place = 0

  const produce = (rule: number, parts: readonly Part[]): void => {
    productionCount += 1
    if (productionCount > MOST_PRODUCTIONS) throw new TooLarge()
    const own = productions.get(rule)
    if (own === undefined) productions.set(rule, [{ rule, parts, place }])
    else own.push({ rule, parts, place })
    place += parts.length + 1
  }
  const newRule = (): number => {
    ruleCount += 1
    return ruleCount - 1
  }
  const partsOf = (expression: Expression): readonly Part[] => {
    switch (expression.kind) {
      case 'text':
        return expression.text === '' ? [] : [textTerminal(expression.text, expression.ignoresCase)]
      case 'range':
        return [characterTerminal(rangeClass(expression.first, expression.last))]
      case 'class':
        return [characterTerminal(expression.characters)]
      case 'pattern':
        return [patternTerminal(expression.pattern, expression.flags)]
      case 'rule': {
        const rule = names.get(expression.name)
        if (rule === undefined) throw new UnknownForm()
        return [rule]
      }
      case 'sequence':
        return expression.parts.flatMap(partsOf)
      case 'choice': {
        const rule = newRule()
        for (const option of expression.options) produce(rule, partsOf(option))
        return [rule]
      }
      case 'repeat':
        return repeated(partsOf(expression.part), expression.least, expression.most)
      default:
        return assertNever(expression)
    }
  }
  const repeated = (parts: readonly Part[], least: number, most: number): readonly Part[] => {
    if (least * parts.length > MOST_PRODUCTIONS) throw new TooLarge()
    const first = Array.from({ length: least }, () => parts).flat()
    if (most === least) return first
    if (most === Number.POSITIVE_INFINITY) {
      const rule = newRule()
      produce(rule, [])
      produce(rule, [rule, ...parts])
      return [...first, rule]
    }
    let rest: Part | null = null
    for (let left = most - least; left > 0; left -= 1) {
      const rule = newRule()
      produce(rule, [])
      produce(rule, rest === null ? parts : [...parts, rest])
      rest = rule
    }
    return rest === null ? first : [...first, rest]
  }

  for (const [name, expression] of rules) produce(names.get(name) ?? 0, partsOf(expression))
  const rootRule = names.get(root)
  if (rootRule === undefined) throw new UnknownForm()
  return { productions, root: rootRule, nullable: findNullable(productions) }
}

function findNullable(productions: ReadonlyMap<number, readonly Production[]>): ReadonlySet<number> {
  const nullable = new Set<number>()
  const isEmpty = (part: Part): boolean => (typeof part === 'number' ? nullable.has(part) : part('', 0).length > 0)
  for (let before = -1; before < nullable.size; ) {
    before = nullable.size
    for (const [rule, own] of productions) {
      if (!nullable.has(rule) && own.some(({ parts }) => parts.every(isEmpty))) nullable.add(rule)
    }
  }
  return nullable
}

function textTerminal(wanted: string, ignoresCase: boolean): Terminal {
  const folded = wanted.toLowerCase()
  return (text, start) => {
    const found = text.slice(start, start + wanted.length)
    return found === wanted || (ignoresCase && found.toLowerCase() === folded) ? [start + wanted.length] : []
  }
}

function characterTerminal(characters: RegExp): Terminal {
  return (text, start) => {
    const code = text.codePointAt(start)
    if (code === undefined) return []
    const character = String.fromCodePoint(code)
    return characters.test(character) ? [start + character.length] : []
  }
}

function rangeClass(first: string, last: string): RegExp {
  const hex = (character: string): string => (character.codePointAt(0) ?? 0).toString(16)
  return new RegExp(`^[\\u{${hex(first)}}-\\u{${hex(last)}}]$`, 'u')
}

/** A point is any character, line ends too: where the grammar means less it holds to less. */
function patternTerminal(pattern: string, flags: string): Terminal {
  const { source, flags: own } = checkedPattern(pattern)
  const whole = new RegExp(`^(?:${source})$`, [...new Set(`${own}${flags.replace(/[^ims]/g, '')}s`)].join(''))
  return (text, start) => {
    const ends: number[] = []
    for (let end = start; end <= text.length; end += 1) if (whole.test(text.slice(start, end))) ends.push(end)
    return ends
  }
}
