/**
 * One model on its way through a demo: asking it, scoring its answers, and running its training jobs through the public API.
 *
 * Shared by both kinds of training. Everything goes through the client, exactly as a user's own program would do it.
 */

import type { Clock } from '#base/util/clock.js'
import type { JsonObject, JsonValue } from '#base/util/json.js'
import { createRng } from '#base/util/rng.js'
import type { ChatResponse } from '#contract/wire/chat-completions.js'
import type { Model } from '#contract/wire/models.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import type { Client } from '#sdk/client/client.js'
import type { DemoGradientStep, DemoMeasured } from './events.js'
import type { DemoItem, DemoTask } from './task.js'

/** Answers to each held-out prompt; their rewards are averaged. */
const HELD_OUT_ANSWERS = 4
/** Answers are sampled as they come: the reward is of the model, not of its best guess. */
const TEMPERATURE = 1

/** What answers to held-out prompts are logged as. */
const HELD_OUT_SPLIT = 'held_out'

export interface DemoOptions {
  readonly client: Client
  readonly model: Model
  readonly task: DemoTask
  readonly seed: number
  readonly clock: Clock
  /** When the command was started, on `clock`'s monotonic counter. */
  readonly startMs: number
  /** Turns at most. */
  readonly steps: number
  /** After the first turn, none is begun that would not end by then, milliseconds after `startMs`. */
  readonly budgetMs: number
  /** Instead of `budgetMs` while there is little to see yet, as on a busy machine. */
  readonly longestMs: number
  readonly signal: AbortSignal
  /** Name under which the model of a step answers. */
  readonly nameAt: (step: number) => string
  /** Throws for a job that did not complete. */
  readonly requireCompleted: (job: TrainingJob) => void
}

/** An answer with its reward. */
export interface ScoredAnswer {
  readonly text: string
  readonly reward: number
}

/** A prompt with its answers. */
export interface AnsweredPrompt {
  readonly item: DemoItem
  readonly answers: readonly ScoredAnswer[]
  readonly reply: ChatResponse
}

/** The held-out prompts as answered by one step. */
export interface Measurement {
  readonly event: DemoMeasured
  readonly answered: readonly AnsweredPrompt[]
}

/** A finished job: the checkpoint's step, and means over its gradient steps. */
export interface FinishedJob {
  readonly id: string
  readonly step: number
  readonly gradientSteps: number
  /** Trained on, where the job says so. */
  readonly tokens: number
  readonly loss: number | null
  readonly kl: number | null
  readonly entropy: number | null
}

/** Asks a prompt `count` times at once and scores the answers; logprobs and token ids come along for training. */
export async function ask(
  options: DemoOptions,
  item: DemoItem,
  { step, count, seed }: { readonly step: number; readonly count: number; readonly seed: string },
): Promise<AnsweredPrompt> {
  const { client, task, signal } = options
  const reply = await client.chat.create(
    {
      model: options.nameAt(step),
      messages: [{ role: 'user', content: item.prompt }],
      n: count,
      max_tokens: task.maxTokens,
      temperature: TEMPERATURE,
      seed: createRng(`${options.seed} ${seed} ${item.prompt}`).integer(2 ** 31),
      logprobs: true,
      return_token_ids: true,
    },
    { signal },
  )
  const texts = reply.choices.map((choice) => choice.message.content ?? '')
  return { item, reply, answers: texts.map((text) => ({ text, reward: task.reward(item, text) })) }
}

/** A group as the API takes it: the prompt as a message, then the choice as it came, with its logprobs and token ids. */
export function toGroup({ item, answers, reply }: AnsweredPrompt): JsonObject {
  return {
    trajectories: reply.choices.map((choice, i) => ({
      messages_and_choices: [
        { role: 'user', content: item.prompt },
        { ...choice, prompt_token_ids: reply.prompt_token_ids } as JsonValue,
      ],
      reward: answers[i]?.reward ?? 0,
    })),
  }
}

/**
 * Asks every held-out prompt; the same seeds each time, so that steps can be compared. The answers are logged with the step, where
 * the page and `models metrics` show them.
 */
export async function measure(options: DemoOptions, step: number): Promise<Measurement> {
  const answered = await Promise.all(
    options.task.heldOut.map((item) => ask(options, item, { step, count: HELD_OUT_ANSWERS, seed: 'held out' })),
  )
  const { client, model, signal } = options
  await client.models.log(model.id, { split: HELD_OUT_SPLIT, trajectory_groups: answered.map(toGroup) }, { signal })
  const rewards = rewardsOf(answered)
  const event: DemoMeasured = {
    object: 'demo.measured',
    step,
    held_out_reward: mean(rewards) ?? 0,
    answers: rewards.length,
    seconds: secondsSince(options),
  }
  return { event, answered }
}

/**
 * Submits a job and follows it to its end. A job that is left early, by an interruption or an error, is cancelled.
 *
 * @throws what `requireCompleted` throws for a failed job
 */
export async function* runJob(
  options: DemoOptions,
  submit: () => Promise<TrainingJob>,
): AsyncGenerator<DemoGradientStep, FinishedJob> {
  const { client, signal } = options
  const { id } = await submit()
  const steps: JsonObject[] = []
  let isOver = false
  try {
    const next = (await client.models.get(options.model.id, { signal })).step + 1
    for await (const event of client.trainingJobs.follow(id, { signal, pollMs: 250 })) {
      if (event.type !== 'gradient_step') continue
      steps.push(event.data)
      yield {
        object: 'demo.gradient_step',
        step: next,
        gradient_step: steps.length,
        loss: numberOf(event.data['loss']),
      }
    }
    isOver = true
    const job = await client.trainingJobs.get(id, { signal })
    options.requireCompleted(job)
    const average = (name: string) => mean(steps.flatMap((data) => numberOf(data[name]) ?? []))
    return {
      id,
      step: job.step ?? next,
      gradientSteps: steps.length,
      tokens: steps.reduce((sum, data) => sum + (numberOf(data['num_tokens']) ?? 0), 0),
      loss: average('loss'),
      kl: average('kl_div'),
      entropy: average('entropy'),
    }
  } finally {
    // Not with the signal, which may be why we are here. A job that ended in the meantime refuses, and that is fine.
    if (!isOver) await client.trainingJobs.cancel(id, { signal: AbortSignal.timeout(1500) }).catch(() => undefined)
  }
}

/** All rewards of answered prompts. */
export function rewardsOf(answered: readonly AnsweredPrompt[]): readonly number[] {
  return answered.flatMap(({ answers }) => answers.map((answer) => answer.reward))
}

/** The mean; null of nothing. */
export function mean(values: readonly number[]): number | null {
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length
}

/** Seconds since the command was started. */
export function secondsSince({ clock, startMs }: DemoOptions): number {
  return Math.round(clock.monotonicMs() - startMs) / 1000
}

/** A shuffled copy. */
export function shuffled<T>(items: readonly T[], seed: string): readonly T[] {
  const rng = createRng(seed)
  return items
    .map((item) => ({ item, key: rng.uniform() }))
    .sort((a, b) => a.key - b.key)
    .map(({ item }) => item)
}

function numberOf(value: JsonValue | undefined): number | null {
  return typeof value === 'number' ? value : null
}
