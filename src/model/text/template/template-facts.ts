/**
 * What a chat template does with its input, read off its syntax tree.
 */

import { append } from '#base/util/lists.js'
import { outsideNamesOf } from './outside-names.js'

/** How message content reaches the template: as one string, or as a list of parts that it loops over. */
export type ContentFormat = 'string' | 'openai'

export interface TemplateFacts {
  readonly contentFormat: ContentFormat
  /** The template tests whether content is a string, so it takes both forms. */
  readonly testsForString: boolean
  /** String literals that the template compares its input with or splits it at (`'</think>' in content`). */
  readonly testedLiterals: readonly string[]
  /** Names of all variables that the template reads. */
  readonly variables: ReadonlySet<string>
  /** Of them those that the template does not define itself: what it is rendered with. */
  readonly outsideNames: ReadonlySet<string>
  /** The template has a form of its own for the role `developer`. */
  readonly knowsDeveloper: boolean
}

type Node = Readonly<Record<string, unknown>>

const testOperators = new Set(['in', 'not in', '==', '!='])
const testMethods = new Set([
  'split',
  'rsplit',
  'startswith',
  'endswith',
  'replace',
  'find',
  'strip',
  'lstrip',
  'rstrip',
])

/** Walks the syntax tree of a compiled template. */
export function readTemplateFacts(syntax: unknown): TemplateFacts {
  const contentNames = new Set<string>()
  const variables = new Set<string>()
  const testedLiterals = new Set<string>()
  let loopsOverContent = false
  let testsForString = false
  let knowsDeveloper = false

  // Aliases first: `set content = message.content`, in any order of appearance.
  for (const node of walk(syntax)) {
    if (node['type'] !== 'Set') continue
    const name = identifierOf(node['assignee'])
    if (name !== null && isContent(node['value'], contentNames)) contentNames.add(name)
  }
  for (const node of walk(syntax)) {
    const type = node['type']
    if (type === 'Identifier') variables.add(String(node['value']))
    if (type === 'For' && isContent(iterableOf(node), contentNames)) loopsOverContent = true
    if (type === 'TestExpression' && identifierOf(node['test']) === 'string') testsForString = true
    if (type === 'StringLiteral' && node['value'] === 'developer') knowsDeveloper = true
    for (const literal of testedBy(node)) testedLiterals.add(literal)
  }
  return {
    contentFormat: loopsOverContent ? 'openai' : 'string',
    testsForString,
    testedLiterals: [...testedLiterals],
    variables,
    outsideNames: outsideNamesOf(syntax),
    knowsDeveloper,
  }
}

function* walk(value: unknown): Generator<Node> {
  const pending: unknown[] = [value]
  const seen = new Set<unknown>()
  while (pending.length > 0) {
    const item = pending.pop()
    if (typeof item !== 'object' || item === null || seen.has(item)) continue
    seen.add(item)
    if (item instanceof Map) {
      append(pending, item.keys())
      append(pending, item.values())
    } else {
      if (isNode(item)) yield item
      append(pending, Object.values(item))
    }
  }
}

const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string'

function identifierOf(value: unknown): string | null {
  return isNode(value) && value['type'] === 'Identifier' ? String(value['value']) : null
}

/** `message.content`, `message['content']`, or a variable set to it. */
function isContent(value: unknown, names: ReadonlySet<string>): boolean {
  if (!isNode(value)) return false
  const name = identifierOf(value)
  if (name !== null) return names.has(name) || name === 'content'
  if (value['type'] !== 'MemberExpression') return false
  const property = value['property']
  if (identifierOf(property) === 'content') return value['computed'] !== true
  return isNode(property) && property['type'] === 'StringLiteral' && property['value'] === 'content'
}

function iterableOf(node: Node): unknown {
  const iterable = node['iterable']
  return isNode(iterable) && iterable['type'] === 'SelectExpression' ? iterable['lhs'] : iterable
}

function testedBy(node: Node): string[] {
  if (node['type'] === 'BinaryExpression') {
    const operator = node['operator']
    const name = typeof operator === 'object' && operator !== null && 'value' in operator ? String(operator.value) : ''
    return testOperators.has(name) ? literals([node['left'], node['right']]) : []
  }
  if (node['type'] !== 'CallExpression') return []
  const callee = node['callee']
  const isTest =
    isNode(callee) && callee['type'] === 'MemberExpression' && testMethods.has(identifierOf(callee['property']) ?? '')
  return isTest && Array.isArray(node['args']) ? literals(node['args']) : []
}

function literals(values: readonly unknown[]): string[] {
  return values.flatMap((value) => (isNode(value) && value['type'] === 'StringLiteral' ? [String(value['value'])] : []))
}
