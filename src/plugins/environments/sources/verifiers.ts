/**
 * Environments of verifiers (0.4.x, MIT): Python plays them (`src/plugins/environments/python/verifiers_bridge.py`), and
 * they ask the model themselves. All of a run ask at one address of the server, where each episode is told from others by
 * the id of its trace in `X-Session-ID`; what it was worth is Σ score · weight of its rewards.
 *
 * Environments of several seats are refused: an episode of theirs is several trajectories with rewards of their own.
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { packageRoot } from '#base/util/package-root.js'
import type { Trajectory } from '#sdk/rl/trajectory.js'
import { childOf, createAnswering } from '../child.js'
import { EnvironmentFailure, type FailureKind } from '../failures.js'
import { findPython } from '../python-packages.js'
import { openRecorded, type RecordedAddress, takeRecorded } from '../recorded.js'
import type { AskedModel, EnvironmentSource, EnvironmentTask, RolloutOptions, SourceSetup } from '../source.js'
import { seedOf } from '../tasks.js'
import { openDoor } from '../walls.js'

const REQUIREMENTS = ['verifiers>=0.4,<0.5']
/** The package is imported at the first question, which may fetch what the environment is made of. */
const START_MS = 600_000
/** Tasks of a finite environment that are counted. */
const MOST_TASKS = 100_000
/** An episode ends by its signal. */
const EPISODE_MS = 24 * 3_600_000
/** Of an address, which is opened anew for a run that takes longer. */
const ADDRESS_SECONDS = 7 * 24 * 3600

export async function openVerifiers(setup: SourceSetup): Promise<EnvironmentSource> {
  const name = `verifiers:${setup.target}`
  const python = await findPython(setup, { module: 'verifiers', requirements: REQUIREMENTS })
  const bridge = join(packageRoot(), 'src', 'plugins', 'environments', 'python', 'verifiers_bridge.py')
  const door = await openDoor(setup)
  const child = createAnswering(childOf(setup, name, [python, '-u', bridge], door))
  const of = { name: setup.target, settings: setup.settings, max_turns: setup.maxTurns }
  const timeoutMs = Math.max(setup.stepTimeoutMs, START_MS)
  const addressOf = createAddresses(name)
  let played = 0

  async function rollout(task: EnvironmentTask, options: RolloutOptions): Promise<Trajectory> {
    const { model, signal } = options
    const address = await addressOf(model, options.run)
    played += 1
    const episode = `${played}`
    const cancel = (): void => {
      child.ask('cancel', { episode }, { timeoutMs }).catch(() => undefined)
    }
    signal.addEventListener('abort', cancel, { once: true })
    try {
      const { place } = task.facts
      const { maxTokens } = model.sampling
      // what else there is of sampling is the address's
      const sampling = maxTokens === undefined ? {} : { max_tokens: maxTokens }
      const asked = {
        ...of,
        ...{ place: place ?? 0, base_url: door.inside(address.baseUrl), model: model.name, sampling, episode },
      }
      const trace = traceOf(name, await child.ask('run', asked, { timeoutMs: EPISODE_MS, signal }))
      const trajectory = await takeRecorded(model, address, { session: trace.id, name, signal })
      trajectory.reward = trace.reward
      Object.assign(trajectory.metrics, trace.numbers)
      return trajectory
    } finally {
      signal.removeEventListener('abort', cancel)
    }
  }

  return {
    async describe(signal) {
      const said = await child.ask('describe', { ...of, most: MOST_TASKS }, { timeoutMs, signal })
      const { version, tasks = null, seats } = said
      if (seats !== 1) {
        throw new EnvironmentFailure('env_error', `${name} has ${String(seats)} seats: those of one are played here`)
      }
      const config = JSON.stringify([setup.target, setup.settings, version, tasks])
      return {
        ...{ name, version: String(version), digest: createHash('sha256').update(config).digest('hex') },
        tasks: typeof tasks === 'number' ? tasks : null,
        ...{ tools: [], hasEvalSplit: false, rewardParts: [], rewardRange: null },
      }
    },
    async tasks(split, from, count, signal) {
      // of an endless one the tasks to measure are every other one
      const places = { from, count }
      const said = await child.ask('tasks', { ...of, ...places }, { timeoutMs, signal })
      const found = Array.isArray(said['tasks']) ? said['tasks'] : []
      return found.map((task) => toTask(name, task, split))
    },
    rollout,
    async close() {
      await child.close()
      await door.close()
    },
  }
}

