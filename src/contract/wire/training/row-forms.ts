/**
 * Training rows in forms that a job does not read, and files that are no JSON Lines: what they are, what is expected instead, and the
 * command that converts them.
 *
 * Both sides of HTTP say it in the same sentence. A row in a form that is read is never refused here, whatever else stands in it.
 * Knows nothing of lines and errors.
 */

import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { command } from '../command-words.js'
import {
  convertByForm,
  IS_READ,
  isLabelled,
  LABELLED_NAME,
  ROW_FORMS,
  type RowKind,
  WANTED,
} from './row-forms/forms.js'
import { TARGET_OF } from './row-forms/purposes.js'
import { has, isPair, isText } from './row-forms/row-parts.js'

export type { RowKind } from './row-forms/forms.js'
export { isSaid, READ_FIELDS, trainWordOf, unreadIn, withWeightOfWord } from './row-forms/read-fields.js'
export { labelOf, systemOf, systemTextOf } from './row-forms/row-parts.js'

export interface RowProblem {
  /** What follows the name of the row or the file: `is a ShareGPT row (…), expected …`. */
  readonly problem: string
  readonly hint: string
}

const EXPECTED: Readonly<Record<RowKind, string>> = {
  conversation: 'messages, or prompt and completion',
  preference: 'prompt, chosen and rejected',
}
const TRAINED_BY: Readonly<Record<RowKind | 'trajectory', string>> = {
  conversation: 'conversations train in supervised jobs (trainyard train sft, POST /v1/preview/sft-training-jobs)',
  preference: 'preferences train in preference jobs (trainyard train dpo, POST /v1/preview/dpo-training-jobs)',
  trajectory: 'trajectory groups train in RL jobs (trainyard train rl, POST /v1/preview/training-jobs)',
}

/** As a conversation such a row would be read, and bad answers train like good ones. */
const LABELLED: Readonly<Record<RowKind, RowProblem>> = {
  conversation: {
    problem: `is ${LABELLED_NAME}, expected messages, or prompt and completion, that are all to be learned`,
    hint: 'keep the good ones: trainyard data convert rows.jsonl --to sft --out good.jsonl; or train preferences: all as they are (trainyard train dpo --loss-type kto), or good and bad ones paired (--to dpo); a label that says something else needs another name',
  },
  preference: {
    problem: `is ${LABELLED_NAME}, expected prompt, chosen and rejected`,
    hint: 'train it as it is with loss_type kto (--loss-type kto), or pair good and bad answers: trainyard data convert rows.jsonl --to dpo --out pairs.jsonl',
  },
}

/** Names that a row of a kind has; with one of them it is a near miss, which its reader names better. */
const OWN_NAMES: Readonly<Record<RowKind, readonly string[]>> = {
  conversation: ['messages', 'prompt', 'completion'],
  preference: ['prompt', 'chosen', 'rejected', 'input', 'preferred_output', 'non_preferred_output'],
}

/** What a row is that has the form of another trainer or of another kind of job; null for any other. */
export function findForeignRow(row: JsonObject, kind: RowKind): RowProblem | null {
  if (isLabelled(row) && (kind === 'conversation' || isPair(row))) return LABELLED[kind]
  if (IS_READ[kind](row)) return null
  const form = ROW_FORMS.find(({ matches }) => matches(row))
  const expected = `expected ${EXPECTED[kind]}`
  if (form !== undefined) {
    const problem = `is ${form.name}, ${expected}`
    if (form.kind !== kind) return { problem, hint: TRAINED_BY[form.kind] }
    const made = convertByForm(row, form)
    if (made === null) return null
    if (isJsonObject(made))
      return {
        problem,
        hint: command`convert it: trainyard data convert rows.jsonl --to ${TARGET_OF[kind]} --out converted.jsonl`,
      }
    return { problem, hint: made === form.convert ? made : `its ${made}: ${WANTED[kind]}` }
  }
  if (OWN_NAMES[kind].some((name) => has(row, name))) return null
  const names = Object.keys(row).filter((name) => has(row, name))
  const shown = names.slice(0, 5).map((name) => JSON.stringify(name.slice(0, 40)))
  const found = names.length === 0 ? 'nothing' : shown.join(', ')
  return { problem: `has ${found}${names.length > 5 ? ', …' : ''}, ${expected}`, hint: WANTED[kind] }
}

/** What is wrong with a file as a whole, by its first line that is not blank; null where its rows are to be looked at. */
export function findForeignFile(firstLine: string): RowProblem | null {
  const text = firstLine.trim()
  const expected = 'expected JSON Lines: one object a line'
  const hint = 'convert it: trainyard data convert rows.json --out converted.jsonl'
  if (text === '{') return { problem: `has JSON over several lines, ${expected}`, hint }
  if (!text.startsWith('[') || isListOfNoRows(text)) return null
  return { problem: `is one JSON array, ${expected}`, hint }
}

/** A line that is a list of anything but rows, as of messages, is a wrong row and not a wrong file. */
function isListOfNoRows(text: string): boolean {
  try {
    const [first] = JSON.parse(text) as readonly JsonValue[]
    return !isJsonObject(first) || isText(first['role'])
  } catch {
    return false
  }
}
