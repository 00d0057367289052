/**
 * What an answer is worth: a built-in comparison with the row's `answer`, a function of the user's, or a program of theirs.
 *
 * A function is the `reward` (or default) export of a JavaScript or TypeScript file: `(answer, row, messages) => number`, or
 * `{ reward, metrics }`. A program gets one JSON object on standard input and prints the same.
 */
import { extname, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { JsonObject } from '#base/util/json.js'
import { isJsonObject } from '#base/util/json.js'
import type { Trajectory } from '#sdk/rl/trajectory.js'
import { messageOf } from '../input/input-file.js'
import { runProgram } from '../local/user-program.js'
import { UsageError } from '../terminal/errors.js'

/** What is scored: a trajectory, or an answer of somebody else in its form. */
export type Scored = Pick<Trajectory, 'answer' | 'messages' | 'reward' | 'metrics'>

/** Sets reward and metrics. */
export type Scorer = (scored: Scored, row: JsonObject, signal: AbortSignal) => Promise<void>

const MODULES: ReadonlySet<string> = new Set(['.js', '.mjs', '.cjs', '.ts', '.mts'])
/** Longest run of a reward program for one answer, milliseconds. */
const PROGRAM_MS = 60_000

/** Whether a flag, or its absence, means a comparison with the row's `answer`. */
export function isBuiltInReward(text: string | undefined): boolean {
  return text === undefined || text === 'exact' || text === 'contains'
}

/** What the reward that a flag names can be; null: only who wrote it knows. */
export function rewardRange(text: string | undefined): readonly [number, number] | null {
  return isBuiltInReward(text) ? [0, 1] : null
}

/** Whether a row has what the built-in rewards compare with. */
export function hasAnswer(row: JsonObject): boolean {
  return typeof row['answer'] === 'string' || typeof row['answer'] === 'number'
}

/**
 * Finds the reward a flag names.
 *
 * @param text `exact`, `contains`, a module's path, or a command for the shell; `exact` when absent
 * @throws {UsageError} `invalid_reward` when a module cannot be loaded or has no such function
 */
export async function loadReward(text: string | undefined): Promise<Scorer> {
  if (text === undefined || text === 'exact') return compareWith((answer, wanted) => answer.trim() === wanted.trim())
  if (text === 'contains') return compareWith((answer, wanted) => answer.includes(wanted))
  if (MODULES.has(extname(text)) && !/\s/.test(text)) return await loadModule(text)
  return async function scoreByProgram(trajectory, row, signal) {
    const { messages, answer } = trajectory
    const output = await runProgram(text, JSON.stringify({ answer, row, messages }), { timeoutMs: PROGRAM_MS, signal })
    applyScore(trajectory, parseOutput(output, text), text)
  }
}

function compareWith(isRight: (answer: string, wanted: string) => boolean): Scorer {
  return async function scoreByAnswer(trajectory, row) {
    trajectory.reward = isRight(trajectory.answer, String(row['answer'])) ? 1 : 0
  }
}

async function loadModule(path: string): Promise<Scorer> {
  let module: Readonly<Record<string, unknown>>
  try {
    module = (await import(pathToFileURL(resolve(path)).href)) as Readonly<Record<string, unknown>>
  } catch (cause) {
    const isTypeScript = cause instanceof Error && 'code' in cause && cause.code === 'ERR_UNKNOWN_FILE_EXTENSION'
    throw new UsageError('invalid_reward', `${path} cannot be loaded: ${messageOf(cause)}`, {
      cause,
      hint: isTypeScript
        ? `Node ${process.versions.node} runs no TypeScript: 22.18 does, or write it as .mjs`
        : undefined,
    })
  }
  const score = module['reward'] ?? module['default']
  if (typeof score !== 'function') {
    throw new UsageError('invalid_reward', `${path} must export a function "reward"`, {
      hint: 'export const reward = (answer, row) => (answer === row.answer ? 1 : 0)',
    })
  }
  return async function scoreByFunction(trajectory, row) {
    applyScore(trajectory, await score(trajectory.answer, row, trajectory.messages), path)
  }
}

function parseOutput(output: string, program: string): unknown {
  try {
    return JSON.parse(output.trim())
  } catch {
    throw new Error(`${program}: expected a number or {"reward": …} on standard output, got "${output.slice(0, 60)}"`)
  }
}

function applyScore(trajectory: Scored, score: unknown, source: string): void {
  const reward = isJsonObject(score) ? score['reward'] : score
  if (typeof reward !== 'number' || !Number.isFinite(reward)) {
    throw new Error(`${source}: a reward must be a finite number, got ${JSON.stringify(reward) ?? 'nothing'}`)
  }
  trajectory.reward = reward
  if (!isJsonObject(score) || !isJsonObject(score['metrics'])) return
  for (const [name, value] of Object.entries(score['metrics'])) {
    if (typeof value === 'number' || typeof value === 'boolean') trajectory.metrics[name] = value
  }
}
