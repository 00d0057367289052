/**
 * Where @huggingface/jinja 0.5.11 differs from Python's Jinja in ways that change prompts, and who mends it. Each fault, so that it can
 * go upstream:
 *
 * - `==` compares lists and mappings by identity and holds `1 == '1'`; `in`, `<` and `*` know few types; `%` has the sign of the dividend
 *   and formats no text; a comparison of three is one of two (here)
 * - members: a key hides a method of the same name (`schema.items()`), a key that is no string is refused, positions in strings count
 *   UTF-16 units (here); methods of strings: `python-methods.ts`
 * - mappings have string keys only (`{0: 'a'}`), and undefined values cannot be looped over (here and `runtime-values.ts`)
 * - loops lose what was written before `continue` and `break`, and keep variables from one turn to the next: `python-loops.ts`
 * - macros see the variables of their caller (here)
 * - filters and tests: `python-filters.ts`, `python-tests.ts`; how values print: `python-values.ts`
 * - text and tokens: `interpreter.ts`, `template-tokens.ts`
 *
 * Found by comparing seventy templates of well-known models with the original (`rendering-digests.json` of the test fixtures). Known, and
 * left as they are: a member of an undefined value is undefined, where Python refuses; `with`, `include` and recursive loops.
 */
import { append } from '#base/util/lists.js'
import { applyFilter, escapeHtml, isMarkup, markup } from './python-filters.js'
import { evaluateFor, LoopControl } from './python-loops.js'
import { formatPercent, methodOf } from './python-methods.js'
import { contains, remainder, testOf } from './python-tests.js'
import { applyTextFilter, printedValue, textOf } from './python-values.js'
import { claimInteger, claimItems, claimText } from './render-meter.js'
import {
  type Arguments,
  argumentsIn,
  codePointAt,
  codePointCount,
  codePointSlice,
  codePointsOf,
  compare,
  entriesOf,
  field,
  isEqual,
  isMissing,
  itemsOf,
  keyOf,
  numberOf,
  type Runtime,
  stringOf,
  typeOf,
  type ValueMaker,
} from './runtime-values.js'
import { isChained } from './template-tokens.js'

/** Evaluates a node that the library evaluates differently from Python; undefined for all others. */
export function evaluateAsPython(node: unknown, runtime: Runtime): unknown {
  switch (typeOf(node)) {
    case 'BinaryExpression':
      return evaluateOperator(node, runtime)
    case 'MemberExpression':
      return evaluateMember(node, runtime)
    case 'CallExpression':
      return evaluateCall(node, runtime)
    case 'FilterExpression':
      return filtered(field(node, 'filter'), runtime.evaluate(field(node, 'operand')), runtime)
    case 'FilterStatement': {
      const text = runtime.evaluateBlock(field(node, 'body'), runtime.newScope(runtime.scope))
      return filtered(field(node, 'filter'), runtime.make.text(text), runtime)
    }
    case 'TestExpression': {
      const isSo = testOf(nameOf(field(node, 'test')))(runtime.evaluate(field(node, 'operand')), undefined)
      return runtime.make.boolean(isSo !== (field(node, 'negate') === true))
    }
    case 'ObjectLiteral':
      return evaluateMapping(node, runtime)
    case 'For':
      return evaluateFor(node, runtime)
    case 'Break':
    case 'Continue':
      throw new LoopControl(typeOf(node) === 'Break')
    case 'Macro':
      return defineMacro(node, runtime)
    default:
      return undefined
  }
}

const nameOf = (node: unknown): string => String(field(node, 'value'))

/** Python's macros see the variables where they are written, not those where they are called. */
function defineMacro(node: unknown, runtime: Runtime): unknown {
  const none = runtime.evaluateAsLibrary(node)
  const macro = entriesIn(runtime.scope).get(nameOf(field(node, 'name')))
  const call = field(macro, 'value')
  if (typeof macro !== 'object' || macro === null || typeof call !== 'function') return none
  const { scope } = runtime
  Reflect.set(macro, 'value', (args: unknown, callerScope: object) => {
    const inner = runtime.newScope(scope)
    const caller = entriesIn(callerScope).get('caller')
    if (caller !== undefined) runtime.setVariable(inner, 'caller', caller)
    return Reflect.apply(call, undefined, [args, inner])
  })
  return none
}

function entriesIn(scope: object): ReadonlyMap<string, unknown> {
  const variables = field(scope, 'variables')
  return variables instanceof Map ? variables : new Map()
}

