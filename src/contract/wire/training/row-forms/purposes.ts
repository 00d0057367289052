/**
 * What converted rows are for (conversations, preferences, prompts), and the word that `trainyard data convert --to`
 * has for it.
 */
import type { JobKind } from '../../job-words.js'

/** What is asked of rows: conversations and preferences train, prompts are answered by `rollout` and `eval`. */
export type RowPurpose = 'conversation' | 'preference' | 'prompt'

/** The word that `trainyard data convert --to` takes. */
export type ConvertTarget = Exclude<JobKind, 'rl'> | 'prompts'

export const TARGET_OF: Readonly<Record<RowPurpose, ConvertTarget>> = {
  conversation: 'sft',
  preference: 'dpo',
  prompt: 'prompts',
}

export const CONVERT_TARGETS: readonly ConvertTarget[] = Object.values(TARGET_OF)

/** Of rows that train. */
export type TrainingTarget = Exclude<ConvertTarget, 'prompts'>
export const TRAINING_TARGETS = CONVERT_TARGETS.filter((target) => target !== TARGET_OF.prompt) as [
  TrainingTarget,
  ...TrainingTarget[],
]

/** What the word means. */
export const PURPOSE_OF: ReadonlyMap<ConvertTarget, RowPurpose> = new Map(
  (Object.keys(TARGET_OF) as RowPurpose[]).map((purpose) => [TARGET_OF[purpose], purpose]),
)
