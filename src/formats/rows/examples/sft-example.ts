/**
 * Supervised examples from JSON Lines, checked line by line: conversations, their tools, and which of their turns train.
 *
 * Which assistant turns train is the job's `assistant_turns` unless the line says it: `loss_mask` is `"all"`,
 * `"last_assistant"`, `"none"`, a list with true or false for each message, or `{"roles": ["assistant"]}`; a message with
 * `weight: 0` (the fine-tuning format of OpenAI) or `train: false` (axolotl; `loss: false` of ms-swift) never trains, whatever else
 * is said. Only assistant turns can train. The line's own `weight`, a number from 0, multiplies the loss of all its tokens; at 0, or
 * with `train: false`, nothing of it trains. A `system` or `system_prompt` beside the turns is their system message.
 *
 * A line may also have TRL's form, `{"prompt", "completion"}`: two texts are a user turn and the answer to it, two lists of
 * messages a conversation and how it goes on. Of it the completion trains, TRL's default `completion_only_loss`.
 * Deviation from TRL: texts go through the model's chat template like any conversation, because that is how models are served
 * here; TRL takes them as they are. In a completion of messages those of other roles do not train.
 */

import { DataError, InvalidRequestError } from '#base/errors/errors.js'
import { findTable } from '#base/foreign-file.js'
import { parseExactRow } from '#base/json/exact-json.js'
import { describeFault, findJsonFault } from '#base/json/json-fault.js'
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import {
  findForeignFile,
  findForeignRow,
  isSaid,
  READ_FIELDS,
  type RowKind,
  systemOf,
  systemTextOf,
  trainWordOf,
  withWeightOfWord,
} from '#contract/wire/training/row-forms.js'
import { type LineOptions, lineError, type RowSource, readLines, refuseFile } from '../json-lines.js'
import type { DataNotes } from '../notes/data-notes.js'
import { findDuplicateKey, isWellFormedJson } from '../notes/json-text.js'
import {
  createMessageReader,
  isEmptyAnswer,
  type NoteField,
  noteUnreadFields,
  readTools,
} from '../notes/read-message.js'
import { describe } from '../parse-choice.js'

/** Which assistant messages train: all, the last one, or those at these positions of the conversation. */
export type TrainedTurns = 'all' | 'last' | readonly number[]

/** How rows are read. */
export interface RowOptions extends LineOptions {
  /** Takes what is worth saying about rows that train; default nobody. */
  readonly notes?: DataNotes | undefined
  /** Which turns train where a row does not say it; default all. */
  readonly assistantTurns?: 'all' | 'last' | undefined
  /** Whether the model's chat template writes reasoning; default it may. */
  readonly isReasoningRead?: boolean | undefined
}

/** One checked line of a training file. */
export interface SftExample {
  /** Counted from 1, blank lines included. */
  readonly lineNumber: number
  readonly messages: readonly JsonObject[]
  readonly tools: readonly JsonObject[] | null
  /** What the line says trains; null leaves it to the job. */
  readonly trainedTurns: TrainedTurns | null
  /** What multiplies the loss of its tokens; 0: no turn of it trains. Absent: 1. */
  readonly weight?: number
}

/** Largest weight of a row: ten thousand copies of it. */
const MAX_WEIGHT = 10_000

/**
 * Reads and checks the examples of a file.
 *
 * @param source bytes of the file, in chunks of any size, or its lines
 * @returns examples in order; blank lines are passed over
 * @throws {DataError} with the line's number in the message and in `details.line`: `not_json_lines`, `invalid_json`,
 *   `torn_last_line`, `duplicate_key`, `invalid_example`, `wrong_last_role`, `invalid_loss_mask`, `invalid_weight`, and those of `readLines`;
 *   `empty_training_data` when there is no example
 */
export async function* readSftExamples(source: RowSource, options: RowOptions = {}): AsyncGenerator<SftExample> {
  for await (const { value, number } of readJsonLines(source, options)) yield checkExample(value, number, options)
}

/**
 * Checks a whole file without tokenizing it.
 *
 * @returns number of examples, at least 1
 * @throws {DataError} as `readSftExamples`
 */
export async function countSftExamples(source: AsyncIterable<Uint8Array>, options: RowOptions = {}): Promise<number> {
  let count = 0
  for await (const _ of readSftExamples(source, options)) count += 1
  return count
}

/**
 * The JSON values of a file, one a line.
 *
 * @throws {DataError} `not_json_lines`, `invalid_json`, `torn_last_line`, `duplicate_key`; `empty_training_data` when there is none
 */
