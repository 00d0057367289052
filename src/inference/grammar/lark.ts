/**
 * Grammars in Lark's notation → EBNF that xgrammar takes. What cannot be kept of a terminal is refused by line.
 */
import { assertNever } from '#base/util/assert-never.js'
import type { Expression, Source } from '#formats/grammars/expression.js'
import { IGNORED, readLark, refused } from '#formats/grammars/lark.js'
import { quoted } from './grammar-spec.js'
import { checkHeap } from './heap-limit.js'
import type { CodeRange } from './schema/character-class.js'
import { PatternError } from './schema/pattern-reader.js'
import { textCharacter, textRule } from './schema/pattern-writer.js'
import { withBothCases } from './schema/unicode-classes.js'

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

function textTerminal(text: string, ignoresCase: boolean): string {
  if (!ignoresCase || text === '') return quoted(text)
  return Array.from(text, (character) => textCharacter(withBothCases([codeRange(character, character)]))).join(' ')
}

/** One character from one text of a single character to another. @throws {PatternError} */
function rangeTerminal(first: string, last: string): string {
  const range = codeRange(first, last)
  if (Array.from(first + last).length !== 2 || range[0] > range[1]) throw new PatternError('is no range of characters')
  return textCharacter([range])
}

/**
 * @param pattern a regular expression as Python has it, without its slashes
 * @param flags Python's
 * @throws {PatternError} for what cannot be kept
 */
function patternTerminal(pattern: string, flags: string): string {
  const unknown = /[^imsu]/.exec(flags)
  if (unknown !== null) throw new PatternError(`has the flag "${unknown[0]}", which is not supported`)
  return textRule(pattern, {
    ignoresCase: flags.includes('i'),
    lineEnds: flags.includes('s') ? [] : [[10, 10]],
    isWhole: false,
  })
}

function codeRange(from: string, to: string): CodeRange {
  return [from.codePointAt(0) ?? 0, to.codePointAt(0) ?? 0]
}
