/**
 * Graders as they are written: kinds, their fields, and what is refused, each by its path. What a field means is in the file of its kind.
 */

import { InvalidRequestError } from '#base/errors/errors.js'
import { isExactNumber, valueOfNumber } from '#base/json/exact-number.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { closest } from '#base/util/suggest.js'
import { SIMILARITY_METRICS, type SimilarityMetric } from './similarity/similarity.js'

export const OPERATIONS = ['eq', 'ne', 'like', 'ilike'] as const

/** What every grader has. */
interface Named {
  /** As errors and metrics call it: its name, else its key among several, else its kind. */
  readonly name: string
  /** From which score on an answer passes: a metric, no reward. */
  readonly passThreshold: number | null
}

export interface StringCheck extends Named {
  readonly type: 'string_check'
  readonly input: string
  readonly reference: string
  readonly operation: (typeof OPERATIONS)[number]
}

export interface TextSimilarity extends Named {
  readonly type: 'text_similarity'
  readonly input: string
  readonly reference: string
  readonly metric: SimilarityMetric
}

export interface MultiGrader extends Named {
  readonly type: 'multi'
  readonly graders: ReadonlyMap<string, SingleGrader>
  readonly formula: string
  /** The reward where the formula cannot be computed. */
  readonly invalidGrade: number
}

export type SingleGrader = StringCheck | TextSimilarity
export type Grader = SingleGrader | MultiGrader

type Read<G extends Grader> = (fields: Fields) => Omit<G, keyof Named>

/** Kinds, their fields beside `type`, `name` and `pass_threshold`, and how they are read. */
const KINDS: {
  readonly [Kind in Grader['type']]: {
    readonly fields: readonly string[]
    readonly read: Read<Extract<Grader, { readonly type: Kind }>>
  }
} = {
  string_check: {
    fields: ['input', 'reference', 'operation'],
    read: (fields) => ({
      type: 'string_check',
      input: fields.text('input'),
      reference: fields.text('reference'),
      // the guide's prose says neq
      operation: fields.choice('operation', OPERATIONS, { neq: 'ne' }),
    }),
  },
  text_similarity: {
    fields: ['input', 'reference', 'evaluation_metric'],
    read: (fields) => {
      if (fields.object['evaluation_metric'] === 'cosine') {
        throw fields.wrong('evaluation_metric', 'cosine compares embeddings, which are not served here', {
          hint: `take one of ${SIMILARITY_METRICS.join(', ')}`,
        })
      }
      return {
        type: 'text_similarity',
        input: fields.text('input'),
        reference: fields.text('reference'),
        metric: fields.choice('evaluation_metric', SIMILARITY_METRICS),
      }
    },
  },
  multi: {
    fields: ['graders', 'calculate_output', 'invalid_grade'],
    read: (fields) => ({
      type: 'multi',
      graders: readGraders(fields),
      formula: fields.text('calculate_output'),
      invalidGrade: fields.number('invalid_grade') ?? 0,
    }),
  },
}

/** Kinds that are known and not here, with what to use instead. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  python: 'string_check, text_similarity and multi need no code; --reward takes a program in any language',
  endpoint: '--reward takes a program that asks the endpoint',
  score_model: 'string_check, text_similarity and multi ask no model; createJudge of trainyard/rl scores groups by one',
  label_model: 'string_check, text_similarity and multi ask no model; createJudge of trainyard/rl scores groups by one',
}

export const GRADER_KINDS = Object.keys(KINDS) as readonly Grader['type'][]
/** Graders of one `multi`. */
const MOST_GRADERS = 64
const LONGEST_NAME = 256

/**
 * Reads a grader.
 *
 * @param path how its fields are named in refusals
 * @throws {InvalidRequestError} `invalid_grader` with the path of what is wrong
 */
export function readGrader(value: unknown, path = 'grader'): Grader {
  return readOne(value, path, null)
}

function readOne(value: unknown, path: string, key: string | null): Grader {
  const fields = fieldsOf(value, path)
  const { type } = fields.object
  if (typeof type === 'string' && Object.hasOwn(ELSEWHERE, type)) {
    throw fields.wrong('type', `graders of the kind ${type} do not run here`, { hint: ELSEWHERE[type] })
  }
  const kind = fields.choice('type', GRADER_KINDS)
  const { fields: known, read } = KINDS[kind]
  fields.only(['type', 'name', 'pass_threshold', ...known], kind)
  const name = fields.optionalText('name') ?? key ?? kind
  if (name.length > LONGEST_NAME) throw fields.wrong('name', `a name has at most ${LONGEST_NAME} characters`)
  return { ...read(fields), name, passThreshold: fields.number('pass_threshold') } as Grader
}

