/**
 * A reward as JSON, tried on answers that a job kept: one after another, through the route that anybody may ask.
 */
import type { RolloutGroupDetail, RolloutTrajectory } from '#contract/wire/training/rollouts.js'
import { ask } from './client.js'
import { jobApi } from './rollouts.js'

export const GRADERS_API = '/v1/fine_tuning/alpha/graders/'

/** What the page reads of the server's answer. */
export interface Grade {
  readonly reward: number
  readonly metadata: {
    /** What went wrong; the reward is 0 then. */
    readonly error_details: readonly { readonly flag: string; readonly grader: string; readonly message: string }[]
    readonly passed: Readonly<Record<string, boolean>>
  }
  /** By the keys of the graders of a `multi`. */
  readonly sub_rewards: Readonly<Record<string, number>>
  readonly model_grader_token_usage_per_model: Readonly<
    Record<string, { readonly prompt_tokens: number; readonly completion_tokens: number }>
  >
}

export type JsonRecord = Readonly<Record<string, unknown>>

/** Where a reward begins; each is one that runs as it stands. */
export const EXAMPLES: readonly (readonly [title: string, grader: object])[] = [
  [
    'holds a text',
    { type: 'string_check', name: 'asks', operation: 'like', input: '{{sample.output_text}}', reference: '?' },
  ],
  [
    'is near to a field of the row',
    {
      type: 'text_similarity',
      name: 'near',
      evaluation_metric: 'rouge_l',
      input: '{{sample.output_text}}',
      reference: '{{item.answer}}',
    },
  ],
  [
    'several, by a formula',
    {
      type: 'multi',
      name: 'both',
      graders: {
        asks: {
          type: 'string_check',
          name: 'asks',
          operation: 'like',
          input: '{{sample.output_text}}',
          reference: '?',
        },
        kind: {
          type: 'string_check',
          name: 'kind',
          operation: 'ilike',
          input: '{{sample.output_text}}',
          reference: 'sorry',
        },
      },
      calculate_output: '0.5 * asks + 0.5 * kind',
    },
  ],
]

export function toText(grader: object): string {
  return JSON.stringify(grader, null, 2)
}

/** What was written stays while the page does, whatever else is looked at meanwhile. */
export const written = { grader: toText(EXAMPLES[0]?.[1] ?? {}), row: '{}', sample: '', loop: '' }

/** @returns what stands there, or what is wrong with it */
export function readRecord(text: string): JsonRecord | string {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as JsonRecord
    return 'it must be a JSON object'
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

interface Tried {
  readonly grader: JsonRecord
  readonly item: JsonRecord
  readonly job: string
  readonly group: number
  readonly member: RolloutGroupDetail['members'][number]
}

/** Grades the last answer of a kept trajectory, its calls of tools included. @throws {ApiError} */
export async function gradeKept({ grader, item, job, group, member }: Tried, signal: AbortSignal): Promise<Grade> {
  const path = jobApi(job, `/groups/${group}/trajectories/${member.index}`)
  const kept = await ask<RolloutTrajectory>(path, { signal })
  const last = kept.histories[0]?.messages.findLast(({ is_sampled: isSampled }) => isSampled)
  const choice = { index: 0, finish_reason: last?.finish_reason ?? null, message: last?.message }
  const sample = last === undefined ? member.answer : { choices: [choice] }
  return await gradeText(grader, item, sample, signal)
}

/** Tries a grader on a row and the text of an answer. @throws {ApiError} */
export async function gradeText(
  grader: JsonRecord,
  item: JsonRecord,
  sample: string | JsonRecord,
  signal: AbortSignal,
): Promise<Grade> {
  return await ask<Grade>(`${GRADERS_API}run`, { json: { grader, item, model_sample: sample }, signal })
}

/** Asks whether a grader is one, without an answer. @throws {ApiError} with the path of what is wrong */
export async function checkGrader(grader: JsonRecord, signal: AbortSignal): Promise<void> {
  await ask(`${GRADERS_API}validate`, { json: { grader }, signal })
}

/** Beginning and end of what a JSON path leads to, by its keys in their order; null where a key is not there. */
export function placeOf(text: string, path: string): readonly [start: number, end: number] | null {
  let at = 0
  let found: readonly [number, number] | null = null
  for (const [, key = '', index] of path.matchAll(/([^.[\]]+)|\[(\d+)\]/g)) {
    // places of a list are counted, not named
    if (index !== undefined || /^\d+$/.test(key)) continue
    const name = JSON.stringify(key)
    const start = text.indexOf(name, at)
    if (start === -1) return found
    at = start + name.length
    found = [start, at]
  }
  return found
}
