/**
 * One episode, whoever asks: with its time limit, its reward checked, its numbers named, and every way to fail as a failure.
 * And many of them as groups for `gather`.
 */
import { withRecordedSets } from '#base/sampling-record.js'
import type { Clock } from '#base/util/clock.js'
import type { JsonObject } from '#base/util/json.js'
import type { RewardRange } from '#formats/rows/reward-range.js'
import { type GroupPlan, group } from '#plugins/rl-library/gather.js'
import type { Client } from '#sdk/client/client.js'
import { type AskOptions, Trajectory } from '#sdk/rl/trajectory.js'
import { EnvironmentFailure, toFailure } from './failures.js'
import type { AskedModel, EnvironmentDescription, EnvironmentSource, EnvironmentTask } from './source.js'
import { seedOf } from './tasks.js'

/** Answers whose rewards are remembered, to see whether the same one earns the same. */
const REMEMBERED_ANSWERS = 10_000
/** Starts in turn that end a run when all of them failed. */
const FAILED_STARTS = 3

/** Judges in place of the environment: sets the reward. */
export type Judge = (trajectory: Trajectory, row: JsonObject, signal: AbortSignal) => Promise<void>

export interface EpisodeSetup {
  readonly source: EnvironmentSource
  readonly description: EnvironmentDescription
  readonly model: AskedModel
  readonly seed: number
  readonly run: string
  readonly episodeTimeoutMs: number
  /** null: the environment's own reward. */
  readonly judge: Judge | null
  /** What a reward can be: that of the judge, or of the environment. */
  readonly rewardRange: RewardRange | null
  readonly signal: AbortSignal
  readonly clock: Clock
  /** Told once of each thing that looks wrong. */
  readonly onWarning: (warning: string) => void
}

/** Plays episodes of a run. */
export interface Episodes {
  /** Aborted with the run, and where three starts in turn failed: for `gather`. */
  readonly signal: AbortSignal
  play(task: EnvironmentTask, place: { readonly group: string; readonly index: number }): Promise<Trajectory>
  /**
   * Groups of `count` rollouts a task, for `gather`.
   *
   * @param part tells a step's or a measurement's seeds from others'
   * @param options.withGreedy one more of each task, at temperature 0; default false
   */
  plans(
    tasks: readonly EnvironmentTask[],
    count: number,
    part: string,
    options?: { readonly withGreedy?: boolean },
  ): readonly GroupPlan[]
}

/** Asks a model of the service by a name, with everything recorded that training needs. */
export function askedModel(client: Client, name: string, sampling: AskOptions): AskedModel {
  return {
    client,
    name,
    sampling,
    trajectory: (messages, options = {}) =>
      new Trajectory(messages, {
        ...options,
        ask: (request, { temperature = 1, maxTokens, seed, stop, body, signal }) =>
          client.chat.create(
            {
              model: name,
              ...request,
              temperature,
              ...(maxTokens === undefined ? {} : { max_completion_tokens: maxTokens }),
              ...(seed === undefined ? {} : { seed }),
              ...(stop === undefined ? {} : { stop: [...stop] }),
              ...withRecordedSets(body ?? {}),
              logprobs: true,
              return_token_ids: true,
            },
            { signal },
          ),
      }),
  }
}

