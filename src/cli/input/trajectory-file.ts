/**
 * Trajectory groups from a file: JSON Lines of groups, a JSON array of groups, or `{"trajectory_groups": […]}`.
 *
 * Checks only what a person gets wrong by hand, so that the answer names the line; the service checks everything.
 */

import { parseExactRow } from '#base/json/exact-json.js'
import { describeJsonFault } from '#base/json/json-fault.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import type { AnsweredGroup } from '#contract/jobs/diagnosis/answers.js'
import { diagnoseGroups, sayFinding } from '#contract/jobs/diagnosis/diagnose.js'
import { findForeignGroup } from '#contract/wire/training/row-forms/foreign-group.js'
import { rangeOfGroup, shareOfRange } from '#formats/rows/reward-range.js'
import { countTraining, estimatorOf } from '#formats/rows/which-train.js'
import { UsageError } from '../terminal/errors.js'

import type { Io } from '../terminal/io.js'
import { createProblems, displayPath, messageOf, type Problems, readInput } from './input-file.js'

/** Groups ready to send, with what can be said about them without the service. */
export interface TrajectoryFile {
  readonly groups: readonly JsonValue[]
  readonly trajectoryCount: number
  /** Rewards by group, by which a job's options say what trains (`whichTrain`). */
  readonly rewards: readonly (readonly number[])[]
  /** Choices with logprobs or token ids, that is what a policy sampled; null when exchanges hide them from this check. */
  readonly sampledTurnCount: number | null
  readonly meanReward: number
}

interface Placed {
  /** `file:line` or `file`. */
  readonly where: string
  /** JSON path of the group inside its line or document, empty for a whole line. */
  readonly path: string
  readonly value: JsonValue
}

/**
 * Reads and checks a file of groups.
 *
 * @throws {UsageError} `input_invalid` with what is wrong as `file:line: path: what was expected`, each kind once
 */
export async function readTrajectoryFile(path: string, io: Io): Promise<TrajectoryFile> {
  const text = await readInput(path, io)
  const problems = createProblems()
  const placed = splitGroups(text, displayPath(path), problems)
  refuseOtherRows(placed)
  for (const group of placed) checkGroup(group, problems)
  problems.throwIfAny('trainyard help files shows the format')
  if (placed.length === 0) {
    throw new UsageError('input_invalid', `${displayPath(path)} holds no trajectory group`, {
      hint: 'trainyard help files shows the format',
    })
  }
  return summarize(placed.map((group) => group.value))
}

/** Rows of other commands, which a list of what is missing in a group would not explain. */
function refuseOtherRows([first]: readonly Placed[]): void {
  const row = first?.value
  if (first === undefined || !isJsonObject(row)) return
  const foreign = findForeignGroup(row)
  if (foreign === null) return
  throw new UsageError('input_invalid', `${first.where}: ${foreign.problem}`, { hint: foreign.hint })
}

function splitGroups(text: string, name: string, problems: Problems): readonly Placed[] {
  const whole = parseWhole(text)
  if (whole !== null) {
    return whole.groups.map((value, i) => ({ where: name, path: `${whole.prefix}[${i}]`, value }))
  }
  const groups: Placed[] = []
  text.split('\n').forEach((line, i) => {
    if (line.trim() === '') return
    const where = `${name}:${i + 1}`
    try {
      groups.push({ where, path: '', value: parseExactRow(line) })
    } catch (error) {
      problems.add(where, `not valid JSON: ${describeJsonFault(line) ?? messageOf(error)}`)
    }
  })
  return groups
}

/** A document that is one array or `{"trajectory_groups": …}`; null: read it as JSON Lines. */
function parseWhole(text: string): { readonly prefix: string; readonly groups: readonly JsonValue[] } | null {
  const start = text.trimStart()
  if (!start.startsWith('[') && !start.startsWith('{')) return null
  try {
    const value: unknown = parseExactRow(text)
    if (Array.isArray(value)) return { prefix: '', groups: value as JsonValue[] }
    const groups = isJsonObject(value) ? value['trajectory_groups'] : undefined
    return Array.isArray(groups) ? { prefix: 'trajectory_groups', groups: groups as JsonValue[] } : null
  } catch {
    return null
  }
}

function checkGroup(group: Placed, problems: Problems): void {
  const say = (path: string, problem: string) => {
    const full = [group.path, path].filter((part) => part !== '').join('.')
    problems.add(group.where, full === '' ? problem : `${full}: ${problem}`)
  }
  if (!isJsonObject(group.value)) {
    say('', `must be a group object, got ${describe(group.value)}`)
    return
  }
  const { trajectories } = group.value
  if (!Array.isArray(trajectories)) {
    say('trajectories', `must be an array, got ${describe(trajectories)}`)
    return
  }
  const { exceptions } = group.value
  const isFailed = Array.isArray(exceptions) && exceptions.length > 0
  if (trajectories.length === 0 && !isFailed) say('trajectories', 'must hold at least one trajectory')
  trajectories.forEach((trajectory: JsonValue, i) => {
    checkTrajectory(trajectory, (path, problem) => {
      say(path === '' ? `trajectories[${i}]` : `trajectories[${i}].${path}`, problem)
    })
  })
}

