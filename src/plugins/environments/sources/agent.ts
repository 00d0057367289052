/**
 * An agent that is a command: any program that asks a model at the address which `OPENAI_BASE_URL` or `ANTHROPIC_BASE_URL`
 * says. Each episode is one run of it, with an address of its own, in a folder of its own and a process group of its own;
 * what it asked is recorded by token ids.
 *
 * `{prompt}`, `{model}` and `{base_url}` in the command become arguments as they are: no shell reads them. What an episode
 * is worth is
 * `--reward`'s to say, which sees the last answer, the row of the task, and in `metadata` the folder and the end of what was
 * printed.
 */
import { createHash } from 'node:crypto'
import { cp, mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Environment } from '#base/environment.js'
import { InvalidRequestError } from '#base/errors/errors.js'
import { endOf } from '#base/processes/child.js'
import { spawnPiped } from '#base/processes/start-process.js'
import { endTree } from '#cli/local/user-program.js'
import type { Trajectory } from '#sdk/rl/trajectory.js'
import { seenVariables } from '../child.js'
import { EnvironmentFailure } from '../failures.js'
import { forgetRecorded, openRecorded, type RecordedAddress, takeRecorded } from '../recorded.js'
import type { EnvironmentSource, EnvironmentTask, RolloutOptions, SourceSetup } from '../source.js'
import { messagesOf, readTasks } from '../tasks-file.js'
import { openDoor, walled } from '../walls.js'
import { splitWords } from './words.js'

/** Characters of what it printed that are kept. */
const KEPT_CHARACTERS = 20_000
/** Folders of episodes that are kept for their rewards; the oldest go. */
const KEPT_FOLDERS = 128
/** An episode has its own limit: an address that outlives it is worth nothing. */
const ADDRESS_SECONDS = 24 * 3600

export async function openAgent(setup: SourceSetup): Promise<EnvironmentSource> {
  const name = `agent:${setup.target}`
  const [program, ...args] = splitWords(setup.target)
  if (program === undefined) throw new InvalidRequestError('unknown_environment', `"${name}" names no command`)
  const given: string = program
  if (setup.tasksFile === null) {
    throw new InvalidRequestError('tasks_missing', `${name} says who works, not what at`, {
      param: '--tasks-file',
      hint: 'give --tasks-file JSON Lines, {"prompt":"…"} and whatever --reward needs',
    })
  }
  const template = await templateOf(setup)
  const tasks = await readTasks(setup.tasksFile, setup.seed, (row) =>
    messagesOf(row) === null ? 'a task needs "prompt" as text or "messages" as an array' : null,
  )
  const folders: string[] = []
  const door = await openDoor(setup)
  let hasSaidLimit = false

  async function makeFolder(task: EnvironmentTask) {
    const folder = await mkdtemp(join(tmpdir(), 'trainyard-agent-'))
    folders.push(folder)
    for (const old of folders.splice(0, Math.max(0, folders.length - KEPT_FOLDERS))) {
      await rm(old, { recursive: true, force: true })
    }
    const [work, row] = [join(folder, 'work'), join(folder, 'task.json')]
    await mkdir(work)
    if (template !== null) await cp(template, work, { recursive: true })
    await writeFile(row, JSON.stringify(task.facts))
    return { work, row }
  }

  async function rollout(task: EnvironmentTask, options: RolloutOptions): Promise<Trajectory> {
    const { model, run, group, signal } = options
    if (!setup.isJudgedElsewhere) {
      throw new EnvironmentFailure('reward_invalid', `${name} earns nothing by itself: give --reward or --grader`)
    }
    if (model.sampling.maxTokens !== undefined && !hasSaidLimit) {
      hasSaidLimit = true
      setup.say('--max-tokens has no effect on an agent, which says itself how long answers may be')
    }
    const place = { run, task: task.key, group, maxTurns: setup.maxTurns, expiresInSeconds: ADDRESS_SECONDS, signal }
    const address = await openRecorded(model, place)
    const seen = { ...address, baseUrl: door.inside(address.baseUrl) }
    try {
      const { work, row } = await makeFolder(task)
      const variables = variablesOf(seen, { row, model: model.name, seed: options.seed })
      const filled = args.map((word) => fill(word, { prompt: promptOf(task), model: model.name, address: seen }))
      const [command, ...words] = walled([given, ...filled], setup, door)
      const output = await runAgent({ command, words, work, name, signal }, { ...seenVariables(setup), ...variables })
      const trajectory = await takeRecorded(model, address, { name, signal })
      Object.assign(trajectory.metadata, { folder: work, output })
      return trajectory
    } catch (error) {
      await forgetRecorded(model, address).catch(() => undefined)
      throw error
    }
  }

  return {
    async describe() {
      const said = JSON.stringify([setup.target, setup.settings, tasks.map(({ key }) => key)])
      return {
        ...{ name, version: '', digest: createHash('sha256').update(said).digest('hex'), tasks: tasks.length },
        ...{ tools: [], hasEvalSplit: false, rewardParts: [], rewardRange: null },
      }
    },
    tasks: async (_split, from, count) => tasks.slice(from, from + count),
    rollout,
    close: async () => {
      for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true })
      await door.close()
    },
  }
}

