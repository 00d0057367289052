/**
 * Grammars of answers as data, read from Lark's notation (`lark.ts`) or EBNF (`ebnf.ts`).
 */

/** What a part of a text may be. */
export type Expression =
  /** These characters; in any case where `ignoresCase`. */
  | { readonly kind: 'text'; readonly text: string; readonly ignoresCase: boolean; readonly source: Source }
  /** One character of a range. */
  | { readonly kind: 'range'; readonly first: string; readonly last: string; readonly source: Source }
  /** One character that a class of V8 has. */
  | { readonly kind: 'class'; readonly characters: RegExp }
  /** A text that a regular expression matches as a whole. */
  | { readonly kind: 'pattern'; readonly pattern: string; readonly flags: string; readonly source: Source }
  | { readonly kind: 'rule'; readonly name: string }
  | { readonly kind: 'sequence'; readonly parts: readonly Expression[] }
  | { readonly kind: 'choice'; readonly options: readonly Expression[] }
  /** `most` may be infinite. */
  | { readonly kind: 'repeat'; readonly part: Expression; readonly least: number; readonly most: number }

/** Where a terminal stands in its grammar, for errors. */
export interface Source {
  readonly text: string
  readonly line: number
}

export interface Grammar {
  readonly root: string
  readonly rules: ReadonlyMap<string, Expression>
}

/** A grammar or a tag has a form that is not read here: its answers are held, and not checked. */
export class UnknownForm extends Error {}

export const NOTHING: Expression = { kind: 'sequence', parts: [] }

/** A sequence, or its only part. */
export function sequenceOf(parts: readonly Expression[]): Expression {
  const [only, ...more] = parts
  return only !== undefined && more.length === 0 ? only : { kind: 'sequence', parts }
}

/** A choice, or its only option. */
export function choiceOf(options: readonly Expression[]): Expression {
  const [only, ...more] = options
  return only !== undefined && more.length === 0 ? only : { kind: 'choice', options }
}
