/**
 * An environment of one's own: a module that exports it. It runs in this process, as a reward module does; an episode that
 * takes too long is left behind and not killed.
 *
 * The export `environment`, or the default one: `tasks`, an array of rows or a function `(split, from, count)` that makes
 * them; and
 * `create(task, { seed })`, which answers an `Environment` of one episode (`reset`, `step`, and `close` where something must
 * end). Or, for one turn a task, rows with `prompt` or `messages` and `reward(answer, task)`.
 */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { basename, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { InvalidRequestError } from '#base/errors/errors.js'
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import type { RewardRange } from '#formats/rows/reward-range.js'
import { type Environment, play } from '#plugins/rl-library/environment.js'
import { EnvironmentFailure } from '../failures.js'
import type { EnvironmentSource, EnvironmentTask, SourceSetup, Split } from '../source.js'
import { messagesOf, toTask } from '../tasks-file.js'

type MaybePromise<T> = T | Promise<T>

/** What the module exports. */
interface OwnEnvironment {
  readonly name?: string
  readonly tasks:
    | readonly JsonObject[]
    | ((split: Split, from: number, count: number) => MaybePromise<readonly JsonObject[]>)
  readonly create?: (
    task: JsonObject,
    options: { readonly seed: number },
  ) => MaybePromise<Environment & { readonly close?: () => MaybePromise<void> }>
  readonly reward?: (
    answer: string,
    task: JsonObject,
  ) => MaybePromise<number | { readonly reward: number; readonly metrics?: Readonly<Record<string, number>> }>
  /** What an episode can earn at least and at most. */
  readonly rewardRange?: RewardRange
}

export async function openModule(setup: SourceSetup): Promise<EnvironmentSource> {
  const path = resolve(setup.target)
  const own = await loadOwn(path)
  const digest = createHash('sha256')
    .update(await readFile(path))
    .digest('hex')
  const { tasks: rows, reward } = own
  const isMade = typeof rows === 'function'

  async function rewarded(
    task: EnvironmentTask,
    answer: string,
  ): Promise<{ readonly reward: number; readonly metrics?: Readonly<Record<string, number>> }> {
    const said = await reward?.(answer, task.facts)
    const { reward: value, metrics } = typeof said === 'object' ? said : { reward: said, metrics: undefined }
    if (typeof value !== 'number') {
      throw new EnvironmentFailure(
        'reward_invalid',
        `${setup.target}: a reward must be a number, got ${JSON.stringify(value) ?? 'nothing'}`,
      )
    }
    return { reward: value, ...(metrics === undefined ? {} : { metrics }) }
  }

  function oneTurn(task: EnvironmentTask): Environment {
    const messages = messagesOf(task.facts)
    if (messages === null)
      throw new EnvironmentFailure('env_error', `${setup.target}: task ${task.key} has neither "prompt" nor "messages"`)
    return {
      reset: () => ({ messages }),
      step: async ({ content }) => ({
        isDone: true,
        ...(setup.isJudgedElsewhere ? {} : await rewarded(task, content)),
      }),
    }
  }

  return {
    async describe() {
      return {
        name: own.name ?? basename(path),
        version: digest.slice(0, 12),
        digest,
        tasks: isMade ? null : rows.length,
        tools: [],
        hasEvalSplit: isMade,
        rewardParts: [],
        rewardRange: own.rewardRange ?? null,
      }
    },
    async tasks(split, from, count) {
      const made = isMade ? await rows(split, from, count) : rows.slice(from, from + count)
      if (!Array.isArray(made) || !made.every(isJsonObject))
        throw new EnvironmentFailure('env_error', `${setup.target}: tasks must be an array of objects`)
      return made.map((row) => toTask(row, setup.seed))
    },
    async rollout(task, { model, seed, signal }) {
      const episode = own.create === undefined ? oneTurn(task) : await own.create(task.facts, { seed: task.seed })
      try {
        const { maxTurns, turnRewards } = setup
        return await play(model, episode, { ...model.sampling, seed, signal, maxTurns, turnRewards })
      } finally {
        if ('close' in episode && typeof episode.close === 'function') await episode.close()
      }
    },
    ...(own.create === undefined && reward !== undefined
      ? {
          scoring: {
            score: async (task: EnvironmentTask, answer: string) => (await rewarded(task, answer)).reward,
            reference: ({ facts }: EnvironmentTask) => (facts['answer'] === undefined ? null : String(facts['answer'])),
          },
        }
      : {}),
    close: async () => undefined,
  }
}

async function loadOwn(path: string): Promise<OwnEnvironment> {
  let module: Readonly<Record<string, unknown>>
  try {
    module = (await import(pathToFileURL(path).href)) as Readonly<Record<string, unknown>>
  } catch (cause) {
    throw new InvalidRequestError(
      'invalid_environment',
      `${path} cannot be loaded: ${cause instanceof Error ? cause.message : String(cause)}`,
      { cause },
    )
  }
  const own = (module['environment'] ?? module['default']) as Partial<OwnEnvironment> | undefined
  const hasTasks = typeof own?.tasks === 'function' || Array.isArray(own?.tasks)
  const plays = typeof own?.create === 'function' || typeof own?.reward === 'function'
  if (own !== undefined && hasTasks && plays) return own as OwnEnvironment
  throw new InvalidRequestError(
    'invalid_environment',
    `${path} must export "environment" with tasks, and create or reward`,
    {
      hint: "export const environment = { tasks: [{ prompt: '2+2?', answer: '4' }], reward: (answer, task) => Number(answer === task.answer) }",
    },
  )
}