function evaluateMapping(node: unknown, { evaluate, make }: Runtime): unknown {
  const literal = field(node, 'value')
  const entries = new Map<string, unknown>()
  if (literal instanceof Map) for (const [key, value] of literal) entries.set(keyOf(evaluate(key)), evaluate(value))
  return make.mapping(entries)
}

/** `dict(…)`: of another mapping or of pairs, and of arguments by name. */
export function newMapping(args: readonly unknown[], make: ValueMaker): unknown {
  const { positional, named } = argumentsIn(args)
  const given = entriesOf(positional[0])
  const pairs = itemsOf(positional[0])?.map((pair) => [keyOf(itemsOf(pair)?.[0]), itemsOf(pair)?.[1]] as const)
  return make.mapping(new Map<string, unknown>([...(given ?? pairs ?? []), ...named]))
}

/** Arguments as they are written: by position, by name, and unpacked. */
function argumentsOf(nodes: unknown, { evaluate }: Runtime): Arguments {
  const positional: unknown[] = []
  const named = new Map<string, unknown>()
  const all: readonly unknown[] = Array.isArray(nodes) ? nodes : []
  for (const node of all) {
    const type = typeOf(node)
    if (type === 'SpreadExpression') append(positional, itemsOf(evaluate(field(node, 'argument'))) ?? [])
    else if (type === 'KeywordArgumentExpression') named.set(nameOf(field(node, 'key')), evaluate(field(node, 'value')))
    else if (type === 'KeywordSpreadExpression') {
      for (const [key, value] of entriesOf(evaluate(field(node, 'argument'))) ?? []) named.set(key, value)
    } else positional.push(evaluate(node))
  }
  return { positional, named }
}

function evaluateCall(node: unknown, runtime: Runtime): unknown {
  const callee = field(node, 'callee')
  const called = runtime.evaluate(callee)
  const call = field(called, 'value')
  if (typeof call !== 'function') {
    const name = nameOf(typeOf(callee) === 'MemberExpression' ? field(callee, 'property') : callee)
    const what = isMissing(called) ? 'undefined' : typeOf(called)
    throw new Error(`"${name}" is ${what}, not a function, and cannot be called`)
  }
  const { positional, named } = argumentsOf(field(node, 'args'), runtime)
  const args = named.size === 0 ? positional : [...positional, runtime.make.keywords(named)]
  return Reflect.apply(call, undefined, [args, runtime.scope]) ?? runtime.make.none
}

function filtered(filter: unknown, operand: unknown, runtime: Runtime): unknown {
  const isCall = typeOf(filter) === 'CallExpression'
  const args = argumentsOf(isCall ? field(filter, 'args') : [], runtime)
  return applyNamed(nameOf(isCall ? field(filter, 'callee') : filter), operand, args, runtime.make)
}

function applyNamed(name: string, operand: unknown, args: Arguments, make: ValueMaker): unknown {
  if (name === 'as tuple') return make.tuple(itemsOf(operand) ?? [])
  const test = /^is (not )?(\w+)$/.exec(name)
  if (test !== null) {
    const isSo = testOf(test[2] ?? '')(operand, args.positional[0])
    return make.boolean(isSo === (test[1] === undefined))
  }
  const apply = (other: string, value: unknown, others: Arguments): unknown => applyNamed(other, value, others, make)
  const made = applyTextFilter(name, operand, args, make) ?? applyFilter(name, operand, args, { make, apply })
  if (made === undefined) throw new Error(`Unknown filter: ${name}`)
  return made
}

/** A member of a value: a method before a key behind a point, a key before a method in brackets, as Jinja looks them up. */
function evaluateMember(node: unknown, runtime: Runtime): unknown {
  const { evaluate, make } = runtime
  const object = evaluate(field(node, 'object'))
  const property = field(node, 'property')
  if (typeOf(property) === 'SliceExpression') return sliceOf(object, property, runtime)
  const isPoint = field(node, 'computed') !== true
  const key = isPoint ? pointKey(property, make) : evaluate(property)
  const name = stringOf(key)
  const method = name === null ? undefined : methodOf(object, name, make)
  const member = itemAt(object, key, make)
  return (isPoint ? (method ?? member) : (member ?? method)) ?? make.missing
}

function pointKey(property: unknown, make: ValueMaker): unknown {
  const value = field(property, 'value')
  return typeof value === 'number' ? make.integer(value) : make.text(String(value))
}

