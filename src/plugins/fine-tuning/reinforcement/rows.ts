/**
 * Rows of reinforcement jobs: a conversation that the model is to answer, with tools and a form of the answer if it has any,
 * and whatever else the grader's templates name.
 */
import { AppError, DataError, InvalidRequestError } from '#base/errors/errors.js'
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import { checkMessages, checkTools, readJsonLines, rowAt } from '#formats/rows/examples/sft-example.js'
import { lineError } from '#formats/rows/json-lines.js'
import { rowPathsOf } from '#plugins/graders/grading/check.js'
import type { Grader } from '#plugins/graders/grading/spec.js'
import { valueAt } from '#plugins/graders/grading/template.js'
import { formatProblem } from './response-format.js'

const ROLES = ['system', 'developer', 'user', 'assistant', 'tool']
const LAST_ROLES = ['user', 'tool']
/** Lines that are named of those without a value. */
const LINES_SAID = 5

export interface CheckedRows {
  readonly count: number
  /** What is worth saying of them: values that templates name and some rows do not have. */
  readonly notes: readonly string[]
}

/**
 * @param file its field in the request, which refusals name, and the most rows that it may have
 * @throws {AppError} for a row that is none, with its line; `invalid_grader` for a path of no row
 */
export async function checkRows(
  source: AsyncIterable<Uint8Array>,
  { field, most }: { readonly field: string; readonly most: number },
  { grader, param }: { readonly grader: Grader; readonly param: string },
): Promise<CheckedRows> {
  const gaps = rowPathsOf(grader).map((path) => ({ path, count: 0, lines: [] as number[] }))
  let count = 0
  try {
    for await (const { value, number } of readJsonLines(source)) {
      const item = checkRow(value, number)
      count += 1
      if (count > most) throw lineError('too_many_rows', number, `is row ${count}: there may be ${most}`)
      for (const gap of gaps) {
        if (valueAt(gap.path, { item, sample: {} }) !== undefined) continue
        gap.count += 1
        if (gap.lines.length < LINES_SAID) gap.lines.push(number)
      }
    }
  } catch (error) {
    if (!(error instanceof AppError) || error.param !== undefined || error.category !== 'invalid_request') throw error
    const { code, message, hint, details } = error
    throw new DataError(code, message, { param: field, hint, details })
  }
  const missing = gaps.find((gap) => gap.count === count)
  if (missing !== undefined) {
    throw new InvalidRequestError('invalid_grader', `{{ ${missing.path.text} }} is in no row of ${field}, or null`, {
      param,
      hint: 'a template names fields of rows as {{ item.field }}',
    })
  }
  return { count, notes: gaps.filter((gap) => gap.count > 0).map((gap) => sayGap(gap, field, count)) }
}

function sayGap(
  {
    path,
    count,
    lines,
  }: { readonly path: { readonly text: string }; readonly count: number; readonly lines: number[] },
  field: string,
  rows: number,
): string {
  const more = count > lines.length ? ' and others' : ''
  const where = `line${count === 1 ? '' : 's'} ${lines.join(', ')}${more}`
  return `{{ ${path.text} }} is not in ${count} of the ${rows} rows of ${field}, or null there (${where}): they are graded 0`
}

/** @throws {DataError} with the line */
export function checkRow(value: unknown, number: number): JsonObject {
  if (!isJsonObject(value)) throw lineError('invalid_example', number, 'must be an object with messages')
  const row = rowAt(number, undefined)
  const messages = checkMessages(value['messages'], 'messages', row)
  messages.forEach(({ role }, m) => {
    if (ROLES.includes(String(role))) return
    throw lineError('invalid_example', number, `has messages[${m}].role "${String(role).slice(0, 60)}"`, {
      hint: `roles are ${ROLES.join(', ')}`,
    })
  })
  const last = String(messages.at(-1)?.['role'])
  if (!LAST_ROLES.includes(last)) {
    throw lineError(
      'wrong_last_role',
      number,
      `must end with a message of ${LAST_ROLES.join(' or ')}, not of ${last}`,
      {
        hint: 'the model answers the last message; a right answer is a field of the row that the grader names',
      },
    )
  }
  checkTools(value, row)
  const format = value['response_format'] ?? null
  const problem = format === null ? null : formatProblem(format)
  if (problem !== null) throw lineError('invalid_example', number, `has a wrong form of its answer: ${problem}`)
  return value
}