export async function* readJsonLines(
  source: RowSource,
  options: Pick<RowOptions, 'maxLineBytes' | 'notes'> = {},
): AsyncGenerator<{ readonly value: unknown; readonly number: number }> {
  let isEmpty = true
  for await (const line of 'lines' in source ? source.lines : readLines(source, options)) {
    if (line.text.trim() === '') continue
    if (isEmpty) assertJsonLines(line.text, line.number)
    isEmpty = false
    if (!isWellFormedJson(line.text)) options.notes?.add('lone_surrogate', `line ${line.number}`)
    yield { value: parseLine(line.text, line.number, line.isTerminated), number: line.number }
  }
  if (isEmpty) throw new InvalidRequestError('empty_training_data', 'The training data has no example.')
}

/**
 * Checks a list of chat messages and reads their older forms.
 *
 * @param name what the list is called in errors
 * @param row notes what is worth saying of it
 * @returns with `weight` 0 where a turn says that it does not train
 * @throws {DataError} `invalid_example`, `invalid_loss_mask`
 */
export function checkMessages(messages: unknown, name: string, { number, note }: Row): readonly JsonObject[] {
  if (!Array.isArray(messages) || messages.length === 0)
    throw lineError('invalid_example', number, `must have a non-empty array ${name}`)
  const reader = createMessageReader(READ_FIELDS.message)
  return messages.map((message, m) => {
    const problem = messageProblem(message)
    if (problem !== null) throw lineError('invalid_example', number, `has ${name}[${m}]${problem}`)
    const noteField: NoteField = (kind, field) => note(kind, kind === 'unread' ? `${name}[].${field}` : field)
    const read = reader.read(withWeightOfWord(message), noteField)
    if (typeof read === 'string') throw lineError('invalid_example', number, `has ${name}[${m}] with ${read}`)
    assertTurnWeight(read, `${name}[${m}]`, number)
    return read
  })
}

/** A part of a turn cannot be left out, and its weight is 0 or 1. @throws {DataError} `invalid_loss_mask` */
function assertTurnWeight(message: JsonObject, name: string, number: number): void {
  const weight = message['weight'] ?? 1
  if (weight !== 0 && weight !== 1)
    throw lineError('invalid_loss_mask', number, `has ${name}.weight that is neither 0 nor 1`)
  if (!isSaid(message['train_detail'])) return
  throw lineError('invalid_loss_mask', number, `has ${name}.train_detail: a turn trains as a whole or not at all`, {
    hint: 'cut the turn into a prompt and a completion, or give it the weight 0',
  })
}

/** Whether a turn may train. */
export function mayTrain(message: JsonObject | undefined): boolean {
  return message?.['role'] === 'assistant' && message['weight'] !== 0
}

/** The template must not see what is meant for the trainer. */
export function withoutWeight(message: JsonObject): JsonObject {
  const { weight: _, ...others } = message
  return others
}

/**
 * A system prompt that stands beside the messages as their first one.
 *
 * @throws {DataError} `invalid_example`
 */
export function withSystem(value: JsonObject, messages: readonly JsonObject[], row: Row): readonly JsonObject[] {
  const system = systemTextOf(value)
  if (system === 'twice')
    throw lineError('invalid_example', row.number, 'has system and system_prompt, which say different things')
  for (const name of ['system', 'system_prompt'] as const)
    if (typeof value[name] !== 'string' && isSaid(value[name])) row.note('unread', name)
  if (system === null) return messages
  const added = systemOf(value, messages)
  const isAnother = added.length > 0 && ['system', 'developer'].includes(String(messages[0]?.['role']))
  row.note(isAnother ? 'unread' : 'converted', isAnother ? system.name : `${system.name} as a message`)
  return isAnother ? messages : [...added, ...messages]
}

/** @throws {DataError} `invalid_example` */
export function checkTools(value: JsonObject, { number, note }: Row): readonly JsonObject[] | null {
  const tools = readTools(value, note)
  if (typeof tools === 'string') throw lineError('invalid_example', number, `has ${tools}`)
  return tools
}

/** Says of a row in the form of another trainer what it is. @throws {DataError} `invalid_example` */
export function assertNotForeign(value: JsonObject, kind: RowKind, number: number): void {
  const foreign = findForeignRow(value, kind)
  if (foreign !== null) throw lineError('invalid_example', number, foreign.problem, { hint: foreign.hint })
}

/**
 * Rows of preferences have no weight of their own; one that says that it does not train is no row of theirs.
 *
 * @throws {DataError} `invalid_weight`, `invalid_loss_mask`
 */
export function assertTrains(value: JsonObject, number: number): void {
  const hint = 'leave the row out'
  if (value['weight'] === 0 || trainWordOf(value) === false)
    throw lineError('invalid_weight', number, 'says that it does not train, which rows of preferences cannot', { hint })
  if (isSaid(value['loss_mask']))
    throw lineError('invalid_loss_mask', number, 'has a loss_mask, which rows of preferences cannot have', {
      hint: 'an answer trains as a whole; a turn of it with the weight 0 does not',
    })
}

