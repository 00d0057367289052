/**
 * What a demo reports while it runs, in the form `--json` prints it. Times are seconds since the command was started.
 */
import type { JobKind } from '#contract/wire/job-words.js'

/** The kinds of job a demo shows. */
export const DEMO_KINDS = ['rl', 'sft'] as const satisfies readonly JobKind[]
export type DemoKind = (typeof DEMO_KINDS)[number]

/** Who learns what. */
export interface DemoStarted {
  readonly object: 'demo.started'
  readonly kind: DemoKind
  readonly task: string
  readonly teaches: string
  readonly rule: string
  readonly model_id: string
  readonly model: string
  readonly base_model: string
  readonly seed: number
  readonly training_prompts: number
  readonly held_out_prompts: number
}

/** The held-out prompts were answered by the model of a step. */
export interface DemoMeasured {
  readonly object: 'demo.measured'
  readonly step: number
  /** Mean reward of `answers` answers. */
  readonly held_out_reward: number
  readonly answers: number
  readonly seconds: number
}

/** One step of the optimizer inside the job that makes checkpoint `step`. */
export interface DemoGradientStep {
  readonly object: 'demo.gradient_step'
  readonly step: number
  readonly gradient_step: number
  readonly loss: number | null
}

/** One turn of the loop: answers sampled, scored and trained on. Means over the job's gradient steps. */
export interface DemoStep {
  readonly object: 'demo.step'
  /** The checkpoint that the turn made; the one before when nothing was trained. */
  readonly step: number
  /** Mean reward of the answers that were trained on; null for fine-tuning. */
  readonly reward: number | null
  /** Groups, or example conversations, and those of them that could teach something. */
  readonly groups: number
  readonly trained_groups: number
  readonly gradient_steps: number
  /** Prompt and answer tokens: sampled, or trained on. */
  readonly tokens: number
  readonly loss: number | null
  readonly kl: number | null
  readonly entropy: number | null
  /** When it was measured after this turn. */
  readonly held_out_reward: number | null
  readonly job_id: string | null
  readonly seconds: number
}

/** A held-out prompt answered before and after; always the first answer of each. */
export interface DemoSample {
  readonly prompt: string
  readonly before: string
  readonly after: string
  readonly reward_before: number
  readonly reward_after: number
}

/** The end, and why it came. */
export interface DemoFinished {
  readonly object: 'demo.finished'
  readonly kind: DemoKind
  readonly task: string
  readonly model_id: string
  readonly model: string
  readonly reason: 'steps' | 'goal' | 'time' | 'nothing_to_learn'
  readonly step: number
  readonly before: number
  readonly after: number
  readonly gain: number
  readonly tokens: number
  readonly seconds: number
  readonly held_out: readonly { readonly step: number; readonly reward: number }[]
  readonly samples: readonly DemoSample[]
}

export type DemoEvent = DemoStarted | DemoMeasured | DemoGradientStep | DemoStep | DemoFinished
