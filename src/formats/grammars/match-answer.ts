/**
 * Whether a finished answer is what its grammar or its structural tag describes.
 */
import { parseExact } from '#base/json/exact-json.js'
import { UnknownForm } from './expression.js'
import { createRecognizer } from './recognizer.js'
import { type JsonPart, matchTag, readGrammar } from './tags.js'

/** What a text is compared with. */
export type AnswerForm =
  /** EBNF or Lark. */
  { readonly kind: 'ebnf'; readonly grammar: string } | { readonly kind: 'structural_tag'; readonly tag: string }

export interface Match {
  readonly isMatch: boolean
  /** Parts that are to be JSON of a schema, which is not looked at here. */
  readonly parts: readonly JsonPart[]
}

/**
 * @returns null for a grammar or a tag with forms that are not read here
 * @throws {TooLarge}; SyntaxError for a regular expression that JavaScript cannot read
 */
export function matchAnswer(form: AnswerForm, text: string): Match | null {
  try {
    if (form.kind === 'ebnf') {
      return { isMatch: createRecognizer(readGrammar(form.grammar)).endsOf(text, 0).has(text.length), parts: [] }
    }
    const parts = matchTag(parseExact(form.tag), text)
    return { isMatch: parts !== null, parts: parts ?? [] }
  } catch (error) {
    if (error instanceof UnknownForm) return null
    throw error
  }
}
