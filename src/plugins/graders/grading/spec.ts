/**
 * Graders as they are written: kinds, their fields, and what is refused, each by its path. What a field means is in
 * the file of its kind.
 */

import { InvalidRequestError } from '#base/errors/errors.js'
import { isExactNumber, valueOfNumber } from '#base/json/exact-number.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { closest } from '#base/util/suggest.js'
import { SIMILARITY_METRICS, type SimilarityMetric } from './similarity/similarity.js'

const OPERATIONS = ['eq', 'ne', 'like', 'ilike'] as const
const ROLES = ['user', 'assistant', 'system', 'developer'] as const
const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const
/** Parts of messages that hold text. */
const TEXT_PARTS: readonly JsonValue[] = ['text', 'input_text', 'output_text']

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

interface TextSimilarity extends Named {
  readonly type: 'text_similarity'
  readonly input: string
  readonly reference: string
  readonly metric: SimilarityMetric
}

/** A message to a model that grades; its parts are templates. */
interface GraderMessage {
  readonly role: (typeof ROLES)[number]
  readonly parts: readonly string[]
}

export interface Sampling {
  readonly temperature?: number
  readonly topP?: number
  readonly seed?: number
  readonly maxTokens?: number
  readonly reasoningEffort?: string
}

interface ScoreModel extends Named {
  readonly type: 'score_model'
  readonly messages: readonly GraderMessage[]
  readonly model: string
  readonly range: readonly [least: number, most: number]
  readonly sampling: Sampling
}

interface LabelModel extends Named {
  readonly type: 'label_model'
  readonly messages: readonly GraderMessage[]
  readonly model: string
  readonly labels: readonly string[]
  readonly passingLabels: readonly string[]
}

export type ModelGrader = ScoreModel | LabelModel

/** A server elsewhere that scores. */
export interface EndpointGrader extends Named {
  readonly type: 'endpoint'
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** Calls begun in a second; null: as many as come. */
  readonly perSecond: number | null
}

/** `grade(sample, item)` of a source; run where walls are (`python/`). */
interface PythonGrader extends Named {
  readonly type: 'python'
  readonly source: string
}

export interface MultiGrader extends Named {
  readonly type: 'multi'
  readonly graders: ReadonlyMap<string, SingleGrader>
  readonly formula: string
  /** The reward where the formula cannot be computed. */
  readonly invalidGrade: number
}

