/**
 * Grammars in Lark's notation → EBNF that xgrammar takes. What cannot be kept of a terminal is refused by line.
 */
import { assertNever } from '#base/util/assert-never.js'
import type { Expression, Source } from '#formats/grammars/expression.js'
import { IGNORED, readLark, refused } from '#formats/grammars/lark.js'
import { checkHeap } from '../heap-limit.js'
import { PatternError } from '../schema/pattern-reader.js'
import { patternTerminal, rangeTerminal, textTerminal } from './lark-terminals.js'

/**
 * @returns EBNF whose `root` is the rule `start`, or the first one where there is none
 * @throws {InvalidRequestError} `invalid_grammar` naming the line
 */
export function larkToEbnf(grammar: string): string {
  const { root, rules } = readLark(grammar, checkHeap)
  return [
    `root ::= ${nameOf(root)}`,
    ...Array.from(rules, ([name, rule]) => `${nameOf(name)} ::= ${written(rule)}`),
  ].join('\n')
}

/** Names of the grammar's own rules begin with `r_`. */
function nameOf(rule: string): string {
  return rule === IGNORED ? 'ignored' : rule.startsWith('%') ? 'whole' : `r_${rule}`
}

function written(expression: Expression): string {
  checkHeap()
  switch (expression.kind) {
    case 'text':
      return `(${located(expression.source, () => textTerminal(expression.text, expression.ignoresCase))})`
    case 'range':
      return `(${located(expression.source, () => rangeTerminal(expression.first, expression.last))})`
    case 'pattern':
      return `(${located(expression.source, () => patternTerminal(expression.pattern, expression.flags))})`
    case 'rule':
      return nameOf(expression.name)
    case 'sequence':
      return expression.parts.length === 0 ? '""' : `(${expression.parts.map(written).join(' ')})`
    case 'choice':
      return `(${expression.options.map(written).join(' | ')})`
    case 'repeat': {
      const { part, least, most } = expression
      const sign =
        most === Number.POSITIVE_INFINITY ? (least === 0 ? '*' : '+') : least === 0 && most === 1 ? '?' : null
      return `(${written(part)})${sign ?? `{${least},${most}}`}`
    }
    case 'class':
      throw new Error('Lark has no classes outside of regular expressions')
    default:
      return assertNever(expression)
  }
}

/** A terminal, or why it cannot be kept. */
function located({ text, line }: Source, read: () => string): string {
  try {
    return read()
  } catch (error) {
    if (error instanceof PatternError) throw refused(line, `${text.slice(0, 100)} ${error.message}`)
    throw error
  }
}