function itemAt(object: unknown, key: unknown, make: ValueMaker): unknown {
  const entries = entriesOf(object)
  if (entries !== null) return itemsOf(key) !== null || entriesOf(key) !== null ? undefined : entries.get(keyOf(key))
  const at = numberOf(key)
  if (at === null) return undefined
  const text = stringOf(object)
  if (text === null) return itemsOf(object)?.at(Number(at))
  const character = codePointAt(text, Number(at))
  return character === null ? undefined : make.text(character)
}

function sliceOf(object: unknown, slice: unknown, { evaluate, make }: Runtime): unknown {
  const bound = (name: string): number | null => {
    const node = field(slice, name)
    const value = node === undefined ? null : evaluate(node)
    const number = numberOf(value)
    return number === null ? null : Number(number)
  }
  const text = stringOf(object)
  const list = itemsOf(object)
  if (text === null && list === null) throw new Error(`${typeOf(object)} cannot be sliced`)
  const length = text === null ? (list?.length ?? 0) : codePointCount(text)
  const step = bound('step') ?? 1
  if (step === 0) throw new Error('slice step cannot be zero')
  const [low, high] = step > 0 ? [0, length] : [-1, length - 1]
  const clamp = (at: number | null, otherwise: number): number =>
    at === null ? otherwise : Math.min(Math.max(at < 0 ? at + length : at, low), high)
  const [start, stop] = [clamp(bound('start'), step > 0 ? low : high), clamp(bound('stop'), step > 0 ? high : low)]
  if (text !== null && step === 1) return make.text(codePointSlice(text, start, stop))
  const items: readonly unknown[] = text === null ? (list ?? []) : codePointsOf(text)
  const taken: unknown[] = []
  for (let i = start; step > 0 ? i < stop : i > stop; i += step) taken.push(items[i])
  if (text !== null) return make.text(taken.join(''))
  return typeOf(object) === 'TupleValue' ? make.tuple(taken) : make.list(taken)
}

const comparisons: ReadonlySet<string> = new Set(['==', '!=', '<', '<=', '>', '>=', 'in', 'not in'])

function evaluateOperator(node: unknown, { evaluate, make }: Runtime): unknown {
  const operator = nameOf(field(node, 'operator'))
  if (operator === 'and' || operator === 'or') return undefined
  const [left, right] = [field(node, 'left'), field(node, 'right')]
  if (!comparisons.has(operator)) return operate(operator, evaluate(left), evaluate(right), make)
  const { operators, operands } = chainOf(node)
  let before = evaluate(operands[0])
  for (const [i, one] of operators.entries()) {
    const next = evaluate(operands[i + 1])
    if (!holds(one, before, next)) return make.boolean(false)
    before = next
  }
  return make.boolean(true)
}

/** `a < b < c` as its operands and the operators between them. */
function chainOf(node: unknown): { readonly operators: readonly string[]; readonly operands: readonly unknown[] } {
  const [left, right, operator] = [field(node, 'left'), field(node, 'right'), field(node, 'operator')]
  const inner = typeOf(left) === 'BinaryExpression' ? field(left, 'operator') : null
  if (inner === null || !comparisons.has(nameOf(inner)) || !isChained(operator, inner)) {
    return { operators: [nameOf(operator)], operands: [left, right] }
  }
  const before = chainOf(left)
  return { operators: [...before.operators, nameOf(operator)], operands: [...before.operands, right] }
}

function holds(operator: string, left: unknown, right: unknown): boolean {
  if (operator === '==') return isEqual(left, right)
  if (operator === '!=') return !isEqual(left, right)
  if (operator === 'in') return contains(right, left)
  if (operator === 'not in') return !contains(right, left)
  const order = compare(left, right)
  if (operator === '<') return order < 0
  if (operator === '<=') return order <= 0
  return operator === '>' ? order > 0 : order >= 0
}

