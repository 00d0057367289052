/**
 * Which tasks are trained on and which are measured, and that none is both. Tasks are told apart by their keys, by what they
 * ask: a generator's two ranges of seeds may ask the same, and a small one does.
 *
 * Places are chosen by the step alone, so that a run that goes on draws what one that was never stopped would have drawn.
 */
import { createHash } from 'node:crypto'
import { InvalidRequestError } from '#base/errors/errors.js'
import { createRng } from '#base/util/rng.js'
import type { EnvironmentDescription, EnvironmentSource, EnvironmentTask } from './source.js'

/** Tasks of a finite environment that are looked at. */
const MOST_TASKS = 100_000
/** Share of tasks that is held out where the environment holds none out, and its bounds. */
const [HELD_OUT_SHARE, LEAST_HELD_OUT, MOST_HELD_OUT] = [0.1, 4, 200]
/** Places looked at for each task of a step that is wanted. */
const PLACES_PER_TASK = 16
/** A generator that repeats itself this often within its tasks to measure is small, and is treated as a finite one. */
const SMALL_SHARE = 0.7

export interface TaskFeed {
  /** What is measured; at most as many as were asked for. */
  readonly heldOut: readonly EnvironmentTask[]
  /** Tasks of a step, from 1: none of them is measured, none comes twice in a step. */
  train(step: number, count: number, signal?: AbortSignal): Promise<readonly EnvironmentTask[]>
}

interface FeedOptions {
  readonly seed: number
  readonly measured: number
  readonly isPlayed?: boolean
}

/** A seed for a generator, of whatever names it. */
export function seedOf(...parts: readonly (string | number)[]): number {
  return createRng(JSON.stringify(parts)).integer(2 ** 31)
}

/**
 * @param options.measured tasks to measure, at most
 * @param options.isPlayed nothing is trained here: an environment's only task may be played. Default false
 * @throws {InvalidRequestError} `no_tasks` where nothing is left to train on or to measure
 */
export async function openTasks(
  source: EnvironmentSource,
  description: Pick<EnvironmentDescription, 'name' | 'tasks' | 'hasEvalSplit'>,
  options: FeedOptions & { readonly signal?: AbortSignal },
): Promise<TaskFeed> {
  const { signal, ...drawing } = options
  const { seed, measured } = drawing
  const { name, tasks: size, hasEvalSplit } = description
  if (size !== null && !hasEvalSplit) {
    const all = distinct(await source.tasks('train', 0, Math.min(size, MOST_TASKS), signal))
    return finiteFeed(name, all, drawing)
  }
  const drawn = await source.tasks('eval', 0, measured, signal)
  const heldOut = distinct(drawn)
  if (size === null && heldOut.length < drawn.length * SMALL_SHARE) {
    const more = await source.tasks('train', 0, measured * 4, signal)
    return finiteFeed(name, distinct([...drawn, ...more]), drawing)
  }
  if (heldOut.length === 0) throw noTasks(`${name} has no tasks to measure`)
  const taken = new Set(heldOut.map(({ key }) => key))
  if (size !== null) {
    const all = distinct(await source.tasks('train', 0, Math.min(size, MOST_TASKS), signal))
    const rest = all.filter(({ key }) => !taken.has(key))
    if (rest.length === 0) throw noTasks(`${name} measures all ${all.length} of its tasks`)
    return { heldOut, train: inTurn(rest, seed) }
  }
  return {
    heldOut,
    async train(step, count, during) {
      const places = count * PLACES_PER_TASK
      const found = new Map<string, EnvironmentTask>()
      for (let at = 0; at < places && found.size < count; at += count) {
        for (const task of await source.tasks('train', (step - 1) * places + at, count, during)) {
          if (!taken.has(task.key) && found.size < count) found.set(task.key, task)
        }
      }
      if (found.size === 0) throw noTasks(`${name} asks only what is measured`)
      return [...found.values()]
    },
  }
}

function finiteFeed(
  name: string,
  all: readonly EnvironmentTask[],
  { seed, measured, isPlayed = false }: FeedOptions,
): TaskFeed {
  if (all.length === 1 && isPlayed) return { heldOut: all, train: inTurn(all, seed) }
  if (all.length < 2) throw noTasks(`${name} has ${all.length === 0 ? 'no task' : 'one task'}`)
  const byHash = all.toSorted((a, b) => (hashOf(a.key) < hashOf(b.key) ? -1 : 1))
  const wanted = Math.min(Math.max(Math.round(all.length * HELD_OUT_SHARE), LEAST_HELD_OUT), MOST_HELD_OUT)
  const count = Math.min(wanted, Math.floor(all.length / 2))
  // what is held out does not follow from how much is measured
  return { heldOut: byHash.slice(0, Math.min(count, measured)), train: inTurn(byHash.slice(count), seed) }
}

/** In an order by the seed, and from the beginning again. */
function inTurn(tasks: readonly EnvironmentTask[], seed: number): TaskFeed['train'] {
  const order = tasks.toSorted((a, b) => (hashOf(`${seed} ${a.key}`) < hashOf(`${seed} ${b.key}`) ? -1 : 1))
  return async (step, count) => {
    const some = Math.min(count, order.length)
    return Array.from({ length: some }, (_, i) => order[((step - 1) * some + i) % order.length]).flatMap(
      (task) => task ?? [],
    )
  }
}

/** The first of each key. */
function distinct(tasks: readonly EnvironmentTask[]): readonly EnvironmentTask[] {
  return [...new Map(tasks.toReversed().map((task) => [task.key, task])).values()].toReversed()
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

function noTasks(message: string): InvalidRequestError {
  return new InvalidRequestError('no_tasks', `${message}: training and measuring need tasks of their own`, {
    hint: 'choose wider settings with --set, or a larger file of tasks',
  })
}