export type SingleGrader = StringCheck | TextSimilarity | ModelGrader | EndpointGrader | PythonGrader
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
  score_model: {
    fields: ['input', 'model', 'range', 'sampling_params'],
    read: (fields) => ({
      type: 'score_model',
      messages: readMessages(fields),
      model: fields.text('model'),
      range: readRange(fields),
      sampling: readSampling(fields),
    }),
  },
  label_model: {
    fields: ['input', 'model', 'labels', 'passing_labels'],
    read: (fields) => {
      const labels = fields.texts('labels')
      const passingLabels = fields.texts('passing_labels')
      const stranger = passingLabels.find((label) => !labels.includes(label))
      if (stranger !== undefined) throw fields.wrong('passing_labels', `${stranger} is none of the labels`)
      return { type: 'label_model', messages: readMessages(fields), model: fields.text('model'), labels, passingLabels }
    },
  },
  endpoint: {
    fields: ['url', 'headers', 'rate_limit'],
    read: (fields) => {
      const url = fields.text('url')
      if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
        throw fields.wrong('url', `expected an https: or http: address, got "${url.slice(0, 60)}"`)
      }
      const perSecond = fields.number('rate_limit')
      if (perSecond !== null && !(perSecond > 0)) throw fields.wrong('rate_limit', 'expected calls a second, above 0')
      return { type: 'endpoint', url, headers: readHeaders(fields), perSecond }
    },
  },
  python: {
    // the image of the hosted service is none of ours: kept, and not read
    fields: ['source', 'image_tag'],
    read: (fields) => {
      const source = fields.text('source')
      fields.optionalText('image_tag')
      if (Buffer.byteLength(source) > LONGEST_SOURCE) {
        throw fields.wrong('source', `a source has at most ${LONGEST_SOURCE} bytes, got ${Buffer.byteLength(source)}`)
      }
      return { type: 'python', source }
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

const GRADER_KINDS = Object.keys(KINDS) as readonly Grader['type'][]
/** Graders of one `multi`. */
const MOST_GRADERS = 64
const LONGEST_NAME = 256
/** Bytes of a Python grader, as its publisher has it. */
const LONGEST_SOURCE = 256 * 1024

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
  const kind = fields.choice('type', GRADER_KINDS)
  const { fields: known, read } = KINDS[kind]
  fields.only(['type', 'name', 'pass_threshold', ...known], kind)
  const name = fields.optionalText('name') ?? key ?? kind
  if (name.length > LONGEST_NAME) throw fields.wrong('name', `a name has at most ${LONGEST_NAME} characters`)
  return { ...read(fields), name, passThreshold: fields.number('pass_threshold') } as Grader
}

/** A text, a part or a list of both, each of which is a template. */
function readMessages(fields: Fields): readonly GraderMessage[] {
  const messages = fields.list('input').map((value, i) => {
    const message = fieldsOf(value, `${fields.at('input')}[${i}]`)
    message.only(['role', 'content', 'type'], 'message of a')
    const { content } = message.object
    const parts = (Array.isArray(content) ? content : [content ?? null]).map((part: JsonValue): string => {
      if (typeof part === 'string') return part
      if (isJsonObject(part) && TEXT_PARTS.includes(part['type'] ?? null) && typeof part['text'] === 'string') {
        return part['text']
      }
      const type = isJsonObject(part) ? part['type'] : null
      throw message.wrong('content', `expected text, got ${typeof type === 'string' ? type : kindOf(part)}`, {
        hint: 'images and audio are not graded here',
      })
    })
    return { role: message.choice('role', ROLES), parts }
  })
  return messages
}

function readHeaders(fields: Fields): EndpointGrader['headers'] {
  if ((fields.object['headers'] ?? null) === null) return {}
  const { object, text } = fieldsOf(fields.object['headers'], fields.at('headers'))
  const names = Object.keys(object)
  const wrong = names.find((name) => !/^[\w-]{1,128}$/.test(name) || !/^[\t -~]*$/.test(text(name)))
  if (wrong !== undefined) throw fields.wrong('headers', `${JSON.stringify(wrong.slice(0, 60))} is no header`)
  return Object.fromEntries(names.map((name) => [name.toLowerCase(), text(name)]))
}

function readRange(fields: Fields): ScoreModel['range'] {
  const { range = null } = fields.object
  if (range === null) return [0, 1]
  const numbers = Array.isArray(range)
    ? range.map((each: JsonValue) => (isExactNumber(each) ? valueOfNumber(each) : each))
    : []
  const [least, most] = numbers
  if (numbers.length !== 2 || typeof least !== 'number' || typeof most !== 'number' || !(least < most)) {
    throw fields.wrong('range', 'expected two numbers that rise, as [0, 1]')
  }
  return [least, most]
}

function readSampling(fields: Fields): Sampling {
  if ((fields.object['sampling_params'] ?? null) === null) return {}
  const given = fieldsOf(fields.object['sampling_params'], fields.at('sampling_params'))
  // the SDK's types spell the limit so; the guide has it without its second s
  const limits = ['max_completions_tokens', 'max_completion_tokens']
  given.only(['temperature', 'top_p', 'seed', ...limits, 'reasoning_effort'], 'sampling_params of a')
  const [temperature, topP] = ['temperature', 'top_p'].map((name) => given.number(name))
  const seed = given.integer('seed')
  const maxTokens = limits.map((name) => given.integer(name)).find((limit) => limit !== null)
  const hasEffort = (given.object['reasoning_effort'] ?? null) !== null
  return {
    ...(temperature == null ? {} : { temperature }),
    ...(topP == null ? {} : { topP }),
    ...(seed == null ? {} : { seed }),
    ...(maxTokens == null ? {} : { maxTokens }),
    ...(hasEffort ? { reasoningEffort: given.choice('reasoning_effort', EFFORTS) } : {}),
  }
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
  function number(name: string): number | null {
    const number = object[name] ?? null
    const plain = isExactNumber(number) ? valueOfNumber(number) : number
    if (plain !== null && (typeof plain !== 'number' || !Number.isFinite(plain))) throw expected(name, 'a number')
    return plain
  }
  return {
    object,
    at,
    wrong,
    optionalText,
    list: (name: string): readonly JsonValue[] => {
      const list = object[name]
      if (!Array.isArray(list) || list.length === 0) throw expected(name, 'a list that is not empty')
      return list
    },
    texts: (name: string): readonly string[] => {
      const list = object[name]
      if (!Array.isArray(list) || list.length === 0 || !list.every((each) => typeof each === 'string')) {
        throw expected(name, 'a list of texts that is not empty')
      }
      return list
    },
    text: (name: string): string => {
      const text = optionalText(name)
      if (text === null) throw expected(name, 'a text')
      return text
    },
    number,
    integer: (name: string): number | null => {
      const plain = number(name)
      if (plain !== null && !Number.isSafeInteger(plain)) throw expected(name, 'a whole number')
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
