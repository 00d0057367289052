/**
 * What the page reads of loops: the server's training by a grader, step by step.
 */
import type { Activity } from '#contract/wire/activity.js'
import { ask } from './client.js'
import { live } from './live.js'
import { type Loaded, useLoad } from './load.js'

export const LOOPS_API = '/v1/preview/loops'
export const PHASES = ['sampling', 'grading', 'training', 'evaluating'] as const
type Status = 'queued' | 'running' | 'paused' | 'succeeded' | 'failed' | 'cancelled'

export interface Loop {
  readonly id: string
  readonly model_id: string
  readonly status: Status
  readonly phase: (typeof PHASES)[number] | null
  readonly step: number
  readonly steps: number
  readonly prompts_file: string
  readonly held_out_file: string | null
  readonly grader: Readonly<Record<string, unknown>>
  readonly limits: Readonly<Record<Spending, number | null>>
  readonly used: Readonly<Record<Spending | 'trained_tokens', number>>
  /** Oldest first; in lists the newest alone. */
  readonly evaluations: readonly { readonly step: number; readonly valid_reward: number }[]
  readonly training_job_id: string | null
  readonly error: { readonly code: string; readonly message: string } | null
  readonly created_at: string
  readonly [option: string]: unknown
}
type Spending = 'grader_tokens' | 'seconds' | 'endpoint_calls'

export type Values = readonly (number | null)[]

export interface LoopMetrics {
  readonly steps: readonly number[]
  readonly checkpoint_steps: readonly number[]
  readonly job_ids: readonly (string | null)[]
  readonly series: Readonly<Record<string, Values>>
  readonly totals: Readonly<Record<string, number>>
}

export interface LoopExample {
  readonly prompt: string
  readonly answer: string
  readonly reward: number
  readonly sub_rewards: Readonly<Record<string, number>>
  readonly passed: Readonly<Record<string, boolean>>
  readonly error_details: readonly { readonly grader: string; readonly flag: string; readonly message: string }[]
}

export interface LoopAnswers {
  readonly step: number | null
  readonly checkpoint_step: number | null
  readonly best: readonly LoopExample[]
  readonly worst: readonly LoopExample[]
}

export interface LoopEvent {
  readonly id: string
  readonly level: 'info' | 'warn' | 'error'
  readonly message: string
  readonly created_at: string
}

/** Without news, while it goes on. */
const POLL_MS = 3000
/** What it used is told by its record alone. */
const RECORD_MS = 10_000
/** Messages of a loop that are shown. */
export const MOST_EVENTS = 500

export const loopApi = (id: string, below = ''): string => `${LOOPS_API}/${encodeURIComponent(id)}${below}`
export const isOver = ({ status }: Pick<Loop, 'status'>): boolean => !['queued', 'running', 'paused'].includes(status)

/** What an event says of a loop that is there; the same one where it is about another. */
export function takeLoop(loop: Loop, { data }: Activity): Loop | undefined {
  if (data['loop_id'] !== loop.id) return loop
  const {
    status,
    phase,
    step,
    training_job_id: job,
  } = data as Pick<Loop, 'status' | 'phase' | 'step' | 'training_job_id'>
  // its evaluations and its end are in its record
  if (step !== loop.step || status !== loop.status) return undefined
  return { ...loop, status, phase, step, training_job_id: job }
}

export function useLoop(id: string, isEnded: boolean): Loaded<Loop> {
  const path = loopApi(id)
  return useLoad(path, (signal) => ask<Loop>(path, { signal }), {
    topics: ['loop'],
    take: takeLoop,
    everyMs: isEnded ? null : live.value === true ? RECORD_MS : POLL_MS,
  })
}

/** What changes with each step of a loop. @param below of its address */
export function useOfSteps<T>(
  loop: Loop,
  below: string,
  load: (path: string, signal: AbortSignal) => Promise<T>,
): Loaded<T> {
  const path = loopApi(loop.id, below)
  return useLoad(path, (signal) => load(path, signal), {
    topics: ['loop'],
    // asked again where a step, an evaluation or the loop ended
    take: (data, { data: now }) => {
      const isMeasured = loop.phase === 'evaluating' && now['phase'] !== loop.phase
      const isNew = isMeasured || now['step'] !== loop.step || now['status'] !== loop.status
      return now['loop_id'] === loop.id && isNew ? undefined : data
    },
    everyMs: isOver(loop) || live.value === true ? null : POLL_MS,
  })
}

/** Names below a prefix, as `errors/other` below `errors/`, and what stands behind it. */
export function below(names: Readonly<Record<string, unknown>>, prefix: string): readonly string[] {
  return Object.keys(names).flatMap((name) => (name.startsWith(prefix) ? [name.slice(prefix.length)] : []))
}

/** Tokens of a model that grades, over all steps. */
export interface ModelTokens {
  readonly model: string
  readonly prompt: number
  readonly completion: number
}

/** @param totals `tokens/<model>/prompt`, and so on; a model's name may have slashes */
export function tokensOf(totals: LoopMetrics['totals']): readonly ModelTokens[] {
  const models = new Set(below(totals, 'tokens/').map((name) => name.slice(0, name.lastIndexOf('/'))))
  return [...models].map((model) => ({
    model,
    prompt: totals[`tokens/${model}/prompt`] ?? 0,
    completion: totals[`tokens/${model}/completion`] ?? 0,
  }))
}

/** Money for a million tokens, as `in,out`. @returns null for what is no price */
export function readPrice(text: string | undefined): readonly [prompt: number, completion: number] | null {
  const [prompt = Number.NaN, completion = Number.NaN] = (text ?? '').split(',').map((part) => Number.parseFloat(part))
  return prompt >= 0 && completion >= 0 ? [prompt, completion] : null
}

export const costOf = ({ prompt, completion }: ModelTokens, price: readonly [number, number]): number =>
  (prompt * price[0] + completion * price[1]) / 1e6