/** Where a row stands, and who takes notes of it. */
export interface Row {
  readonly number: number
  readonly note: NoteField
}

export function rowAt(number: number, notes: DataNotes | undefined): Row {
  return { number, note: (kind, name) => notes?.add(kind, `line ${number}`, name) }
}

/** Notes the turns that train and say nothing, and reasoning that is not read. */
export function noteAnswers(
  messages: readonly JsonObject[],
  trains: (m: number) => boolean,
  { note }: Row,
  { isReasoningRead = true }: RowOptions,
): void {
  messages.forEach((message, m) => {
    if (!isReasoningRead) {
      const dropped = new Set(
        Object.keys(message).filter((name) => name !== 'reasoning' && name !== 'reasoning_content'),
      )
      noteUnreadFields(message, dropped, note, 'messages[].')
    }
    if (trains(m) && isEmptyAnswer(message, isReasoningRead)) note('empty_answer', '')
  })
}

function assertJsonLines(text: string, number: number): void {
  const table = findTable(text)
  if (table !== null) refuseFile(table)
  const foreign = findForeignFile(text)
  if (foreign === null) return
  throw new DataError('not_json_lines', `The file ${foreign.problem}.`, {
    details: { line: number },
    hint: foreign.hint,
  })
}

function parseLine(text: string, number: number, isTerminated: boolean): unknown {
  let value: unknown
  try {
    value = parseExactRow(text)
  } catch (cause) {
    const fault = findJsonFault(text)
    if (!isTerminated && fault?.isCut === true)
      throw lineError(
        'torn_last_line',
        number,
        'is the last one and ends inside a JSON value; the file looks cut off',
        { cause },
      )
    const hint = fault === null ? undefined : describeFault(fault, text)
    throw lineError('invalid_json', number, 'is not valid JSON', { cause, hint })
  }
  const twice = findDuplicateKey(text)
  if (twice === null) return value
  throw lineError('duplicate_key', number, `has the key "${twice.slice(0, 60)}" twice in one object`, {
    hint: 'keep one of them: of two the last would be read and the first be lost',
  })
}

function checkExample(value: unknown, number: number, options: RowOptions): SftExample {
  if (!isJsonObject(value))
    throw lineError('invalid_example', number, `must be a JSON object with messages, got ${describe(value)}`)
  assertNotForeign(value, 'conversation', number)
  const row = rowAt(number, options.notes)
  // published data sets of messages often keep their first one as `prompt` beside them
  const isPair = has(value, 'completion') || (has(value, 'prompt') && !has(value, 'messages'))
  const read = isPair ? fromPair(value, row) : fromMessages(value, row, options)
  const weight = rowWeightOf(value, number)
  const { messages } = read
  const trainedTurns = weight === 0 ? [] : read.trainedTurns
  noteUnreadFields(value, isPair ? READ_FIELDS.pair : READ_FIELDS.messages, row.note)
  const turns = trainedTurns ?? options.assistantTurns ?? 'all'
  const trains = (m: number): boolean =>
    turns === 'all' || (turns === 'last' ? m === messages.length - 1 : turns.includes(m))
  noteAnswers(messages, trains, row, options)
  return {
    lineNumber: number,
    messages: messages.map(withoutWeight),
    tools: checkTools(value, row),
    trainedTurns,
    ...(weight === 1 ? {} : { weight }),
  }
}

/** 1 where the line says nothing. */
function rowWeightOf(value: JsonObject, number: number): number {
  if (trainWordOf(value) === false) return 0
  const weight = value['weight'] ?? 1
  if (typeof weight === 'number' && weight >= 0 && weight <= MAX_WEIGHT) return weight
  const hint = 'weight multiplies the loss of the row: 2 counts it as if it stood there twice, 0 leaves it out'
  throw lineError('invalid_weight', number, `must have a weight from 0 to ${MAX_WEIGHT}, got ${describe(weight)}`, {
    hint,
  })
}

type Turns = Pick<SftExample, 'messages' | 'trainedTurns'>

function fromMessages(value: JsonObject, row: Row, options: RowOptions): Turns {
  const { number } = row
  const given = checkMessages(value['messages'], 'messages', row)
  assertLastRole(given, '', number)
  const turns = trainedTurnsOf(value['loss_mask'] ?? null, given, number, options)
  const messages = withSystem(value, given, row)
  const added = messages.length - given.length
  return { messages, trainedTurns: Array.isArray(turns) ? turns.map((m: number) => m + added) : turns }
}

