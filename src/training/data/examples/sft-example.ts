/**
 * Supervised examples from JSON Lines, checked line by line: conversations, their tools, and which of their turns train.
 *
 * Which assistant turns train is the job's `assistant_turns` unless the line says it: `loss_mask` is `"all"`,
 * `"last_assistant"`, `"none"`, a list with true or false for each message, or `{"roles": ["assistant"]}`; a message with
 * `weight: 0` (the fine-tuning format of OpenAI) never trains. Only assistant turns can train.
 *
 * A line may also have TRL's form, `{"prompt", "completion"}`: two texts are a user turn and the answer to it, two lists of
 * messages a conversation and how it goes on. Of it the completion trains, TRL's default `completion_only_loss`.
 * Deviation from TRL: texts go through the model's chat template like any conversation, because that is how models are served
 * here; TRL takes them as they are. In a completion of messages those of other roles do not train.
 */
import { InvalidRequestError } from '#base/errors.js'
import { parseExactRow } from '#base/json/exact-json.js'
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import { type LineOptions, lineError, readLines } from '../json-lines.js'
import { describe } from '../parse-choice.js'

/** Which assistant messages train: all, the last one, or those at these positions of the conversation. */
export type TrainedTurns = 'all' | 'last' | readonly number[]

/** One checked line of a training file. */
export interface SftExample {
  /** Counted from 1, blank lines included. */
  readonly lineNumber: number
  readonly messages: readonly JsonObject[]
  readonly tools: readonly JsonObject[] | null
  /** What the line says trains; null leaves it to the job. */
  readonly trainedTurns: TrainedTurns | null
}

/**
 * Reads and checks the examples of a file.
 *
 * @param source bytes of the file, in chunks of any size
 * @returns examples in order; blank lines are passed over
 * @throws {DataError} with the line's number in the message and in `details.line`: `invalid_json`, `torn_last_line`,
 *   `invalid_example`, `wrong_last_role`, `invalid_loss_mask`, and those of `readLines`;
 *   `empty_training_data` when there is no example
 */
export async function* readSftExamples(
  source: AsyncIterable<Uint8Array>,
  options: LineOptions = {},
): AsyncGenerator<SftExample> {
  for await (const { value, number } of readJsonLines(source, options)) yield checkExample(value, number)
}

/**
 * Checks a whole file without tokenizing it.
 *
 * @returns number of examples, at least 1
 * @throws {DataError} as `readSftExamples`
 */
export async function countSftExamples(source: AsyncIterable<Uint8Array>, options: LineOptions = {}): Promise<number> {
  let count = 0
  for await (const _ of readSftExamples(source, options)) count += 1
  return count
}

/**
 * The JSON values of a file, one a line.
 *
 * @throws {DataError} `invalid_json`, `torn_last_line`; `empty_training_data` when there is none
 */
export async function* readJsonLines(
  source: AsyncIterable<Uint8Array>,
  options: LineOptions = {},
): AsyncGenerator<{ readonly value: unknown; readonly number: number }> {
  let isEmpty = true
  for await (const line of readLines(source, options)) {
    if (line.text.trim() === '') continue
    isEmpty = false
    yield { value: parseLine(line.text, line.number, line.isTerminated), number: line.number }
  }
  if (isEmpty) throw new InvalidRequestError('empty_training_data', 'The training data has no example.')
}

/**
 * Checks a list of chat messages.
 *
 * @param name what the list is called in errors
 * @throws {DataError} `invalid_example`
 */
export function checkMessages(messages: unknown, name: string, number: number): readonly JsonObject[] {
  if (!Array.isArray(messages) || messages.length === 0)
    throw lineError('invalid_example', number, `must have a non-empty array ${name}`)
  messages.forEach((message, m) => {
    const problem = messageProblem(message)
    if (problem !== null) throw lineError('invalid_example', number, `has ${name}[${m}]${problem}`)
  })
  return messages
}

/** @throws {DataError} `invalid_example` */
export function checkTools(value: JsonObject, number: number): readonly JsonObject[] | null {
  const tools = value['tools'] ?? null
  if (tools !== null && !(Array.isArray(tools) && tools.every(isJsonObject)))
    throw lineError('invalid_example', number, 'has tools that are not an array of objects')
  return tools
}

function parseLine(text: string, number: number, isTerminated: boolean): unknown {
  try {
    return parseExactRow(text)
  } catch (cause) {
    if (!isTerminated)
      throw lineError(
        'torn_last_line',
        number,
        'is the last one and ends inside a JSON value; the file looks cut off',
        { cause },
      )
    throw lineError('invalid_json', number, 'is not valid JSON', { cause })
  }
}

function checkExample(value: unknown, number: number): SftExample {
  if (!isJsonObject(value))
    throw lineError('invalid_example', number, `must be a JSON object with messages, got ${describe(value)}`)
  // published data sets of messages often keep their first one as `prompt` beside them
  const isPair = has(value, 'completion') || (has(value, 'prompt') && !has(value, 'messages'))
  const { messages, trainedTurns } = isPair ? fromPair(value, number) : fromMessages(value, number)
  return {
    lineNumber: number,
    messages: messages.map(withoutWeight),
    tools: checkTools(value, number),
    trainedTurns,
  }
}

type Turns = Pick<SftExample, 'messages' | 'trainedTurns'>

function fromMessages(value: JsonObject, number: number): Turns {
  const messages = checkMessages(value['messages'], 'messages', number)
  assertLastRole(messages, '', number)
  return { messages, trainedTurns: trainedTurnsOf(value['loss_mask'] ?? null, messages, number) }
}

/** The assistant turns of the completion train, whatever the job says of `assistant_turns`: the line says it by its form. */
function fromPair(value: JsonObject, number: number): Turns {
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
    const start = isText ? [{ role: 'user', content: prompt }] : checkMessages(prompt, 'prompt', number)
    const end = isText
      ? [{ role: 'assistant', content: completion as string }]
      : checkMessages(completion, 'completion', number)
    assertLastRole(end, 'completion ', number)
    const messages = [...start, ...end]
    const turns = assistants(messages).filter((m) => m >= start.length)
    return { messages, trainedTurns: turns.filter((m) => weightOf(messages[m] ?? {}, m, number) !== 0) }
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

/** The template must not see what is meant for the trainer. */
function withoutWeight(message: JsonObject): JsonObject {
  const { weight: _, ...others } = message
  return others
}

function trainedTurnsOf(lossMask: unknown, messages: readonly JsonObject[], number: number): TrainedTurns | null {
  const turns = turnsOfMask(lossMask, messages, number)
  const weights = messages.map((message, m) => weightOf(message, m, number))
  if (weights.every((weight) => weight !== 0)) return turns
  const all = turns === null || turns === 'all' ? assistants(messages) : turns
  const chosen = all === 'last' ? [messages.length - 1] : all
  return chosen.filter((m) => weights[m] !== 0)
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

function weightOf(message: JsonObject, m: number, number: number): 0 | 1 {
  const weight = message['weight'] ?? 1
  if (weight === 0 || weight === 1) return weight
  throw lineError('invalid_loss_mask', number, `has messages[${m}].weight that is neither 0 nor 1`)
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
