/**
 * Checks a file of rows before it is known which kind of job it is for: its first row tells whether it holds conversations,
 * preferences or answers with labels, and the reader of those finds what is wrong, in the words of the job that would refuse it.
 *
 * Of a large file only the beginning is read, because the upload waits for the answer; a job reads all of it.
 */
import { AppError } from '#base/errors/errors.js'
import { isJsonObject } from '#base/util/json.js'
import { labelOf } from '#contract/wire/training/row-forms.js'
import { headOf } from '../json-lines.js'
import { countPreferenceExamples } from './preference-example.js'
import { countSftExamples, readJsonLines } from './sft-example.js'
import { countUnpairedExamples } from './unpaired-example.js'

/** Bytes that are read; the line they end in is read to its end. */
export const CHECKED_BYTES = 64 * 1024 ** 2
const PREFERENCE_FIELDS = ['chosen', 'rejected', 'preferred_output', 'non_preferred_output']

/**
 * @param open the file's bytes from its beginning, decompressed; called twice
 * @returns the error of the reader; null where the rows are right as far as they were read
 */
export async function findRowProblem(
  open: () => Promise<AsyncIterable<Uint8Array>>,
  maxBytes = CHECKED_BYTES,
): Promise<AppError | null> {
  try {
    const count = readerOf(await firstOf(await open()))
    await count(headOf(await open(), maxBytes))
    return null
  } catch (error) {
    if (error instanceof AppError && error.category === 'invalid_request') return error
    throw error
  }
}

async function firstOf(source: AsyncIterable<Uint8Array>): Promise<unknown> {
  for await (const { value } of readJsonLines(source)) return value
  return null
}

function readerOf(row: unknown): typeof countSftExamples {
  if (!isJsonObject(row)) return countSftExamples
  const has = (name: string): boolean => (row[name] ?? null) !== null
  if (PREFERENCE_FIELDS.some(has)) return countPreferenceExamples
  const isLabelled = has('prompt') && has('completion') && labelOf(row['label']) !== null
  return isLabelled ? countUnpairedExamples : countSftExamples
}