/** One address for all episodes of a run by a model, opened by the first. */
function createAddresses(name: string) {
  const opened = new Map<string, Promise<RecordedAddress>>()
  return (model: AskedModel, run: string): Promise<RecordedAddress> => {
    const key = JSON.stringify([run, model.name, model.sampling.temperature ?? 1, model.sampling.body ?? {}])
    const known = opened.get(key)
    if (known !== undefined) return known
    const shared = { run, task: name, group: 'episodes', sessions: true, maxTurns: 1000 }
    // it outlives the episode that opens it
    const place = { ...shared, expiresInSeconds: ADDRESS_SECONDS, signal: AbortSignal.timeout(60_000) }
    const address = openRecorded(model, place)
    opened.set(key, address)
    address.catch(() => opened.delete(key))
    return address
  }
}

function toTask(name: string, task: JsonValue, split: string): EnvironmentTask {
  if (!isJsonObject(task) || typeof task['key'] !== 'string') {
    throw new EnvironmentFailure('env_protocol', `${name}: a task has no key: ${JSON.stringify(task).slice(0, 80)}`)
  }
  const key = task['key'].slice(0, 16)
  return { key, seed: seedOf(split, key), facts: task }
}

interface PlayedTrace {
  readonly id: string
  readonly reward: number
  readonly numbers: Readonly<Record<string, number>>
}

/** @throws {EnvironmentFailure} for an episode that failed, or earned no number */
function traceOf(name: string, said: JsonObject): PlayedTrace {
  const [trace, ...others] = listOf(said['traces'])
  const errors = [...listOf(said['errors']), ...listOf(trace?.['errors'])]
  if (trace === undefined || trace['ok'] !== true) {
    const isTimeout = trace?.['is_timeout'] === true
    const [error] = errors
    const why =
      error === undefined ? String(trace?.['stop_condition'] ?? 'no trace') : `${error['type']}: ${error['message']}`
    throw new EnvironmentFailure(isTimeout ? 'env_timeout' : kindOf(error), `${name}: ${why}`)
  }
  if (others.length > 0) {
    throw new EnvironmentFailure(
      'env_error',
      `${name} played ${others.length + 1} agents in an episode: one is expected`,
    )
  }
  const numbers: Record<string, number> = {}
  let reward = 0
  for (const [part, given] of Object.entries(objectOf(trace['rewards']))) {
    const { score, weight } = objectOf(given)
    if (typeof score !== 'number' || typeof weight !== 'number') {
      throw new EnvironmentFailure(
        'reward_invalid',
        `${name}: the reward "${part}" is ${JSON.stringify(given)}, no number`,
      )
    }
    numbers[`reward/${part}`] = score
    reward += score * weight
  }
  for (const [metric, value] of Object.entries(objectOf(trace['metrics']))) {
    if (typeof value === 'number') numbers[`env/${metric}`] = value
  }
  return { id: String(trace['id']), reward, numbers }
}

/** What the model's side did wrong is told from the environment's by the names of verifiers' errors. */
function kindOf(error: JsonObject | undefined): FailureKind {
  return /^(?:Provider|Model|Overlong|Interception)\w*Error$/.test(String(error?.['type'] ?? ''))
    ? 'model_error'
    : 'env_error'
}

const objectOf = (value: JsonValue | undefined): JsonObject =>
  isJsonObject(value ?? null) ? (value as JsonObject) : {}
const listOf = (value: JsonValue | undefined): readonly JsonObject[] =>
  Array.isArray(value) ? value.map(objectOf) : []
