/**
 * What an answer can be held to: the kinds of structured output, as plain data that can be sent between threads and processes.
 */
import { createHash } from 'node:crypto'

/** A constraint on the whole text of an answer. `reach` are the characters that an answer can come to: a bound beyond them is none. */
export type GrammarSpec =
  | {
      readonly kind: 'json_schema'
      /** The schema as JSON text. */
      readonly schema: string
      /** False: compact JSON, without any white space between elements. */
      readonly isWhitespaceFree: boolean
      /** What answers cannot be held to is left out, and said; absent: it is refused. */
      readonly isLax?: boolean
      /** The tool whose arguments it describes, if it is of one alone. */
      readonly tool?: string
      readonly reach?: number
    }
  | { readonly kind: 'regex'; readonly pattern: string; readonly reach?: number }
  | { readonly kind: 'choice'; readonly choices: readonly string[] }
  /** EBNF in GBNF's style with a rule `root`, or Lark. */
  | { readonly kind: 'ebnf'; readonly grammar: string }
  /** xgrammar's structural tag as JSON text: free text with constrained parts. */
  | {
      readonly kind: 'structural_tag'
      readonly tag: string
      readonly reach?: number
      /** It is of calls: JSON between marks, which may be written as control tokens, for the answer's text shows them. */
      readonly isOfCalls?: boolean
      /** Nothing is held to before a text of these; absent: all is, from the first token. */
      readonly trigger?: TextTrigger
    }

/** Texts from which on an answer is held to its grammar, whose `triggers` they are. */
export interface TextTrigger {
  readonly texts: readonly string[]
  /** They count where the answer begins, and nowhere else. */
  readonly isAtBeginning: boolean
  /** An answer that begins with reasoning is free to its end. */
  readonly isAfterReasoning: boolean
}

/** Below it a bound is cheap. */
const LEAST_REACH = 128

/**
 * The specification with what an answer can come to. Only where it has a large number at all, and in powers of two, so that requests
 * of other lengths share a grammar.
 */
export function withReach(spec: GrammarSpec, characters: number): GrammarSpec {
  if (spec.kind === 'choice' || spec.kind === 'ebnf') return spec
  const text = spec.kind === 'json_schema' ? spec.schema : spec.kind === 'regex' ? spec.pattern : spec.tag
  if (!/\d{3}/.test(text)) return spec
  const reach = 2 ** Math.ceil(Math.log2(Math.max(characters, LEAST_REACH)))
  return Number.isSafeInteger(reach) ? { ...spec, reach } : spec
}

/** Equal specifications have equal keys. */
export function grammarKey(spec: GrammarSpec): string {
  return createHash('sha256').update(JSON.stringify(spec)).digest('hex')
}

/** Alternatives as EBNF. @returns a grammar whose `root` is exactly one of the strings */
export function choiceGrammar(choices: readonly string[]): string {
  return `root ::= ${choices.map(quoted).join(' | ')}`
}

/** A literal of EBNF: JSON's escapes, but no surrogate pairs, which xgrammar would read as two characters. */
export function quoted(text: string): string {
  const escaped = Array.from(text, (character) => {
    const code = character.codePointAt(0) ?? 0
    if (character === '"' || character === '\\') return `\\${character}`
    if (code < 0x20 || code === 0x7f) return `\\u${code.toString(16).padStart(4, '0')}`
    return character
  })
  return `"${escaped.join('')}"`
}
