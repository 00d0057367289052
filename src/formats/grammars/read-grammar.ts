/** The two notations of grammars. */
import { readEbnf } from './ebnf.js'
import type { Grammar } from './expression.js'
import { isLark, readLark } from './lark.js'

/**
 * @param text EBNF or Lark
 * @returns null for what is not read here
 */
export function readGrammar(text: string): Grammar | null {
  return isLark(text) ? readLark(text) : readEbnf(text)
}
