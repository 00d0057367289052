/**
 * Trajectory groups from JSON to types, with the path of the offending element in every error.
 *
 * Accepts both forms that versions of openpipe-art send: `messages_and_choices` with `additional_histories`, and recorded
 * `exchanges`. Unknown fields are ignored, null counts as absent, `logs` and times are checked and
 * not kept. An element is a Choice when it has `message`, otherwise a message and then needs `role`.
 * A group may hold no trajectory or one: it is kept, contributes nothing to training, and is counted there.
 */
import { DataError } from '#base/errors/errors.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { findForeignGroup } from '#contract/wire/training/row-forms/foreign-group.js'
import { EXCHANGE_KINDS, exactChoices } from './exchanges.js'
import type { DataNotes } from './notes/data-notes.js'
import { createMessageReader, type MessageReader, noteUnreadFields, readTools } from './notes/read-message.js'
import { describe, MAX_REWARD_MAGNITUDE, parseChoice, type TokenLimits } from './parse-choice.js'
import { samplingOfRequest } from './request-sampling.js'
import { type RewardRange, rangeOfGroup } from './reward-range.js'
import type { ChoiceItem, History, HistoryItem, RolloutException, Trajectory, TrajectoryGroup } from './trajectory.js'

/** What is known about the model when trajectories arrive; absent limits are not checked. */
export interface ParseOptions extends TokenLimits {
  /** Latest step of the model: a policy version above it cannot exist yet and is refused. */
  readonly currentStep?: number | undefined
  /** Takes what is worth saying about what is read; default nobody. */
  readonly notes?: DataNotes | undefined
}

const HISTORY_FIELDS = ['messages_and_choices', 'tools', 'functions']
/** What besides messages and tools a prompt is made of, as requests for a chat say it. */
const PROMPT_FIELDS = [
  ...['chat_template', 'chat_template_kwargs', 'documents', 'reasoning_effort'],
  ...['add_generation_prompt', 'continue_final_message'],
]
const GROUP_FIELDS: ReadonlySet<string> = new Set([
  ...['trajectories', 'exceptions', 'metadata', 'metrics', 'logs'],
  ...['min_reward', 'max_reward'],
])
const TRAJECTORY_FIELDS: ReadonlySet<string> = new Set([
  ...HISTORY_FIELDS,
  ...['additional_histories', 'exchanges', 'reward', 'initial_policy_version', 'final_policy_version'],
  ...['metrics', 'metadata', 'logs', 'start_time'],
])

/**
 * Reads the `trajectory_groups` array of a request.
 *
 * @param value untrusted JSON
 * @param options limits of the model
 * @returns one typed group per element, in order
 * @throws {DataError} with `param` like `trajectory_groups[2].trajectories[0].reward`; codes `invalid_trajectory`,
 *   `invalid_reward`, `invalid_policy_version`, `invalid_metric`, and those of `parseChoice`
 */
export function parseTrajectoryGroups(value: unknown, options: ParseOptions = {}): TrajectoryGroup[] {
  return arrayAt(value, 'trajectory_groups').map((group, g) =>
    parseTrajectoryGroup(group, `trajectory_groups[${g}]`, options),
  )
}

/**
 * Reads one group, for callers that stream groups one by one.
 *
 * @param path JSON path of the group, quoted in errors
 * @throws {DataError} as `parseTrajectoryGroups`
 */
export function parseTrajectoryGroup(value: unknown, path: string, options: ParseOptions = {}): TrajectoryGroup {
  const group = objectAt(value, path)
  const foreign = findForeignGroup(group)
  if (foreign !== null) {
    throw new DataError('invalid_trajectory', `${path} ${foreign.problem}.`, { param: path, hint: foreign.hint })
  }
  noteUnreadFields(group, GROUP_FIELDS, (kind, name) => options.notes?.add(kind, path, name))
  checkLogs(group['logs'], `${path}.logs`)
  const given = arrayAt(group['trajectories'] ?? missing(path, 'trajectories'), `${path}.trajectories`)
  const trajectories = given.map((trajectory, i) => parseTrajectory(trajectory, `${path}.trajectories[${i}]`, options))
  return {
    trajectories,
    range: parseRange(group, trajectories, path),
    exceptions: arrayAt(group['exceptions'] ?? [], `${path}.exceptions`).map((exception, i) =>
      parseException(exception, `${path}.exceptions[${i}]`),
    ),
    metadata: objectAt(group['metadata'] ?? {}, `${path}.metadata`),
    metrics: parseMetrics(group['metrics'], `${path}.metrics`),
  }
}

