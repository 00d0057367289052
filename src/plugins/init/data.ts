/**
 * What a file of somebody's data is for `trainyard init FILE`: labels, pairs, conversations, preferences, labelled answers or prompts, and
 * its rows in the form that a task of that kind has. Of a large file as many rows are drawn as are trained on in minutes.
 */
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import { createRng } from '#base/util/rng.js'
import type { ColumnMap } from '#cli/input/column-map.js'
import { createProblems, displayPath, openInput } from '#cli/input/input-file.js'
import { readMappedRows } from '#cli/input/mapped-rows.js'
import { UsageError } from '#cli/terminal/errors.js'
import type { Io } from '#cli/terminal/io.js'
import { createRowConverter, purposeOf } from '#contract/wire/training/row-forms/convert-rows.js'
import { isLabelled } from '#contract/wire/training/row-forms/forms.js'
import type { RowPurpose } from '#contract/wire/training/row-forms/purposes.js'
import { hasAnswer } from '#plugins/rollout/reward.js'
import type { Source } from './task.js'

/** Rows that a small base model trains on in about ten minutes of two cores. */
export const MOST_ROWS = 5000
/** Answers of more characters are not compared letter by letter. */
const LONGEST_COMPARED = 80
/** So many different answers are labels, where each comes several times. */
const [MOST_LABELS, LEAST_REPEATED] = [50, 3]

export interface LookedAt {
  readonly source: Source
  readonly rows: readonly JsonObject[]
  /** In the file. */
  readonly total: number
  /** `120 texts with 3 labels (bad, good, mixed)` */
  readonly says: string
}

/**
 * Reads a file whole and says what it is.
 *
 * @param options.most rows that are kept, drawn by a fixed seed
 * @param options.onRecognised told which columns were recognised by what they hold
 * @throws {UsageError} `input_invalid` for rows that are broken or of several kinds; `unknown_columns` where nothing says what a column is
 */
export async function lookAt(
  path: string,
  io: Io,
  options: {
    readonly most: number
    readonly map: ColumnMap | undefined
    readonly onRecognised: (map: ColumnMap) => void
  },
): Promise<LookedAt> {
  const name = displayPath(path)
  const problems = createProblems()
  const rng = createRng('trainyard init rows')
  const rows: JsonObject[] = []
  let total = 0
  let reader: ReturnType<typeof readerOf> | null = null
  for await (const { where, row: placed, text } of readMappedRows(await openInput(path, io), name, {
    ...options,
    takesText: true,
  })) {
    const row = isJsonObject(placed)
      ? placed
      : text?.trimStart().startsWith('{') === false
        ? { prompt: text.trim() }
        : placed
    if (typeof row === 'string') {
      problems.add(where, row)
      continue
    }
    reader ??= readerOf(row, where)
    const made = reader.convert(row)
    if (typeof made === 'string') {
      problems.add(where, made)
      continue
    }
    total += 1
    // each row stays with the same chance, however many come
    const place = rows.length < options.most ? rows.length : rng.integer(total)
    if (place < options.most) rows[place] = made
  }
  problems.throwIfAny('correct or remove those rows: none is left out in silence')
  if (reader === null) throw new UsageError('input_invalid', `${name} holds no row`)
  return { ...describe(reader.purpose, reader.isLabelled, rows, total), rows, total }
}

function readerOf(first: JsonObject, where: string) {
  if (Array.isArray(first['trajectories'])) {
    throw new UsageError('input_invalid', `${where} is a trajectory group, which is trained on as it is`, {
      hint: 'trainyard train rl <model> --file <file>',
    })
  }
  const labelled = isLabelled(first)
  const isPrompt = typeof first['prompt'] === 'string' || Array.isArray(first['messages'])
  const found = labelled ? 'preference' : purposeOf(first)
  if (found === null && !isPrompt) {
    const columns = Object.keys(first)
    throw new UsageError(
      'unknown_columns',
      `${where}: which column is asked, and which one is answered? It has ${columns.join(', ')}`,
      {
        param: '--map',
        hint: `--map ${columns[0] ?? 'text'}=prompt,${columns[1] ?? 'label'}=completion`,
        details: { columns },
      },
    )
  }
  const purpose: RowPurpose = found === 'preference' ? 'preference' : 'prompt'
  const converter = createRowConverter(purpose, { keepsLabels: true })
  return {
    purpose,
    isLabelled: labelled,
    convert(row: JsonObject): JsonObject | string {
      if (isLabelled(row) !== labelled)
        return `is ${labelled ? 'no' : 'a'} labelled answer, as the first row is ${labelled ? 'one' : 'none'}`
      const made = converter.convert(row)
      if ('problem' in made) return made.problem
      const [only] = made.rows
      return only ?? 'holds nothing to train on'
    },
  }
}

function describe(
  purpose: RowPurpose,
  labelled: boolean,
  rows: readonly JsonObject[],
  total: number,
): Pick<LookedAt, 'source' | 'says'> {
  if (purpose === 'preference') {
    return labelled
      ? { source: 'labelled', says: `${total} answers, each good or bad (KTO)` }
      : { source: 'preferences', says: `${total} preferences: a better and a worse answer each` }
  }
  const answers = rows.filter(hasAnswer).map(({ answer }) => String(answer))
  if (answers.length === 0) return { source: 'checker', says: `${total} prompts without answers` }
  if (answers.length < rows.length) {
    throw new UsageError(
      'input_invalid',
      `${rows.length - answers.length} of ${rows.length} rows have no answer, the others have`,
      {
        hint: 'give every row one, or none',
      },
    )
  }
  const kinds = [...new Set(answers)]
  if (kinds.length <= MOST_LABELS && answers.length >= LEAST_REPEATED * kinds.length) {
    const shown = kinds
      .toSorted()
      .slice(0, 6)
      .map((kind) => kind.slice(0, 20))
    const more = kinds.length > shown.length ? ', …' : ''
    return { source: 'examples', says: `${total} texts with ${kinds.length} labels (${shown.join(', ')}${more})` }
  }
  const isShort = answers.filter(({ length }) => length <= LONGEST_COMPARED).length >= 0.9 * answers.length
  return isShort
    ? { source: 'examples', says: `${total} prompts with answers` }
    : { source: 'conversations', says: `${total} conversations with long answers` }
}