/** The assistant turns of the completion train, whatever the job says of `assistant_turns`: the line says it by its form. */
function fromPair(value: JsonObject, row: Row): Turns {
  const { number } = row
  const given = (name: string): unknown => value[name] ?? null
  if (given('messages') !== null)
    throw lineError('invalid_example', number, 'must have either messages or prompt and completion, not both')
  if (given('loss_mask') !== null) {
    throw maskError(
      number,
      'stands beside prompt and completion, of which the completion trains; write messages instead',
    )
  }
  const [prompt, completion] = [given('prompt'), given('completion')]
  const isText = typeof prompt === 'string'
  if ((isText || Array.isArray(prompt)) && (isText ? typeof completion === 'string' : Array.isArray(completion))) {
    const before = isText ? [{ role: 'user', content: prompt }] : checkMessages(prompt, 'prompt', row)
    const end = isText
      ? [{ role: 'assistant', content: completion as string }]
      : checkMessages(completion, 'completion', row)
    assertLastRole(end, 'completion ', number)
    const start = withSystem(value, before, row)
    const messages = [...start, ...end]
    return { messages, trainedTurns: assistants(messages).filter((m) => m >= start.length && mayTrain(messages[m])) }
  }
  throw lineError(
    'invalid_example',
    number,
    `must have prompt and completion, both a text or both a list of messages, got ${kindOf(prompt)} and ${kindOf(completion)}`,
  )
}

function has(value: JsonObject, name: string): boolean {
  return (value[name] ?? null) !== null
}

function kindOf(value: unknown): string {
  if (value === null) return 'nothing'
  return typeof value === 'string' ? 'a text' : describe(value)
}

/** @param name of the list with a blank behind it; empty for the line's only one */
function assertLastRole(messages: readonly JsonObject[], name: string, number: number): void {
  const lastRole = messages.at(-1)?.['role']
  if (lastRole === 'assistant') return
  throw lineError(
    'wrong_last_role',
    number,
    `must end ${name}with an assistant message, but its last role is ${describe(lastRole)}`,
  )
}

function trainedTurnsOf(
  lossMask: unknown,
  messages: readonly JsonObject[],
  number: number,
  { assistantTurns = 'all' }: RowOptions,
): TrainedTurns | null {
  const turns = turnsOfMask(lossMask, messages, number)
  if (messages.every(({ weight }) => weight !== 0)) return turns
  // the last turn, which is meant, may be one that does not train
  const asked = turns ?? assistantTurns
  const chosen = asked === 'all' ? assistants(messages) : asked === 'last' ? [messages.length - 1] : asked
  return chosen.filter((m) => mayTrain(messages[m]))
}

function turnsOfMask(lossMask: unknown, messages: readonly JsonObject[], number: number): TrainedTurns | null {
  if (lossMask === null || lossMask === 'all') return lossMask
  if (lossMask === 'last_assistant') return 'last'
  if (lossMask === 'none') return []
  if (isJsonObject(lossMask) && Array.isArray(lossMask['message_mask'])) {
    return turnsOfMask(lossMask['message_mask'], messages, number)
  }
  if (isJsonObject(lossMask) && Array.isArray(lossMask['roles'])) {
    const foreign = lossMask['roles'].find((role) => role !== 'assistant')
    if (foreign === undefined) return lossMask['roles'].length === 0 ? [] : 'all'
    throw maskError(number, `names the role ${describe(foreign)}, but only assistant turns can train`)
  }
  if (!Array.isArray(lossMask) || !lossMask.every((bit) => typeof bit === 'boolean')) {
    throw maskError(
      number,
      `is ${describe(lossMask)}, expected "all", "last_assistant", "none", a list of true and false, or {"roles": […]}`,
    )
  }
  if (lossMask.length !== messages.length)
    throw maskError(number, `has ${lossMask.length} values for ${messages.length} messages`)
  const foreign = lossMask.findIndex((bit, m) => bit && messages[m]?.['role'] !== 'assistant')
  if (foreign !== -1) throw maskError(number, `is true for messages[${foreign}], which is not the assistant's`)
  return lossMask.flatMap((bit, m) => (bit ? [m] : []))
}

function assistants(messages: readonly JsonObject[]): number[] {
  return messages.flatMap((message, m) => (message['role'] === 'assistant' ? [m] : []))
}

function maskError(number: number, problem: string) {
  return lineError('invalid_loss_mask', number, `has a loss_mask that ${problem}`)
}

function messageProblem(message: unknown): string | null {
  if (!isJsonObject(message)) return ` that is ${describe(message)} instead of an object`
  if (typeof message['role'] !== 'string') return '.role that is not a string'
  const content = message['content'] ?? null
  if (content !== null && typeof content !== 'string' && !Array.isArray(content))
    return '.content that is neither a string, an array nor null'
  const calls = message['tool_calls'] ?? null
  if (calls !== null && !(Array.isArray(calls) && calls.every(isJsonObject)))
    return '.tool_calls that is not an array of objects'
  return null
}