function parseTrajectory(value: unknown, path: string, options: ParseOptions): Trajectory {
  const trajectory = objectAt(value, path)
  noteUnreadFields(trajectory, TRAJECTORY_FIELDS, (kind, name) =>
    options.notes?.add(kind, path, `trajectories[].${name}`),
  )
  checkLogs(trajectory['logs'], `${path}.logs`)
  checkTime(trajectory['start_time'], `${path}.start_time`)
  const exchanges = parseExchanges(trajectory['exchanges'], `${path}.exchanges`, options)
  const histories = [...parseHistories(trajectory, path, options), ...exchanges.histories]
  if (trajectory['reward'] === undefined && histories.some(({ items }) => items.some(isRewarded))) {
    throw new DataError('invalid_reward', `${path}.reward is required beside rewards of turns.`, {
      param: `${path}.reward`,
      hint: 'it is their sum, and what was earned at the end',
    })
  }
  return {
    histories,
    reward: parseReward(trajectory['reward'], `${path}.reward`),
    initialPolicyVersion: parsePolicyVersion(
      trajectory['initial_policy_version'],
      `${path}.initial_policy_version`,
      options,
    ),
    finalPolicyVersion: parsePolicyVersion(trajectory['final_policy_version'], `${path}.final_policy_version`, options),
    metrics: parseMetrics(trajectory['metrics'], `${path}.metrics`),
    metadata: objectAt(trajectory['metadata'] ?? {}, `${path}.metadata`),
    unsupportedExchangeCount: exchanges.unsupportedCount,
  }
}

const isRewarded = (item: HistoryItem): boolean => item.kind === 'choice' && item.reward !== undefined

/** The main history (left out when empty) and the additional ones. */
function parseHistories(trajectory: JsonObject, path: string, options: ParseOptions): History[] {
  const main = parseHistory(trajectory, path, options)
  const additional = arrayAt(trajectory['additional_histories'] ?? [], `${path}.additional_histories`).map(
    (history, h) => {
      const historyPath = `${path}.additional_histories[${h}]`
      const object = objectAt(history, historyPath)
      if (object['messages_and_choices'] == null) missing(historyPath, 'messages_and_choices')
      return parseHistory(object, historyPath, options)
    },
  )
  return [main, ...additional].filter((history) => history.items.length > 0)
}

function parseHistory(value: JsonObject, path: string, options: ParseOptions): History {
  const list = arrayAt(value['messages_and_choices'] ?? [], `${path}.messages_and_choices`)
  const reader = createMessageReader()
  return {
    items: list.map((item, m) => parseItem(item, `${path}.messages_and_choices[${m}]`, { ...options, reader })),
    tools: parseTools(value, path, options),
    source: 'messages',
  }
}

/** A list of texts. */
function checkLogs(value: JsonValue | undefined, path: string): void {
  arrayAt(value ?? [], path).forEach((line, i) => {
    if (typeof line === 'string') return
    throw new DataError('invalid_trajectory', `${path}[${i}] must be a string, got ${describe(line)}.`, {
      param: `${path}[${i}]`,
    })
  })
}

/** A time as pydantic reads one: ISO 8601, or seconds since 1970. */
function checkTime(value: JsonValue | undefined, path: string): void {
  if (value == null || typeof value === 'number') return
  if (typeof value === 'string' && /^\d{4}-\d\d-\d\d/.test(value) && !Number.isNaN(Date.parse(value))) return
  if (typeof value === 'string' && /^\d+(\.\d+)?$/.test(value)) return
  throw new DataError('invalid_trajectory', `${path} must be a time in ISO 8601, got ${describe(value)}.`, {
    param: path,
  })
}

function parseItem(
  value: unknown,
  path: string,
  options: ParseOptions & { readonly reader: MessageReader },
): HistoryItem {
  const item = objectAt(value, path)
  if ('message' in item) return readChoice(item, path, options)
  if (typeof item['role'] !== 'string' || item['role'] === '') {
    throw new DataError('invalid_trajectory', `${path} must be a message with a role or a choice with a message.`, {
      param: path,
    })
  }
  const content = item['content'] ?? null
  if (content !== null && typeof content !== 'string' && !Array.isArray(content)) {
    throw new DataError(
      'invalid_trajectory',
      `${path}.content must be a string, an array or null, got ${describe(content)}.`,
      { param: `${path}.content` },
    )
  }
  if (Array.isArray(content)) for (const [p, part] of content.entries()) objectAt(part, `${path}.content[${p}]`)
  return { kind: 'message', message: readMessage(item, path, options) }
}

