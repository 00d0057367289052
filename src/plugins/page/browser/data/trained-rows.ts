/**
 * What a job by examples or preferences trained on: its first rows as they came, taken apart for reading, and a plan of them that
 * counts what trains. Of the forms of rows it knows where the prompt and the answers stand, and no more.
 */
import type { TrainingPlan } from '#contract/wire/training/plan.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { type FileRow, type FirstRows, readFirstRows } from './file-rows.js'
import { planRows } from './train/request.js'

interface TrainedRow {
  readonly line: number
  readonly prompt: string
  readonly answer: string
  /** Null: the row has one answer. */
  readonly rejected: string | null
  /** What multiplies its loss; null: the row does not say. */
  readonly weight: number | null
}

const pathOf = (job: Pick<TrainingJob, 'id'>): string => `/v1/preview/training-jobs/${encodeURIComponent(job.id)}/data`

/** @throws {ApiError} `training_data_not_kept` where they are gone */
export function readTrainedRows(job: Pick<TrainingJob, 'id'>, signal: AbortSignal): Promise<FirstRows> {
  return readFirstRows(pathOf(job), signal)
}

/** What a job of the same options would do with these rows alone. @throws {ApiError} */
export function planTrainedRows(job: TrainingJob, rows: readonly FileRow[]): Promise<TrainingPlan> {
  const { experimental_config: inner, ...config } = job.config
  const isObject = typeof inner === 'object' && inner !== null && !Array.isArray(inner)
  const text = rows.map((row) => `${row.text}\n`).join('')
  return planRows(job, text, {
    ...withoutCounts(config),
    ...(isObject ? { experimental_config: withoutCounts(inner) } : {}),
  })
}

/** Options that fit the number of all rows: a few of them have other batches, and none to hold out. */
function withoutCounts(config: TrainingJob['config']): TrainingJob['config'] {
  const { validation_split: _, learning_rate: __, ...rest } = config
  return rest
}

export function toTrainedRow({ line, value, text }: FileRow): TrainedRow {
  const found = value === null ? null : partsOf(value)
  const weight = typeof value?.['weight'] === 'number' ? value['weight'] : null
  return { line, weight, ...(found ?? { prompt: text, answer: '', rejected: null }) }
}

type Parts = Pick<TrainedRow, 'prompt' | 'answer' | 'rejected'>
type Value = Readonly<Record<string, unknown>>

function partsOf(value: Value): Parts | null {
  const { messages, input, prompt, completion } = value
  if (Array.isArray(messages)) {
    const last = messages.at(-1)
    return { prompt: textOf(messages.slice(0, -1)), answer: textOf([last], false), rejected: null }
  }
  const chosen = value['chosen'] ?? value['preferred_output']
  if (chosen !== undefined) {
    const rejected = value['rejected'] ?? value['non_preferred_output']
    const asked = prompt ?? (input as Value | undefined)?.['messages'] ?? ''
    return { prompt: textOf(asked), answer: textOf(chosen, false), rejected: textOf(rejected, false) }
  }
  if (completion === undefined) return null
  // an answer beside its verdict
  return value['label'] === false
    ? { prompt: textOf(prompt), answer: '', rejected: textOf(completion, false) }
    : { prompt: textOf(prompt), answer: textOf(completion, false), rejected: null }
}

/** @param hasRoles whether it is said whose turn each is */
function textOf(value: unknown, hasRoles = true): string {
  if (typeof value === 'string') return value
  if (!Array.isArray(value)) return value === undefined ? '' : JSON.stringify(value)
  return value
    .map((message: unknown) => {
      const { role, content } = (message ?? {}) as { readonly role?: unknown; readonly content?: unknown }
      const text = typeof content === 'string' && content !== '' ? content : JSON.stringify(message)
      return hasRoles && value.length > 1 && typeof role === 'string' ? `${role}: ${text}` : text
    })
    .join('\n')
}
