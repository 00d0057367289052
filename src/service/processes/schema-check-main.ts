/**
 * Entry of the process that checks one answer against its JSON Schema and lists the violations, or against its grammar.
 *
 * A process and not a thread, because anybody may send a schema: a pattern may run for ever, and V8 ends the whole
 * process when a thread uses too much memory within one piece of work.
 */

import { Ajv, type ErrorObject, type Options } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { default as addFormats } from 'ajv-formats'
import { InvalidRequestError } from '#base/errors/errors.js'
import { answerProcess } from '#base/processes/ask-process.js'
import { checkedPattern } from '#formats/grammars/checked-pattern.js'
import { type AnswerForm, type Match, matchAnswer } from '#formats/grammars/match-answer.js'

/** JSON texts. */
export interface SchemaCheckData {
  readonly schema: string
  readonly value: string
}

export interface SchemaCheckAnswer {
  /** One sentence each; none: the value is valid. */
  readonly violations: readonly string[]
}

export interface GrammarCheckData {
  readonly form: AnswerForm
  readonly text: string
}

/** Null where the form is not known here. */
export type GrammarCheckAnswer = Match | null

const MOST_VIOLATIONS = 20
const MAX_LENGTH = 300
/** Characters of all patterns: V8 writes each property of characters out, 60,000 of them take 800 MB outside of its heap. */
const MAX_PATTERNS = 4000
// as functions that call each other: written into each place that refers to it, a definition could come to gigabytes
const OPTIONS: Options = {
  code: { regExp: Object.assign(checkedPattern, { code: 'checkedPattern' }) },
  inlineRefs: false,
  strict: false,
  allErrors: true,
  ownProperties: true,
  logger: false,
  validateSchema: false,
}

function check({ schema, value }: SchemaCheckData): readonly string[] {
  const read: unknown = JSON.parse(schema)
  if (patternLength(read) > MAX_PATTERNS) {
    throw new InvalidRequestError('schema_too_complex', `its patterns have more than ${MAX_PATTERNS} characters`)
  }
  // draft 7 and before have tuples that newer drafts spell otherwise
  const ajv = usesOldWords(read) ? new Ajv(OPTIONS) : new Ajv2020(OPTIONS)
  addFormats.default(ajv as Ajv)
  const validate = ajv.compile(read as object)
  validate(JSON.parse(value))
  return (validate.errors ?? []).slice(0, MOST_VIOLATIONS).map(toSentence)
}

function patternLength(schema: unknown): number {
  if (Array.isArray(schema)) return schema.reduce((sum: number, item) => sum + patternLength(item), 0)
  if (typeof schema !== 'object' || schema === null) return 0
  return Object.entries(schema).reduce((sum, [name, value]) => {
    const isText = name === 'pattern' && typeof value === 'string'
    const keys =
      name === 'patternProperties' && typeof value === 'object' ? Object.keys(value ?? {}).join('').length : 0
    return sum + (isText ? value.length : patternLength(value)) + keys
  }, 0)
}

function usesOldWords(schema: unknown): boolean {
  if (Array.isArray(schema)) return schema.some(usesOldWords)
  if (typeof schema !== 'object' || schema === null) return false
  return Object.entries(schema).some(
    ([name, value]) => (name === 'items' && Array.isArray(value)) || name === 'additionalItems' || usesOldWords(value),
  )
}

function toSentence({ instancePath, keyword, message = 'is not valid' }: ErrorObject): string {
  return `${instancePath === '' ? 'the value' : instancePath} ${message} (${keyword})`.slice(0, MAX_LENGTH)
}

await answerProcess<SchemaCheckData | GrammarCheckData, SchemaCheckAnswer | GrammarCheckAnswer>(
  'schema_check_failed',
  async (question, asker) => {
    await asker.answer('form' in question ? matchAnswer(question.form, question.text) : { violations: check(question) })
  },
)