function checkTrajectory(trajectory: JsonValue, say: (path: string, problem: string) => void): void {
  if (!isJsonObject(trajectory)) {
    say('', `must be an object, got ${describe(trajectory)}`)
    return
  }
  const { reward } = trajectory
  if (reward !== undefined && (typeof reward !== 'number' || !Number.isFinite(reward))) {
    say('reward', `must be a finite number, got ${describe(reward)}`)
  }
  const { messages_and_choices: messages, exchanges } = trajectory
  if (messages === undefined && exchanges !== undefined) return
  if (!Array.isArray(messages)) {
    say('messages_and_choices', `must be an array, got ${describe(messages)}`)
    return
  }
  if (messages.length === 0) say('messages_and_choices', 'must not be empty')
  messages.forEach((element: JsonValue, i) => {
    const isElement = isJsonObject(element) && (typeof element['role'] === 'string' || isJsonObject(element['message']))
    if (!isElement) {
      say(
        `messages_and_choices[${i}]`,
        `must be a message with a role or a choice with a message, got ${describe(element)}`,
      )
    }
  })
}

function summarize(groups: readonly JsonValue[]): TrajectoryFile {
  let sampledTurnCount: number | null = 0
  const rewards: number[][] = []
  for (const group of groups) {
    const trajectories = isJsonObject(group) && Array.isArray(group['trajectories']) ? group['trajectories'] : []
    const own = trajectories.map((trajectory: JsonObject) => Number(trajectory['reward'] ?? 0))
    rewards.push(own)
    for (const trajectory of trajectories) {
      const turns = countSampledTurns(trajectory)
      sampledTurnCount = turns === null || sampledTurnCount === null ? null : sampledTurnCount + turns
    }
  }
  const all = rewards.flat()
  const meanReward = all.reduce((sum, reward) => sum + reward, 0) / Math.max(1, all.length)
  return { groups, trajectoryCount: all.length, rewards, sampledTurnCount, meanReward }
}

function countSampledTurns(trajectory: JsonObject): number | null {
  const { messages_and_choices: messages, additional_histories: histories, exchanges } = trajectory
  if (exchanges !== undefined && exchanges !== null) return null
  const all = [
    messages,
    ...(Array.isArray(histories)
      ? histories.map((each: JsonValue) => isJsonObject(each) && each['messages_and_choices'])
      : []),
  ]
  return all
    .flatMap((elements) => (Array.isArray(elements) ? (elements as readonly JsonValue[]) : []))
    .filter(
      (element) =>
        isJsonObject(element) &&
        isJsonObject(element['message']) &&
        (Boolean(element['logprobs']) || Boolean(element['token_ids'])),
    ).length
}

/**
 * Why a job on this file would change nothing, or null. The service takes such a job and saves an unchanged checkpoint,
 * as its clients expect; a person should hear about it before.
 */
export function explainEmpty(file: TrajectoryFile, hyperparameters: JsonObject): string | null {
  const { allow_training_without_logprobs: isWithoutLogprobs } = hyperparameters
  const estimator = estimatorOf(hyperparameters)
  if (countTraining(file.rewards, estimator) === 0) {
    const findings = diagnoseGroups(file.groups.map(toAnswered), [], { estimator })
    return `nothing to train on: ${findings.map(sayFinding).join('; ')}`
  }
  if (file.sampledTurnCount === 0 && isWithoutLogprobs !== true) {
    return 'nothing to train on: no choice carries logprobs or token ids; --set allow_training_without_logprobs=true trains on answers without them'
  }
  return null
}

/** The last answer of each trajectory; recorded exchanges are not read here and count as none. */
function toAnswered(group: JsonValue): AnsweredGroup {
  if (!isJsonObject(group)) return []
  const all = Array.isArray(group['trajectories']) ? group['trajectories'].filter(isJsonObject) : []
  const range = rangeOfGroup(
    group,
    all.map(({ reward }) => Number(reward ?? 0)),
  )
  return all.map(({ messages_and_choices: items, reward }) => {
    const last = (Array.isArray(items) ? (items as readonly JsonValue[]) : [])
      .filter(isJsonObject)
      .findLast((item) => isJsonObject(item['message']) || item['role'] === 'assistant')
    const message = isJsonObject(last?.['message']) ? last['message'] : last
    const content = message?.['content'] ?? ''
    return {
      text: typeof content === 'string' ? content : JSON.stringify(content),
      reward: Number(reward ?? 0),
      share: range === null ? undefined : shareOfRange(Number(reward ?? 0), range),
      isCut: last?.['finish_reason'] === 'length',
    }
  })
}

/** A value in at most forty characters. */
function describe(value: unknown): string {
  if (value === undefined) return 'nothing'
  const text = JSON.stringify(value)
  return text.length > 40 ? `${text.slice(0, 37)}...` : text
}
