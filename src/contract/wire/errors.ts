/**
 * Error bodies: FastAPI's `{detail: [{loc, msg, type}]}` for validation and OpenAI's `{error: {...}}`, sent together.
 *
 * Knows nothing of HTTP status codes; `service/http/middleware/errors.ts` chooses them. Error types and
 * texts follow pydantic 2.
 */
import { z } from 'zod'
import { InvalidRequestError } from '#base/errors/errors.js'

/** One failed field: where, what, and the stable type of failure. */
export const validationProblemSchema = z.object({
  loc: z.array(z.union([z.string(), z.number()])),
  msg: z.string(),
  type: z.string(),
})
export type ValidationProblem = z.infer<typeof validationProblemSchema>

/** OpenAI's error object; `code` is our stable code on preview routes and the HTTP status on chat, as vLLM sends it. */
export const errorObjectSchema = z.looseObject({
  message: z.string(),
  type: z.string(),
  param: z.string().nullable(),
  code: z.union([z.string(), z.number()]).nullable(),
  hint: z.string().nullish(),
  details: z.record(z.string(), z.json()).nullish(),
})
export type ErrorObject = z.infer<typeof errorObjectSchema>

/** Body of every refused request. `error` is the plain text "Unauthorized" on a chat request without a valid key. */
export const errorBodySchema = z.object({
  error: z.union([errorObjectSchema, z.string()]),
  detail: z.union([z.array(validationProblemSchema), z.string()]).optional(),
  request_id: z.string().optional(),
})
export type ErrorBody = z.infer<typeof errorBodySchema>

type Issue = z.core.$ZodIssue

const MAX_PROBLEMS = 50

/**
 * Turns schema issues into the published problems.
 *
 * @param issues issues of one failed parse
 * @param root first element of every `loc`: `body`, `query` or `path`
 * @param value what was parsed: how long the too long is, is said
 * @returns one problem per issue, at most 50, so that a hostile body cannot make a huge answer
 */
export function toValidationProblems(issues: readonly Issue[], root: string, value?: unknown): ValidationProblem[] {
  const problems: ValidationProblem[] = []
  collect(issues, [root], problems)
  return problems.map((problem) => {
    const given = SIZES.has(problem.type) ? valueAt(value, problem.loc.slice(1)) : undefined
    const isMeasured = typeof given === 'string' || Array.isArray(given)
    return isMeasured ? { ...problem, msg: `${problem.msg}, not ${given.length}` } : problem
  })
}

/** Types of problems whose message says how long the value is. */
const SIZES: ReadonlySet<string> = new Set(['string_too_long', 'too_long'])

function collect(issues: readonly Issue[], at: readonly (string | number)[], problems: ValidationProblem[]): void {
  for (const [n, issue] of issues.entries()) {
    if (problems.length >= MAX_PROBLEMS) return
    if (isOfWrongType(issue, issues[n - 1])) continue
    const loc = [...at, ...issue.path.map((part) => (typeof part === 'number' ? part : String(part)))]
    // pydantic reports every branch of a union; so do we
    if (issue.code === 'invalid_union' && issue.errors.length > 0) {
      for (const branch of issue.errors) collect(branch, loc, problems)
      continue
    }
    const [type, msg] = describe(issue)
    problems.push({ loc, msg, type })
  }
}

/** The length of a list where a text belongs, which the schema measures all the same. */
function isOfWrongType(issue: Issue, before: Issue | undefined): boolean {
  const isSize = issue.code === 'too_small' || issue.code === 'too_big'
  return isSize && before?.code === 'invalid_type' && before.path.join('.') === issue.path.join('.')
}

/**
 * Problems as one sentence each: the thing, what was expected and what was given.
 *
 * @param value what was checked
 * @param depth parts of every `loc` that lie above `value`
 */
export function toSentences(problems: readonly ValidationProblem[], value: unknown, depth: number): string {
  const sentences = problems.map(({ loc, msg, type }) => {
    const text = `${toJsonPath(loc.slice(1)) || `the ${loc[0]}`}: ${msg.slice(0, 1).toLowerCase()}${msg.slice(1)}`
    // a rule over several fields says itself what is wrong
    return type === 'missing' || type === 'value_error' || SIZES.has(type)
      ? text
      : `${text}, got ${shown(valueAt(value, loc.slice(depth)))}`
  })
  return sentences.join('; ')
}

const MAX_SHOWN = 100

function shown(value: unknown): string {
  if (value === undefined) return 'nothing'
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list'
  if (typeof value === 'object' && value !== null) return 'an object'
  return typeof value === 'string' ? JSON.stringify(value.slice(0, MAX_SHOWN)) : String(value)
}

function valueAt(value: unknown, path: readonly (string | number)[]): unknown {
  return path.reduce<unknown>(
    (inner, key) =>
      typeof inner === 'object' && inner !== null && Object.hasOwn(inner, key)
        ? (inner as Readonly<Record<string | number, unknown>>)[key]
        : undefined,
    value,
  )
}

