/**
 * What the reader of regular expressions understood, written in JavaScript: its own engine then says what it matches.
 */
import { type PatternDialect, type PatternNode, parsePattern } from '#inference/grammar/schema/pattern-reader.js'

/** The expression for a whole text, as JavaScript's flag `u` reads it. @throws {PatternError} */
export function patternToJavaScript(pattern: string, dialect?: PatternDialect): string {
  const write = (node: PatternNode): string => {
    switch (node.kind) {
      case 'characters': {
        const code = (each: number): string => `\\u{${each.toString(16)}}`
        return `[${node.ranges.map(([from, to]) => `${code(from)}-${code(to)}`).join('')}]`
      }
      case 'alternatives':
        return `(?:${node.parts.map(write).join('|')})`
      case 'sequence':
        return node.parts.map(write).join('')
      case 'repeat':
        return `(?:${write(node.part)}){${node.least},${node.most ?? ''}}`
    }
  }
  return `^(?:${write(parsePattern(pattern, dialect))})$`
}