/** A map; of a list the names are the keys, and one grader alone, as the SDK's types have it, is a list of one. */
function readGraders(fields: Fields): ReadonlyMap<string, SingleGrader> {
  const given = fields.object['graders']
  const path = fields.at('graders')
  const list = Array.isArray(given) ? given : isJsonObject(given) && typeof given['type'] === 'string' ? [given] : null
  const entries: readonly (readonly [string, JsonValue, string])[] =
    list !== null
      ? list.map((each: JsonValue, i) => {
          const name = isJsonObject(each) ? each['name'] : undefined
          const at = list === given ? `${path}[${i}]` : path
          if (typeof name !== 'string')
            throw refuse(`${at}.name`, 'a grader of a list needs a name, which the formula calls it by')
          return [name, each, at]
        })
      : Object.entries(fieldsOf(given, path).object).map(([key, each]) => [key, each, `${path}.${key}`])
  if (entries.length === 0 || entries.length > MOST_GRADERS) {
    throw refuse(path, `a multi grader has 1 to ${MOST_GRADERS} graders, got ${entries.length}`)
  }
  const graders = new Map<string, SingleGrader>()
  for (const [key, each, at] of entries) {
    if (graders.has(key)) throw refuse(at, `two graders are called ${key}`)
    const grader = readOne(each, at, key)
    if (grader.type === 'multi') throw refuse(`${at}.type`, 'a multi grader holds no other one')
    graders.set(key, grader)
  }
  return graders
}

function refuse(
  param: string,
  message: string,
  options: { readonly hint?: string | undefined } = {},
): InvalidRequestError {
  return new InvalidRequestError('invalid_grader', `${param}: ${message}`, { param, ...options })
}

type Fields = ReturnType<typeof fieldsOf>

/** Reads fields of an object, and names those that are wrong. */
function fieldsOf(value: unknown, path: string) {
  if (!isJsonObject(value)) throw refuse(path, `expected an object, got ${kindOf(value)}`)
  const object: JsonObject = value
  const at = (name: string): string => `${path}.${name}`
  const wrong = (name: string, message: string, options = {}): InvalidRequestError => refuse(at(name), message, options)
  const expected = (name: string, what: string): InvalidRequestError =>
    wrong(name, `expected ${what}, got ${kindOf(object[name])}`)
  function optionalText(name: string): string | null {
    const text = object[name] ?? null
    if (text !== null && typeof text !== 'string') throw expected(name, 'a text')
    return text
  }
  return {
    object,
    at,
    wrong,
    optionalText,
    text: (name: string): string => {
      const text = optionalText(name)
      if (text === null) throw expected(name, 'a text')
      return text
    },
    number: (name: string): number | null => {
      const number = object[name] ?? null
      const plain = isExactNumber(number) ? valueOfNumber(number) : number
      if (plain !== null && (typeof plain !== 'number' || !Number.isFinite(plain))) throw expected(name, 'a number')
      return plain
    },
    choice: <T extends string>(name: string, words: readonly T[], also: Readonly<Record<string, T>> = {}): T => {
      const given = object[name]
      const word = typeof given === 'string' ? (also[given] ?? given) : given
      const found = words.find((each) => each === word)
      if (found === undefined) throw wrong(name, `expected ${listOf(words)}, got ${sayWord(given)}`)
      return found
    },
    only: (names: readonly string[], what: string): void => {
      const unknown = Object.keys(object).find((name) => !names.includes(name))
      if (unknown === undefined) return
      const near = closest(unknown, names)
      throw wrong(unknown, `is no field of a ${what} grader`, {
        hint: near === undefined ? `its fields are ${names.join(', ')}` : `did you mean ${near}?`,
      })
    },
  }
}

const listOf = (words: readonly string[]): string => `${words.slice(0, -1).join(', ')} or ${words.at(-1) ?? ''}`
const sayWord = (value: unknown): string => (typeof value === 'string' ? `"${value.slice(0, 60)}"` : kindOf(value))

function kindOf(value: unknown): string {
  if (value === undefined) return 'nothing'
  if (value === null) return 'null'
  return Array.isArray(value) ? 'a list' : `a value of type ${isExactNumber(value) ? 'number' : typeof value}`
}
