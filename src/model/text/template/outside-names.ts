/**
 * The names that a template reads from what it is rendered with, told apart from those that it defines itself: loop variables, macros
 * and their parameters, and what was `set` before. A name that is set on some of the ways to a place counts as read there.
 */

type Node = Readonly<Record<string, unknown>>
type Names = ReadonlySet<string>

/** @param syntax of the template's parser */
export function outsideNamesOf(syntax: unknown): ReadonlySet<string> {
  const found = new Set<string>()
  readAll([syntax], new Set(), found)
  return found
}

/** Statements one after the other. @returns the names that are defined behind them */
function readAll(nodes: unknown, defined: Names, found: Set<string>): Names {
  let known = defined
  for (const node of Array.isArray(nodes) ? nodes : []) known = read(node, known, found)
  return known
}

/** Adds to `found` what a node reads. @returns the names that are defined behind it */
function read(node: unknown, defined: Names, found: Set<string>): Names {
  if (node instanceof Map) return readAll([...node].flat(), defined, found)
  if (Array.isArray(node)) return readAll(node, defined, found)
  if (!isNode(node)) return defined
  switch (node['type']) {
    case 'Identifier': {
      const name = String(node['value'])
      if (!defined.has(name)) found.add(name)
      return defined
    }
    case 'Program':
      return readAll(node['body'], defined, found)
    case 'Set': {
      read(node['value'], defined, found)
      readAll(node['body'], defined, found)
      // `set ns.x = …` changes what is there
      const names = namesIn(node['assignee'])
      if (names.length === 0) read(node['assignee'], defined, found)
      return new Set([...defined, ...names])
    }
    case 'If': {
      read(node['test'], defined, found)
      const then = readAll(node['body'], defined, found)
      const otherwise = readAll(node['alternate'], defined, found)
      return new Set([...then].filter((name) => otherwise.has(name)))
    }
    case 'For': {
      // the condition of `for … in … if …` knows the loop variable
      const inside = new Set([...defined, ...namesIn(node['loopvar']), 'loop'])
      const iterable = node['iterable']
      const hasCondition = isNode(iterable) && iterable['type'] === 'SelectExpression'
      read(hasCondition ? iterable['lhs'] : iterable, defined, found)
      if (hasCondition) read(iterable['test'], inside, found)
      readAll(node['body'], inside, found)
      readAll(node['defaultBlock'], defined, found)
      return defined
    }
    case 'Macro': {
      const behind = new Set([...defined, ...namesIn(node['name'])])
      readAll(node['body'], withParameters(node['args'], behind, found), found)
      return behind
    }
    case 'CallStatement':
      read(node['call'], defined, found)
      readAll(node['body'], withParameters(node['callerArgs'], defined, found), found)
      return defined
    default:
      for (const part of partsOf(node)) read(part, defined, found)
      return defined
  }
}

/** Names inside a macro: its parameters, whose defaults are read where it stands. */
function withParameters(parameters: unknown, defined: Names, found: Set<string>): Names {
  const inside = new Set(defined)
  for (const parameter of Array.isArray(parameters) ? parameters : []) {
    if (!isNode(parameter)) continue
    const isDefaulted = parameter['type'] === 'KeywordArgumentExpression'
    if (isDefaulted) read(parameter['value'], defined, found)
    for (const name of namesIn(isDefaulted ? parameter['key'] : parameter)) inside.add(name)
  }
  return inside
}

/** The parts of an expression that are read; names of members, filters, tests, keywords and operators are none. */
function partsOf(node: Node): readonly unknown[] {
  switch (node['type']) {
    case 'MemberExpression':
      return node['computed'] === true ? [node['object'], node['property']] : [node['object']]
    case 'FilterExpression':
      return [node['operand'], ...argumentsOf(node['filter'])]
    case 'FilterStatement':
      return [...argumentsOf(node['filter']), node['body']]
    case 'TestExpression':
      return [node['operand'], ...argumentsOf(node['test'])]
    case 'KeywordArgumentExpression':
      return [node['value']]
    // the operator is a token, and spelled as a name might be
    case 'BinaryExpression':
      return [node['left'], node['right']]
    case 'UnaryExpression':
      return [node['argument']]
    default:
      return Object.values(node)
  }
}

function argumentsOf(call: unknown): readonly unknown[] {
  return isNode(call) && Array.isArray(call['args']) ? call['args'] : []
}

/** Names of an assignment's target; none for a member of something. */
function namesIn(target: unknown): string[] {
  if (!isNode(target)) return []
  if (target['type'] === 'Identifier') return [String(target['value'])]
  return target['type'] === 'TupleLiteral' && Array.isArray(target['value']) ? target['value'].flatMap(namesIn) : []
}

const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string'
