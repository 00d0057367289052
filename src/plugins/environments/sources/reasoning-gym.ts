/**
 * Tasks of reasoning-gym (Apache-2.0, 0.1.x): a question, an answer, and how right it is. Python makes and scores them
 * (`src/plugins/environments/python/reasoning_gym_bridge.py`); the model is asked here, in one turn.
 *
 * Tasks to train on are made of the lower half of seeds, those to measure of the upper one.
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import { packageRoot } from '#base/util/package-root.js'
import { type Environment, play } from '#plugins/rl-library/environment.js'
import { childOf, createAnswering } from '../child.js'
import { EnvironmentFailure } from '../failures.js'
import { findPython } from '../python-packages.js'
import type { EnvironmentDescription, EnvironmentSource, EnvironmentTask, SourceSetup } from '../source.js'
import { seedOf } from '../tasks.js'

const REQUIREMENTS = ['reasoning-gym>=0.1.25,<0.2']
/** Seeds of either half. */
const HALF = 2 ** 30
/** The package is imported at the first question. */
const START_MS = 120_000

export async function openReasoningGym(setup: SourceSetup): Promise<EnvironmentSource> {
  const name = `reasoning-gym:${setup.target}`
  const python = await findPython(setup, { module: 'reasoning_gym', requirements: REQUIREMENTS })
  const bridge = join(packageRoot(), 'src', 'plugins', 'environments', 'python', 'reasoning_gym_bridge.py')
  const child = createAnswering(childOf(setup, name, [python, '-u', bridge]))
  const of = { dataset: setup.target, settings: setup.settings }
  // the import is part of whichever question comes first
  const timeoutMs = Math.max(setup.stepTimeoutMs, START_MS)

  async function score(task: EnvironmentTask, answer: string, signal: AbortSignal): Promise<number> {
    const reply = await child.ask('score', { ...of, seed: task.seed, answer }, { timeoutMs, signal })
    const { reward } = reply
    if (typeof reward !== 'number') {
      throw new EnvironmentFailure(
        'reward_invalid',
        `${name}: the score of task ${task.key} is ${JSON.stringify(reward ?? null)}, no number`,
      )
    }
    return reward
  }

  return {
    async describe(signal) {
      const reply = await child.ask('describe', of, { timeoutMs, signal })
      const version = String(reply['version'])
      const config = JSON.stringify([setup.target, reply['config'] ?? null, version, setup.seed])
      return {
        name,
        version,
        digest: createHash('sha256').update(config).digest('hex'),
        tasks: null,
        tools: [],
        hasEvalSplit: true,
        rewardParts: [],
        rewardRange: [0, 1],
      } satisfies EnvironmentDescription
    },
    async tasks(split, from, count, signal) {
      const seeds = Array.from(
        { length: count },
        (_, i) => (seedOf(setup.seed, split, from + i) % HALF) + (split === 'eval' ? HALF : 0),
      )
      const reply = await child.ask('tasks', { ...of, seeds }, { timeoutMs, signal })
      const made = Array.isArray(reply['tasks']) ? reply['tasks'] : []
      if (made.length !== count)
        throw new EnvironmentFailure('env_protocol', `${name}: asked for ${count} tasks, got ${made.length}`)
      return made.map((task, i) => toTask(name, seeds[i] ?? 0, task))
    },
    rollout: (task, { seed, model, signal }) =>
      play(
        model,
        question(task, (answer) => score(task, answer, signal)),
        { ...model.sampling, seed, signal, maxTurns: 1 },
      ),
    scoring: { score, reference: ({ facts }) => (typeof facts['answer'] === 'string' ? facts['answer'] : null) },
    close: () => child.close(),
  }
}

function toTask(name: string, seed: number, made: unknown): EnvironmentTask {
  if (!isJsonObject(made) || typeof made['question'] !== 'string') {
    throw new EnvironmentFailure(
      'env_protocol',
      `${name}: a task has no question: ${JSON.stringify(made).slice(0, 80)}`,
    )
  }
  const facts: JsonObject = { ...made, prompt: made['question'] }
  return { key: createHash('sha256').update(made['question']).digest('hex').slice(0, 16), seed, facts }
}

/** One turn: what is asked, and what the answer earns. */
function question(task: EnvironmentTask, score: (answer: string) => Promise<number>): Environment {
  return {
    reset: () => ({ messages: [{ role: 'user', content: String(task.facts['question']) }] }),
    step: async ({ content }) => ({ isDone: true, reward: await score(content.trim()) }),
  }
}
