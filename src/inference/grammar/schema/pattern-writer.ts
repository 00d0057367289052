/**
 * Regular expressions as they were read, written: as EBNF for the grammar's compiler, with characters as their bytes.
 */
import { checkHeap, tooComplex } from '../heap-limit.js'
import { type CodeRange, classAlternatives, complement, SURROGATES } from './character-class.js'
import { type PatternDialect, PatternError, type PatternNode, parsePattern } from './pattern-reader.js'

const EMPTY = '""'
/** Characters of what a grammar's compiler has no chance to read in time. */
const MOST_WRITTEN = 2 ** 21

/**
 * @param character one character of the ranges, as one element that a quantifier may follow
 * @throws {PatternError}
 * @throws {InvalidRequestError} `grammar_too_complex` for classes that come to megabytes
 */
export function patternToEbnf(
  pattern: string,
  character: (ranges: readonly CodeRange[]) => string,
  dialect?: PatternDialect,
): string {
  let length = 0
  const write = (node: PatternNode): string => {
    checkHeap()
    switch (node.kind) {
      case 'characters': {
        const text = character(node.ranges)
        length += text.length
        if (length > MOST_WRITTEN) throw tooComplex('needs too much memory for the classes of a pattern')
        return text
      }
      case 'alternatives':
        return node.parts.map(write).join(' | ')
      case 'sequence': {
        const parts = node.parts.map(element).filter((part) => part !== EMPTY)
        return parts.length === 0 ? EMPTY : parts.join(' ')
      }
      case 'repeat': {
        const { least, most } = node
        const part = element(node.part)
        if (most === 0 || part === EMPTY) return EMPTY
        return `${node.part.kind === 'repeat' ? `(${part})` : part}${quantifier(least, most)}`
      }
    }
  }
  const element = (node: PatternNode): string => {
    const text = write(node)
    if (node.kind === 'characters' || node.kind === 'repeat' || text === EMPTY) return text
    return `(${text})`
  }
  return write(parsePattern(pattern, dialect))
}

function quantifier(least: number, most: number | null): string {
  if (most === null) return least === 0 ? '*' : least === 1 ? '+' : `{${least},}`
  if (least === 0 && most === 1) return '?'
  return most === 1 ? '' : `{${least},${most}}`
}

/** One character of plain text. @throws {PatternError} if there is none */
export function textCharacter(ranges: readonly CodeRange[]): string {
  // no text holds NUL here: it ends those of the compiler
  const options = classAlternatives(complement([...complement(ranges), [0, 0], SURROGATES]))
  if (options.length === 0) throw new PatternError('asks for a character that does not exist')
  return `(${options.join(' | ')})`
}

/** An expression for plain text, as it stands in a grammar. @throws {PatternError} */
export function textRule(pattern: string, dialect?: PatternDialect): string {
  return patternToEbnf(pattern, textCharacter, dialect)
}
