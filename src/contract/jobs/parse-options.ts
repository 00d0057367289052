/**
 * The options of training jobs as clients send them: schemas made from the rows of `contract/jobs/`. Scalars are read as
 * leniently as everywhere (`lax.ts`). Null counts as absent; whoever parses strips it first. Knows no option.
 */
import { z } from 'zod'
import { assertNever } from '#base/util/assert-never.js'
import type { JsonObject, JsonValue } from '#base/util/json.js'
import { RequestValidationError, toSentences, toValidationProblems } from '#contract/wire/errors.js'
import { laxBoolean, laxInteger, laxNumber } from '#contract/wire/lax.js'
import type { OptionRow, OptionTable } from './option.js'

const SCHEMAS = new Map<OptionTable, z.ZodType<Record<string, JsonValue>>>()

/**
 * Reads options and fills in the defaults of their rows; one without a default that is not given is absent.
 *
 * @param raw without nulls
 * @param root where the options stand in the request: `config` or `experimental_config`
 * @throws {RequestValidationError} `invalid_value` with one problem for every wrong option
 */
export function parseOptions(table: OptionTable, raw: JsonObject, root: string): JsonObject {
  const schema = SCHEMAS.get(table) ?? objectOf(table)
  SCHEMAS.set(table, schema)
  const result = schema.safeParse(raw)
  if (result.success) return result.data
  const problems = toValidationProblems(result.error.issues, root, raw).map((problem) => ({
    ...problem,
    loc: ['body', ...problem.loc],
  }))
  throw new RequestValidationError(problems, { code: 'invalid_value', message: toSentences(problems, raw, 2) })
}

function objectOf(table: OptionTable): z.ZodType<Record<string, JsonValue>> {
  const shape: Record<string, z.ZodType<JsonValue | undefined>> = {}
  for (const [name, row] of Object.entries(table)) {
    const schema = schemaOf(row)
    if (schema !== null) shape[name] = row.default === null ? schema.optional() : schema.default(row.default)
  }
  return z.object(shape) as z.ZodType<Record<string, JsonValue>>
}

/** An object of any fields but the reserved ones, each of which is a problem of its own. */
function fieldsOf(reserved: readonly string[]): z.ZodType<JsonObject> {
  return z.record(z.string(), z.json()).superRefine((fields, context) => {
    for (const name of reserved) {
      if (!Object.hasOwn(fields, name)) continue
      context.addIssue({
        code: 'custom',
        path: [name],
        message: 'cannot be set: its value comes from elsewhere',
        params: { type: 'extra_forbidden' },
      })
    }
  })
}

/** One of the choices; names of other trainers are refused with ours. */
function choiceOf(choices: readonly string[], others?: Readonly<Record<string, string>>): z.ZodType<string> {
  return withOthers(z.enum(choices as readonly [string, ...string[]]), others)
}

function withOthers<Value extends JsonValue>(
  known: z.ZodType<Value>,
  others: Readonly<Record<string, string>> = {},
): z.ZodType<Value> {
  if (Object.keys(others).length === 0) return known
  const foreign = z.any().superRefine((value: unknown, context) => {
    if (typeof value !== 'string' || !Object.hasOwn(others, value)) return
    context.addIssue({ code: 'custom', message: `"${value}" is ${others[value]} here` })
  })
  return foreign.pipe(known)
}

/** Names of the choices, in a list or behind commas. */
function namesOf(choices: readonly string[]): z.ZodType<JsonValue> {
  const names = z.array(z.enum(choices as readonly [string, ...string[]])).min(1)
  return z.preprocess(
    (value) => (typeof value === 'string' ? value.split(',').map((name) => name.trim()) : value),
    names,
  )
}

/** Null for what nothing reads. */
function schemaOf(row: OptionRow): z.ZodType<JsonValue> | null {
  switch (row.type) {
    case 'number': {
      const number = laxNumber(row.bounds)
      return row.takesList === true ? z.union([z.array(number).min(1), number]) : number
    }
    case 'integer': {
      const integer = laxInteger(row.bounds)
      return row.word === undefined ? integer : z.union([z.literal(row.word.text), integer])
    }
    case 'boolean':
      return withOthers(laxBoolean(), row.others)
    case 'choice':
      return choiceOf(row.choices, row.others)
    case 'names':
      return namesOf(row.choices)
    case 'text':
      return z.string().min(1).max(row.maxLength)
    case 'object':
      return objectOf(row.rows)
    case 'fields':
      return fieldsOf(row.reserved)
    case 'unread':
      return null
    default:
      return assertNever(row)
  }
}