function operate(operator: string, left: unknown, right: unknown, make: ValueMaker): unknown {
  if (operator === '~') return make.text(textOf(left) + textOf(right))
  const [a, b] = [numberOf(left), numberOf(right)]
  if (a !== null && b !== null) {
    const isFloat = typeOf(left) === 'FloatValue' || typeOf(right) === 'FloatValue'
    return isFloat ? make.float(Number(calculate(operator, Number(a), Number(b)))) : integerResult(operator, a, b, make)
  }
  const [textA, textB] = [stringOf(left), stringOf(right)]
  if (operator === '+' && textA !== null && textB !== null) return concatenated(left, right, make)
  if (operator === '%' && textA !== null) return make.text(formatPercent(textA, itemsOf(right) ?? [right], right))
  const [listA, listB] = [itemsOf(left), itemsOf(right)]
  if (operator === '+' && listA !== null && listB !== null) {
    claimItems(listA.length + listB.length)
    return typeOf(left) === 'TupleValue' ? make.tuple([...listA, ...listB]) : make.list([...listA, ...listB])
  }
  if (operator === '*' && (a !== null || b !== null)) {
    const times = Math.max(0, Number(a ?? b))
    const text = textA ?? textB
    if (text !== null) {
      claimText(text.length * times)
      return make.text(text.repeat(times))
    }
    const list = listA ?? listB
    if (list !== null) {
      // of an empty list, too, as many turns
      claimItems(Math.max(list.length, 1) * times)
      return make.list(Array.from({ length: times }, () => list).flat())
    }
  }
  throw new Error(`Unknown operator "${operator}" between ${typeOf(left)} and ${typeOf(right)}`)
}

/** What is added to markup is escaped. */
function concatenated(left: unknown, right: unknown, make: ValueMaker): unknown {
  if (!isMarkup(left) && !isMarkup(right)) return make.text(textOf(left) + textOf(right))
  const escaped = (value: unknown): string => (isMarkup(value) ? textOf(value) : escapeHtml(textOf(value)))
  return markup(escaped(left) + escaped(right), make)
}

function integerResult(operator: string, a: number | bigint, b: number | bigint, make: ValueMaker): unknown {
  if (operator === '/') return make.float(calculate(operator, Number(a), Number(b)))
  if (operator === '**' && b < 0) return make.float(Number(a) ** Number(b))
  const short = calculate(operator, Number(a), Number(b))
  const isShort = typeof a === 'number' && typeof b === 'number' && Number.isSafeInteger(short)
  if (isShort) return make.integer(short)
  if (operator === '**' && Math.abs(short) > 2 ** 1000) throw new Error('the power is too large')
  return make.integer(calculateLong(operator, BigInt(a), BigInt(b)))
}

function calculate(operator: string, a: number, b: number): number {
  if (b === 0 && (operator === '/' || operator === '//' || operator === '%')) throw new Error('division by zero')
  switch (operator) {
    case '+':
      return a + b
    case '-':
      return a - b
    case '*':
      return a * b
    case '/':
      return a / b
    case '//':
      return Math.floor(a / b)
    case '%':
      return remainder(a, b)
    case '**':
      return a ** b
    default:
      throw new Error(`Unknown operator "${operator}"`)
  }
}

function calculateLong(operator: string, a: bigint, b: bigint): bigint {
  claimInteger(
    operator === '**'
      ? bitsOf(a) * Number(b)
      : operator === '*'
        ? bitsOf(a) + bitsOf(b)
        : Math.max(bitsOf(a), bitsOf(b)),
  )
  if (operator === '+') return a + b
  if (operator === '-') return a - b
  if (operator === '*') return a * b
  if (operator === '**') return a ** b
  const rest = ((a % b) + b) % b
  return operator === '%' ? rest : (a - rest) / b
}

const bitsOf = (value: bigint): number => value.toString(16).length * 4

/** Names of the lists of nodes whose values a template prints. */
const bodies = ['body', 'alternate', 'defaultBlock'] as const

/** The expressions that a template prints, `{{ expression }}`, as nodes of its syntax tree. */
export function printedNodes(syntax: unknown): WeakSet<object> {
  const printed = new WeakSet<object>()
  const pending: unknown[] = [syntax]
  while (pending.length > 0) {
    const node = pending.pop()
    for (const name of bodies) {
      const list = field(node, name)
      if (!Array.isArray(list)) continue
      for (const item of list) {
        if (typeof item === 'object' && item !== null) printed.add(item)
        pending.push(item)
      }
    }
  }
  return printed
}

const statements: ReadonlySet<unknown> = new Set([
  ...['Set', 'If', 'For', 'Macro', 'CallStatement', 'FilterStatement', 'Comment'],
])

/** What Python prints for a value where the library prints something else; undefined where they agree. */
export function printedAsPython(node: unknown, value: unknown): string | undefined {
  if (statements.has(field(node, 'type'))) return undefined
  return printedValue(value)
}
