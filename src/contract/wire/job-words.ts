/**
 * The closed lists of training jobs: kinds, states, types of events. Plain words without a schema, so that the command line
 * loads them in no time; the schemas are in `training-jobs.ts`.
 *
 * These are the only lists. What differs between kinds of job is a map over `JobKind`, so a new kind compiles only when every
 * such map has it.
 */

/** What a job trains by. */
export const JOB_KINDS = ['rl', 'sft', 'dpo'] as const
export type JobKind = (typeof JOB_KINDS)[number]
/** That which shows a model examples. */
export const EXAMPLES_KIND = 'sft' satisfies JobKind

export const JOB_STATUSES = ['queued', 'running', 'completed', 'failed', 'cancelled'] as const
export type JobStatus = (typeof JOB_STATUSES)[number]

export const EVENT_TYPES = ['training_started', 'gradient_step', 'training_ended', 'training_failed'] as const
export type EventType = (typeof EVENT_TYPES)[number]

/** True for a status no event can follow. */
export function isFinished(status: JobStatus): boolean {
  return status === 'completed' || status === 'failed' || status === 'cancelled'
}

/** True for the event that ends a job; a job has exactly one. */
export function isTerminalEvent(type: EventType): boolean {
  return type === 'training_ended' || type === 'training_failed'
}
