/**
 * Marks on answers: where they are kept, and what is said of one.
 */

import type { Model } from '#contract/wire/models.js'
import type { Mark } from '#contract/wire/training/marks.js'
import { ApiError } from './api-error.js'
import { ask } from './client.js'

/** What a reader says of an answer. */
export interface Judgement {
  readonly mark: Mark['mark']
  readonly edited: string | null
  readonly note: string | null
  /** Which other answer it is compared with, in the words of whoever asks. */
  readonly pair: string | null
}

/** The API's path of the marks of a model. */
export function marksApi(modelId: string, below = ''): string {
  return `/v1/preview/models/${encodeURIComponent(modelId)}/marks${below}`
}

/** What a fingerprint of an answer says: whose weights, and at which step; of a base model the step is 0. */
export function readFingerprint(text: string): { readonly modelId: string | null; readonly step: number | null } {
  const [, name = '', step] = /^(.*):step(\d+):/.exec(text) ?? []
  const isId = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(name)
  return { modelId: isId ? name : null, step: step === undefined ? null : Number(step) }
}

/**
 * Whose marks an answer of Play is kept with: the model that gave it, or where that is a base model the first one beside it that is none.
 *
 * @param fingerprints of the answer, then of those beside it
 * @throws {ApiError} where none is of a model
 */
export async function findOwner(
  fingerprints: readonly string[],
  signal: AbortSignal,
): Promise<{ readonly model: Model; readonly step: number | null }> {
  const read = fingerprints.map(readFingerprint)
  const id = read.find(({ modelId }) => modelId !== null)?.modelId ?? null
  if (id !== null) {
    const model = await ask<Model>(`/v1/preview/models/${encodeURIComponent(id)}`, { signal })
    return { model, step: read[0]?.step ?? null }
  }
  throw new ApiError('A base model keeps no marks.', {
    status: 0,
    hint: 'Add a column with the model that is to learn from them, and ask both.',
  })
}

/** Content of a message as text. */
export function contentOf(message: Mark['answer'][number] | undefined): string {
  const content = message?.['content'] ?? ''
  if (content !== '') return typeof content === 'string' ? content : JSON.stringify(content)
  const calls = message?.['tool_calls']
  return calls === undefined || calls === null ? '' : JSON.stringify(calls)
}
