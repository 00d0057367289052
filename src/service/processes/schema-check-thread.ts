/**
 * The thread of one check: reads an answer and says what of its schema it violates. Beside everything else, for a pattern of the
 * schema's author may take for ever.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { Ajv, type ErrorObject, type Options } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { default as addFormats } from 'ajv-formats'

/** JSON texts. */
export interface SchemaCheckData {
  readonly schema: string
  readonly value: string
}

export interface SchemaCheckAnswer {
  /** One sentence each; none: the value is valid. */
  readonly violations: readonly string[]
}

const MOST_VIOLATIONS = 20
const MAX_LENGTH = 300
const OPTIONS: Options = { strict: false, allErrors: true, ownProperties: true, logger: false, validateSchema: false }

function check({ schema, value }: SchemaCheckData): readonly string[] {
  const read: unknown = JSON.parse(schema)
  // draft 7 and before have tuples that newer drafts spell otherwise
  const ajv = usesOldWords(read) ? new Ajv(OPTIONS) : new Ajv2020(OPTIONS)
  addFormats.default(ajv as Ajv)
  const validate = ajv.compile(read as object)
  validate(JSON.parse(value))
  return (validate.errors ?? []).slice(0, MOST_VIOLATIONS).map(toSentence)
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

if (parentPort !== null) {
  const answer: SchemaCheckAnswer = { violations: check(workerData as SchemaCheckData) }
  parentPort.postMessage(answer)
}