export function createEpisodes(setup: EpisodeSetup): Episodes {
  const { source, description, model, seed, run, judge, signal, clock } = setup
  const givingUp = new AbortController()
  const stopping = AbortSignal.any([signal, givingUp.signal])
  const rewards = new Map<string, number>()
  let failedStarts = 0

  async function play(
    task: EnvironmentTask,
    { group: name, index }: { readonly group: string; readonly index: number },
    asked = model,
  ): Promise<Trajectory> {
    stopping.throwIfAborted()
    const startMs = clock.monotonicMs()
    const ended = new AbortController()
    const seconds = setup.episodeTimeoutMs / 1000
    const timer = setTimeout(
      () =>
        ended.abort(
          new EnvironmentFailure('env_timeout', `${description.name}: no end of the episode after ${seconds} s`),
        ),
      setup.episodeTimeoutMs,
    )
    const within = AbortSignal.any([stopping, ended.signal])
    try {
      const options = {
        seed: seedOf(seed, 'rollout', name, index),
        model: asked,
        signal: within,
        run,
        group: name,
        index,
      }
      const trajectory = await until(within, source.rollout(task, options))
      failedStarts = 0
      if (judge !== null) await judged(judge, trajectory, task, within)
      checkReward(trajectory, task)
      renameMetrics(trajectory, (clock.monotonicMs() - startMs) / 1000)
      Object.assign(trajectory.metadata, { environment: description.name, task: task.key })
      return trajectory
    } catch (error) {
      if (stopping.aborted) throw stopping.reason
      const failure = toFailure(error)
      failedStarts = failure.isStart ? failedStarts + 1 : 0
      if (failedStarts >= FAILED_STARTS) givingUp.abort(failure)
      throw failure
    } finally {
      clearTimeout(timer)
      ended.abort()
    }
  }

  function checkReward(trajectory: Trajectory, task: EnvironmentTask): void {
    const { reward, answer, choices } = trajectory
    if (!Number.isFinite(reward)) {
      throw new EnvironmentFailure(
        'reward_invalid',
        `${description.name}: the reward of task ${task.key} is ${reward}, no finite number`,
      )
    }
    const range = setup.rewardRange
    if (range !== null && (reward < range[0] || reward > range[1])) {
      setup.onWarning(`the reward ${reward} of task ${task.key} lies outside of its range, ${range[0]} to ${range[1]}`)
    }
    if (choices.length !== 1) return
    const said = `${task.key}\n${answer}`
    const before = rewards.get(said)
    if (before !== undefined && Math.abs(before - reward) > 1e-9) {
      setup.onWarning(
        `the same answer to task ${task.key} earned ${before} and ${reward}: its reward is not made of the answer alone`,
      )
    }
    if (rewards.size < REMEMBERED_ANSWERS) rewards.set(said, reward)
  }

  return {
    signal: stopping,
    play,
    plans: (tasks, count, part, { withGreedy = false } = {}) =>
      tasks.map((task) => {
        const playAt = (index: number): Promise<Trajectory> =>
          play(task, { group: `${part} ${task.key}`, index }, index === count ? greedy(model) : model)
        return group(withGreedy ? count + 1 : count, playAt, {
          key: task.key,
          rewardRange: setup.rewardRange,
          metadata: { environment: description.name, task: task.key },
        })
      }),
  }
}

const greedy = (model: AskedModel): AskedModel => ({ ...model, sampling: { ...model.sampling, temperature: 0 } })

async function judged(judge: Judge, trajectory: Trajectory, task: EnvironmentTask, signal: AbortSignal): Promise<void> {
  try {
    await judge(trajectory, task.facts, signal)
  } catch (error) {
    if (signal.aborted) throw signal.reason
    throw new EnvironmentFailure('reward_invalid', error instanceof Error ? error.message : String(error), {
      cause: error,
    })
  }
}

/** An episode that does not heed its signal is left behind. */
async function until<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  return await new Promise<T>((resolve, reject) => {
    const abort = (): void => reject(signal.reason)
    if (signal.aborted) abort()
    signal.addEventListener('abort', abort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}

/** What `play` counts, under the names of every environment. */
function renameMetrics({ metrics }: Trajectory, seconds: number): void {
  const { turns, tool_errors: errors } = metrics
  if (turns !== undefined) metrics['env/turns'] = turns
  if (errors !== undefined) metrics['env/tool_errors'] = errors
  delete metrics['turns']
  delete metrics['tool_errors']
  metrics['env/seconds'] = seconds
}