function readChoice(
  choice: JsonObject,
  path: string,
  options: ParseOptions & { readonly reader: MessageReader },
): ChoiceItem {
  const parsed = parseChoice(choice, path, options)
  return { ...parsed, message: readMessage(parsed.message, `${path}.message`, options) }
}

/** Fields of a recorded request that its prompt was made with, and that nobody knows any more without its ids. */
function notePromptFields(request: JsonObject, path: string, { notes }: ParseOptions): void {
  const others = new Set(Object.keys(request).filter((name) => !PROMPT_FIELDS.includes(name)))
  noteUnreadFields(request, others, (kind, name) => notes?.add(kind, path, `request.${name}`))
}

/** A message with its older forms converted. What a server writes into a choice besides is no slip of whoever made the data. */
function readMessage(
  message: JsonObject,
  path: string,
  { notes, reader }: Pick<ParseOptions, 'notes'> & { readonly reader: MessageReader },
): JsonObject {
  const read = reader.read(message, (kind, name) => {
    if (kind === 'unread' && path.endsWith('.message')) return
    const list = /(\w+)\[\d+\]$/.exec(path)?.[1] ?? ''
    notes?.add(kind, path, kind === 'unread' ? `${list}[].${name}` : name)
  })
  if (typeof read !== 'string') return read
  throw new DataError('invalid_trajectory', `${path} has ${read}.`, { param: path })
}

/** Recorded exchanges: each choice becomes a history of its own, prompt ids of a chat completion copied onto it. */
function parseExchanges(
  value: JsonValue | undefined,
  path: string,
  options: ParseOptions,
): { histories: History[]; unsupportedCount: number } {
  const exchanges = objectAt(value ?? {}, path)
  let unsupportedCount = 0
  const exact: History[] = []
  for (const kind of EXCHANGE_KINDS) {
    for (const [e, exchange] of arrayAt(exchanges[kind] ?? [], `${path}.${kind}`).entries()) {
      const place = `${path}.${kind}[${e}]`
      const found = exactChoices(kind, objectAt(exchange, place), place)
      if (found === null) unsupportedCount += 1
      for (const { choice, path: at } of found ?? []) {
        exact.push({ items: [parseChoice(choice, at, options)], tools: null, source: 'exchange' })
      }
    }
  }
  const histories = arrayAt(exchanges['chat_completions'] ?? [], `${path}.chat_completions`).flatMap((exchange, e) =>
    parseExchange(objectAt(exchange, `${path}.chat_completions[${e}]`), `${path}.chat_completions[${e}]`, options),
  )
  return { histories: [...histories, ...exact], unsupportedCount }
}

function parseExchange(exchange: JsonObject, path: string, options: ParseOptions): History[] {
  const request = objectAt(exchange['request'], `${path}.request`)
  const response = objectAt(exchange['response'], `${path}.response`)
  const reader = createMessageReader()
  const context = arrayAt(request['messages'], `${path}.request.messages`).map((message, m) =>
    parseItem(message, `${path}.request.messages[${m}]`, { ...options, reader }),
  )
  const tools = parseTools(request, `${path}.request`, options)
  const choices = arrayAt(response['choices'], `${path}.response.choices`)
  const hasPrompt = (value: unknown): boolean => isJsonObject(value) && (value['prompt_token_ids'] ?? null) !== null
  if (!hasPrompt(response) && !choices.every(hasPrompt)) notePromptFields(request, `${path}.request`, options)
  return choices.map((value, c) => {
    const choicePath = `${path}.response.choices[${c}]`
    const choice = objectAt(value, choicePath)
    const promptTokenIds = choice['prompt_token_ids'] ?? response['prompt_token_ids'] ?? null
    const sampling = choice['sampling'] ?? samplingOfRequest(request)
    const withPrompt = { ...choice, prompt_token_ids: promptTokenIds, sampling }
    return {
      items: [...context, readChoice(withPrompt, choicePath, { ...options, reader: reader.fork() })],
      tools,
      source: 'exchange',
    }
  })
}

