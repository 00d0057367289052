/**
 * Regular expressions of pre-tokenizers, written the way model files write them and compiled to their meaning there.
 *
 * `\s` means Unicode white space in those engines; JavaScript's own `\s` lacks U+0085 and adds U+FEFF.
 */

/** Compiles a pattern in which `\s` and `\S` mean Unicode white space and its complement. */
export function compilePattern(source: string): RegExp {
  return new RegExp(source.replaceAll('\\s', '\\p{White_Space}').replaceAll('\\S', '\\P{White_Space}'), 'gu')
}

/** A text as a pattern of itself. */
export const escapeRegExp = (text: string): string =>
  text.replace(/[.*+?^${}()|[\]\\/-]/g, (c) => (c === '-' ? '\\x2d' : `\\${c}`))

/** What `\w` means in Rust's engine, for a class. */
export const WORD = String.raw`\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\u200c\u200d`

/** GPT-2's words: contractions, letters, digits and signs, each with at most one space before, and white space. */
export const gpt2Pattern = String.raw`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