async function templateOf({ settings }: SourceSetup): Promise<string | null> {
  const { template = null, ...others } = settings
  const [unknown] = Object.keys(others)
  if (unknown !== undefined) {
    throw new InvalidRequestError('option_without_effect', `--set ${unknown} has no effect on an agent`, {
      param: '--set',
      hint: '--set template=<folder> is copied into the folder of each episode',
    })
  }
  if (template === null) return null
  const folder = resolve(String(template))
  if ((await stat(folder).catch(() => null))?.isDirectory() === true) return folder
  throw new InvalidRequestError('template_missing', `--set template: ${folder} is no folder`, { param: '--set' })
}

function promptOf({ facts }: EnvironmentTask): string {
  const last = messagesOf(facts)?.at(-1)
  return typeof last?.content === 'string' ? last.content : JSON.stringify(last?.content ?? '')
}

function fill(
  word: string,
  values: { readonly prompt: string; readonly model: string; readonly address: RecordedAddress },
): string {
  const known: Readonly<Record<string, string>> = {
    '{prompt}': values.prompt,
    '{model}': values.model,
    '{base_url}': values.address.baseUrl,
  }
  return word.replaceAll(/\{(?:prompt|model|base_url)\}/g, (found) => known[found] ?? found)
}

/** What stock clients read: those of Anthropic's take the address without `/v1`. */
function variablesOf(
  { baseUrl, apiKey }: RecordedAddress,
  { row, model, seed }: { readonly row: string; readonly model: string; readonly seed: number },
): Readonly<Record<string, string>> {
  return {
    ...{ OPENAI_BASE_URL: baseUrl, OPENAI_API_BASE: baseUrl, OPENAI_API_KEY: apiKey },
    ...{ ANTHROPIC_BASE_URL: baseUrl.replace(/\/v1$/, ''), ANTHROPIC_API_KEY: apiKey },
    ...{ TRAINYARD_TASK: row, TRAINYARD_MODEL: model, TRAINYARD_SEED: String(seed) },
  }
}

interface AgentRun {
  readonly command: string
  readonly words: readonly string[]
  readonly work: string
  readonly name: string
  readonly signal: AbortSignal
}

/** @returns the end of what it printed @throws {EnvironmentFailure} `env_crashed` where it fails; the signal's reason */
async function runAgent(run: AgentRun, environment: Environment): Promise<string> {
  const { command, words, work, name, signal } = run
  return await new Promise<string>((done, reject) => {
    const child = spawnPiped(command, words, {
      inherits: { environment, needs: 'everything' },
      cwd: work,
      detached: process.platform !== 'win32',
    })
    let [printed, complaints, hasStarted] = ['', '', false]
    const stop = (): void => {
      endTree(child)
      reject(signal.reason)
    }
    const fail = (said: string): void => {
      const last = complaints.trim().split('\n').slice(-6).join('\n')
      const message = `${name} ${said}${last === '' ? '' : `: ${last}`}`
      reject(new EnvironmentFailure('env_crashed', message, { isStart: !hasStarted }))
    }
    signal.addEventListener('abort', stop, { once: true })
    if (signal.aborted) stop()
    child.stdin.on('error', () => undefined).end()
    child.once('spawn', () => {
      hasStarted = true
    })
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      printed = (printed + text).slice(-KEPT_CHARACTERS)
    })
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      complaints = (complaints + text).slice(-KEPT_CHARACTERS)
    })
    child.once('error', (error) => fail(`could not be started: ${error.message}`))
    child.once('close', (code, ended) => {
      signal.removeEventListener('abort', stop)
      // what it started may outlive it
      endTree(child)
      if (code === 0) return done(printed)
      fail(endOf(code, ended))
    })
  })
}
