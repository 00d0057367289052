/**
 * What an answer is worth: a built-in comparison with the row's `answer`, a function of the user's, or a program of theirs.
 *
 * A function is the `reward` (or default) export of a JavaScript or TypeScript file: `(answer, row, messages) => number`, or
 * `{ reward, metrics }`; its export `range` says the least and the most it can be.
 * A program gets one JSON object on standard input and prints the same.
 */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { extname, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { JsonObject } from '#base/util/json.js'
import { isJsonObject } from '#base/util/json.js'
import { closest } from '#base/util/suggest.js'
import { messageOf } from '#cli/input/input-file.js'
import { runProgram } from '#cli/local/user-program.js'
import { UsageError } from '#cli/terminal/errors.js'
import type { RewardRange } from '#formats/rows/reward-range.js'
import type { Trajectory } from '#sdk/rl/trajectory.js'
import { isRange } from './flags.js'

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

/** A reward, and what it can be at least and at most; null: only who wrote it knows. */
export interface LoadedReward {
  readonly score: Scorer
  readonly range: RewardRange | null
  /** Tells it from another: its word or command, and a module by what stands in it. */
  readonly identity: string
}

/** Whether a row has what the built-in rewards compare with. */
export function hasAnswer(row: JsonObject): boolean {
  return typeof row['answer'] === 'string' || typeof row['answer'] === 'number'
}

/**
 * Finds the reward a flag names.
 *
 * @param text `exact`, `contains`, a module's path, or a command for the shell; `exact` when absent
 * @param said what `--reward-range` says that it can be
 * @throws {UsageError} `invalid_reward` when a module cannot be loaded or has no such function, or two ranges are said
 */
export async function loadReward(text: string | undefined, said: RewardRange | null = null): Promise<LoadedReward> {
  const { score, range: own, identity } = await findReward(text)
  const name = text ?? 'exact'
  assertRange(name, { own, said })
  const range = own ?? said
  return { score: withinRange(name, range, score), range, identity }
}

/** @throws {UsageError} `invalid_reward` where `--reward-range` says another range than the reward itself */
export function assertRange(
  name: string,
  { own, said }: { readonly own: RewardRange | null; readonly said: RewardRange | null },
): void {
  if (said === null || own === null || (said[0] === own[0] && said[1] === own[1])) return
  throw new UsageError(
    'invalid_reward',
    `--reward-range says ${said.join(' to ')}, but ${name} is ${own.join(' to ')}`,
    {
      param: '--reward-range',
      hint: 'leave it out',
    },
  )
}

/** A reward that lies outside of its range is an error. */
export function withinRange(name: string, range: RewardRange | null, score: Scorer): Scorer {
  if (range === null) return score
  const [least, most] = range
  return async (scored, row, signal) => {
    await score(scored, row, signal)
    if (scored.reward >= least && scored.reward <= most) return
    throw new Error(`${name}: a reward of ${scored.reward} lies outside of its range, ${least} to ${most}`)
  }
}

async function findReward(text: string | undefined): Promise<LoadedReward> {
  const range: RewardRange = [0, 1]
  if (text === undefined || text === 'exact') {
    return { score: compareWith((answer, wanted) => answer.trim() === wanted.trim()), range, identity: 'exact' }
  }
  if (text === 'contains') {
    return { score: compareWith((answer, wanted) => answer.includes(wanted)), range, identity: text }
  }
  if (MODULES.has(extname(text)) && !/\s/.test(text)) return await loadModule(text)
  const near = /^[a-z]+$/.test(text) ? closest(text, ['exact', 'contains']) : undefined
  if (near !== undefined) {
    throw new UsageError('invalid_reward', `--reward ${text} is neither a reward nor a file`, {
      param: '--reward',
      hint: `did you mean ${near}? a program of that name is "./${text}" or a command with an argument`,
    })
  }
  return { score: scoreByProgram(text), range: null, identity: text }
}

function scoreByProgram(program: string): Scorer {
  return async (trajectory, row, signal) => {
    const { messages, answer } = trajectory
    const input = JSON.stringify({ answer, row, messages })
    const output = await runProgram(program, input, { timeoutMs: PROGRAM_MS, signal })
    applyScore(trajectory, parseOutput(output, program), program)
  }
}

function compareWith(isRight: (answer: string, wanted: string) => boolean): Scorer {
  return async function scoreByAnswer(trajectory, row) {
    trajectory.reward = isRight(trajectory.answer, String(row['answer'])) ? 1 : 0
  }
}

async function loadModule(path: string): Promise<LoadedReward> {
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
  const range = module['range'] ?? null
  if (range !== null && !isRange(range)) {
    throw new UsageError(
      'invalid_reward',
      `the export "range" of ${path} must be the least and the most that an answer can earn, got ${JSON.stringify(range)}`,
      {
        hint: 'export const range = [0, 1]',
      },
    )
  }
  return {
    range,
    identity: createHash('sha256')
      .update(await readFile(resolve(path)))
      .digest('hex'),
    score: async (trajectory, row) =>
      applyScore(trajectory, await score(trajectory.answer, row, trajectory.messages), path),
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