function parseTools(value: JsonObject, path: string, { notes }: ParseOptions): readonly JsonObject[] | null {
  const { tools = null } = value
  if (tools !== null) {
    for (const [t, tool] of arrayAt(tools, `${path}.tools`).entries()) objectAt(tool, `${path}.tools[${t}]`)
  }
  const read = readTools(value, (kind, name) => notes?.add(kind, path, name))
  if (typeof read !== 'string') return read
  throw new DataError('invalid_trajectory', `${path} has ${read}.`, { param: path })
}

/** @throws {DataError} `invalid_reward` where a bound is no number, the least is above the most, or a reward lies outside */
function parseRange(group: JsonObject, trajectories: readonly Trajectory[], path: string): RewardRange | null {
  const { min_reward: least = null, max_reward: most = null } = group
  if (least === null && most === null) return null
  const refuse = (param: string, problem: string): never => {
    throw new DataError('invalid_reward', `${param} ${problem}.`, { param })
  }
  if (least !== null) parseReward(least, `${path}.min_reward`)
  if (most !== null) parseReward(most, `${path}.max_reward`)
  const rewards = trajectories.map(({ reward }) => reward)
  const range = rangeOfGroup(group, rewards)
  if (range === null) return null
  if (range[0] > range[1]) refuse(`${path}.min_reward`, `is ${range[0]}, more than max_reward, which is ${range[1]}`)
  const outside = rewards.findIndex((reward) => reward < range[0] || reward > range[1])
  if (outside >= 0) {
    refuse(
      `${path}.trajectories[${outside}].reward`,
      `is ${rewards[outside]}, outside of what the group says a reward can be, ${range[0]} to ${range[1]}`,
    )
  }
  return range
}

/** Absent means 0, as newer clients leave the default out. */
function parseReward(value: JsonValue | undefined, path: string): number {
  if (value === undefined) return 0
  if (typeof value !== 'number' || !(Math.abs(value) <= MAX_REWARD_MAGNITUDE)) {
    throw new DataError(
      'invalid_reward',
      `${path} must be a finite number (magnitude at most 1e30), got ${describe(value)}.`,
      { param: path },
    )
  }
  return value
}

function parsePolicyVersion(value: JsonValue | undefined, path: string, options: ParseOptions): number | null {
  if (value === undefined || value === null) return null
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0) {
    throw new DataError(
      'invalid_policy_version',
      `${path} must be an integer of at least 0 or null, got ${describe(value)}.`,
      { param: path },
    )
  }
  if (options.currentStep !== undefined && value > options.currentStep) {
    throw new DataError(
      'invalid_policy_version',
      `${path} is ${value}, but the model's latest step is ${options.currentStep}.`,
      { param: path },
    )
  }
  return value
}

function parseMetrics(value: JsonValue | undefined, path: string): Record<string, number> {
  const entries: [string, number][] = []
  for (const [name, metric] of Object.entries(objectAt(value ?? {}, path))) {
    if (metric === null) continue
    if (typeof metric === 'boolean') entries.push([name, metric ? 1 : 0])
    else if (typeof metric === 'number' && Number.isFinite(metric)) entries.push([name, metric])
    else
      throw new DataError(
        'invalid_metric',
        `${path}.${name} must be a finite number or a boolean, got ${describe(metric)}.`,
        { param: `${path}.${name}` },
      )
  }
  return Object.fromEntries(entries)
}

function parseException(value: unknown, path: string): RolloutException {
  const exception = objectAt(value, path)
  const text = (name: string): string => (typeof exception[name] === 'string' ? exception[name] : '')
  return { type: text('type'), message: text('message') }
}

function objectAt(value: unknown, path: string): JsonObject {
  if (!isJsonObject(value))
    throw new DataError('invalid_trajectory', `${path} must be an object, got ${describe(value)}.`, { param: path })
  return value
}

function arrayAt(value: unknown, path: string): readonly unknown[] {
  if (!Array.isArray(value))
    throw new DataError('invalid_trajectory', `${path} must be an array, got ${describe(value)}.`, { param: path })
  return value
}

function missing(path: string, name: string): never {
  throw new DataError('invalid_trajectory', `${path}.${name} is required.`, { param: `${path}.${name}` })
}