/** Writes a location as a JSON path, for example `trajectory_groups[2].reward`. */
export function toJsonPath(loc: readonly (string | number)[]): string {
  let path = ''
  for (const part of loc) {
    if (typeof part === 'number') path += `[${part}]`
    else path += path === '' ? part : `.${part}`
  }
  return path
}

const EXPECTED: Readonly<Record<string, readonly [string, string]>> = {
  string: ['string_type', 'Input should be a valid string'],
  number: ['float_type', 'Input should be a valid number'],
  int: ['int_type', 'Input should be a valid integer'],
  boolean: ['bool_type', 'Input should be a valid boolean'],
  array: ['list_type', 'Input should be a valid list'],
  object: ['dict_type', 'Input should be a valid dictionary'],
  record: ['dict_type', 'Input should be a valid dictionary'],
}

function describe(issue: Issue): readonly [type: string, message: string] {
  switch (issue.code) {
    case 'custom': {
      const type: unknown = issue.params?.['type']
      return [typeof type === 'string' ? type : 'value_error', issue.message]
    }
    case 'invalid_type':
      if (issue.input === undefined && issue.message.endsWith('received undefined'))
        return ['missing', 'Field required']
      return EXPECTED[issue.expected] ?? ['type_error', issue.message]
    case 'invalid_value':
      return ['literal_error', `Input should be ${quoteAll(issue.values)}`]
    case 'invalid_format':
      if (issue.format === 'uuid' || issue.format === 'guid') return ['uuid_parsing', 'Input should be a valid UUID']
      return ['string_pattern_mismatch', issue.message]
    case 'too_small':
      if (issue.origin === 'string') return ['string_too_short', atLeast('String', Number(issue.minimum), 'character')]
      if (issue.origin === 'array') return ['too_short', atLeast('List', Number(issue.minimum), 'item')]
      return ['greater_than_equal', `Input should be greater than or equal to ${issue.minimum}`]
    case 'too_big':
      if (issue.origin === 'string') return ['string_too_long', atMost('String', Number(issue.maximum), 'character')]
      if (issue.origin === 'array') return ['too_long', atMost('List', Number(issue.maximum), 'item')]
      return ['less_than_equal', `Input should be less than or equal to ${issue.maximum}`]
    default:
      return ['value_error', issue.message]
  }
}

function atLeast(noun: string, count: number, unit: string): string {
  return `${noun} should have at least ${count} ${unit}${count === 1 ? '' : 's'}`
}

function atMost(noun: string, count: number, unit: string): string {
  return `${noun} should have at most ${count} ${unit}${count === 1 ? '' : 's'}`
}

function quoteAll(values: readonly unknown[]): string {
  const quoted = values.map((value) => `'${String(value)}'`)
  if (quoted.length < 2) return quoted.join('')
  return `${quoted.slice(0, -1).join(', ')} or ${quoted.at(-1) ?? ''}`
}

/**
 * A body, query or path that does not fit its schema. The message is vLLM's unless another one is given; `sentence` says the same
 * for routes that are not vLLM's.
 */
export class RequestValidationError extends InvalidRequestError {
  readonly problems: readonly ValidationProblem[]
  readonly sentence: string
  /** What the refused body says in the fields that its endpoint's row names (`told`). */
  readonly told: Readonly<Record<string, unknown>>

  constructor(
    problems: readonly ValidationProblem[],
    summary: {
      readonly code?: string
      readonly message?: string
      readonly sentence?: string
      readonly told?: Readonly<Record<string, unknown>> | undefined
    } = {},
  ) {
    const count = `${problems.length} validation error${problems.length === 1 ? '' : 's'}`
    const texts = problems.map(
      (problem) => `{'type': '${problem.type}', 'loc': ${toTuple(problem.loc)}, 'msg': '${problem.msg}'}`,
    )
    const path = toJsonPath(problems[0]?.loc.slice(1) ?? [])
    super(summary.code ?? 'invalid_request', summary.message ?? `${count}: ${texts.join(', ')}`, {
      param: path === '' ? undefined : path,
    })
    this.problems = problems
    this.sentence = summary.sentence ?? this.message
    this.told = summary.told ?? {}
  }
}

/** The problem of one field given by its JSON path. */
export function toProblem(root: string, path: string, msg: string, type: string): ValidationProblem {
  const parts = [...path.matchAll(/\[(\d+)\]|([^.[\]]+)/g)].map((match) =>
    match[1] === undefined ? (match[2] ?? '') : Number(match[1]),
  )
  return { loc: [root, ...parts], msg, type }
}

function toTuple(loc: readonly (string | number)[]): string {
  return `(${loc.map((part) => (typeof part === 'number' ? part : `'${part}'`)).join(', ')})`
}
