/**
 * Where @huggingface/jinja 0.5.11 differs from Python's Jinja in ways that change prompts.
 *
 * `strip`, `lstrip` and `rstrip` ignore their argument there (`content.lstrip('\n')`, as Qwen3's template has it, must
 * keep leading spaces); `trim` refuses an undefined value; printed booleans and none are `True`, `False` and `None` in
 * Python. Found by comparing some sixty templates of well-known models with the original. How values print: `python-values.ts`. Known, and
 * left as they are: integer keys of mappings and the `min` filter do not exist.
 */
import { printedValue } from './python-values.js'

const methods: ReadonlySet<unknown> = new Set(['strip', 'lstrip', 'rstrip'])
const lookups: ReadonlySet<unknown> = new Set(['Identifier', 'MemberExpression'])

/** The interpreter that the nodes belong to. */
export interface Runtime {
  /** Evaluates an inner node to a runtime value. */
  evaluate(node: unknown): unknown
  /** A runtime value of a text. */
  makeString(text: string): unknown
}

/**
 * Evaluates a node that the library evaluates differently from Python; undefined for all others.
 *
 * @param node of the template's syntax tree
 */
export function evaluateAsPython(node: unknown, runtime: Runtime): unknown {
  if (field(node, 'type') === 'FilterExpression') return evaluateTrim(node, runtime)
  return field(node, 'type') === 'CallExpression' ? evaluateStrip(node, runtime) : undefined
}

/** `trim` of an undefined value is empty. */
function evaluateTrim(node: unknown, { evaluate, makeString }: Runtime): unknown {
  if (field(field(node, 'filter'), 'value') !== 'trim') return undefined
  const operand = field(node, 'operand')
  // Only names and members can be undefined; they are cheap to look up twice.
  if (!lookups.has(field(operand, 'type'))) return undefined
  const value = evaluate(operand)
  return field(value, 'type') === 'UndefinedValue' ? makeString('') : undefined
}

/** A strip method with one argument on a string. */
function evaluateStrip(node: unknown, { evaluate, makeString }: Runtime): unknown {
  const callee = field(node, 'callee')
  const args = field(node, 'args')
  const method = field(field(callee, 'property'), 'value')
  if (field(callee, 'type') !== 'MemberExpression' || !methods.has(method)) return undefined
  if (!Array.isArray(args) || args.length !== 1) return undefined
  const subject = evaluate(field(callee, 'object'))
  const characters = field(evaluate(args[0]), 'value')
  const text = field(subject, 'value')
  if (typeof text !== 'string' || typeof characters !== 'string') return undefined
  const stripped = stripCharacters(text, characters, { left: method !== 'rstrip', right: method !== 'lstrip' })
  return makeString(stripped)
}

/** Removes characters of the set from the chosen ends. */
export function stripCharacters(text: string, characters: string, ends: { left: boolean; right: boolean }): string {
  let start = 0
  let end = text.length
  if (ends.left) while (start < end && characters.includes(text.charAt(start))) start++
  if (ends.right) while (end > start && characters.includes(text.charAt(end - 1))) end--
  return text.slice(start, end)
}

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
  'Set',
  'If',
  'For',
  'Macro',
  'CallStatement',
  'FilterStatement',
  'Comment',
])

/** What Python prints for a value where the library prints something else; undefined where they agree. */
export function printedAsPython(node: unknown, value: unknown): string | undefined {
  if (statements.has(field(node, 'type'))) return undefined
  return printedValue(value)
}

function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}
