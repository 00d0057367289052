/**
 * Supervised examples from JSON Lines: checked, tokenized with a mask on assistant turns, and cut into batches.
 *
 * Everything streams, so a file of gigabytes needs the memory of one batch. Order is the file's: no shuffling, batch i holds
 * the examples [i * batchSize, (i + 1) * batchSize), and learning rates are indexed by that i even when a batch is skipped.
 * Examples longer than the limit are dropped whole and counted.
 * Tokenizers enter through the `SftText` interface only.
 */
import { AppError, type DataError, InvalidRequestError } from '#base/errors.js'
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import { type LineOptions, lineError, readLines } from './json-lines.js'
import { describe } from './parse-choice.js'

/** Turns a conversation into tokens; 1 in the mask marks tokens of assistant turns, their end-of-turn token included. */
export interface SftText {
  renderWithMask(
    conversation: { readonly messages: readonly JsonObject[]; readonly tools: readonly JsonObject[] | null },
    assistantTurns: 'all' | 'last',
  ): { readonly tokenIds: ArrayLike<number>; readonly mask: ArrayLike<number> }
}

/** One checked line of a training file. */
export interface SftExample {
  /** Counted from 1, blank lines included. */
  readonly lineNumber: number
  readonly messages: readonly JsonObject[]
  readonly tools: readonly JsonObject[] | null
}

/** One tokenized example. `tokenIds` and `lossMask` have the same length T; `lossMask[0]` is always 0. */
export interface SftSequence {
  readonly tokenIds: Int32Array
  readonly lossMask: Uint8Array
  readonly lineNumber: number
}

/** The examples of one optimizer step. */
export interface SftBatch {
  /** Position among all batches of the file, from 0: the index into a learning-rate list. */
  readonly index: number
  /** Sequences with at least one trainable token. Empty means: skip this batch, no step. */
  readonly sequences: readonly SftSequence[]
  /** Examples of the file that belong to this batch. */
  readonly exampleCount: number
  /** Examples longer than the limit. */
  readonly droppedCount: number
  /** Examples within the limit in which no token trains. */
  readonly untrainableCount: number
  readonly tokenCount: number
  readonly trainableTokenCount: number
  /** Tokens of the longest sequence that is kept. */
  readonly longestLength: number
}

/** How a file is cut into batches. */
export interface SftBatchOptions extends LineOptions {
  readonly text: SftText
  readonly batchSize: number
  readonly assistantTurns: 'all' | 'last'
  /** Longest sequence that is kept, in tokens. */
  readonly maxLength: number
}

/** What a file holds; a first pass over it, so that a job knows its number of steps before it starts. */
export interface SftSurvey {
  readonly exampleCount: number
  readonly batchCount: number
  /** Batches with at least one trainable token: the number of optimizer steps. */
  readonly trainableBatchCount: number
  readonly droppedCount: number
  readonly untrainableCount: number
  readonly tokenCount: number
  readonly trainableTokenCount: number
  /** Tokens of the longest sequence that is kept. */
  readonly longestLength: number
}

/**
 * Reads and checks the examples of a file.
 *
 * @param source bytes of the file, in chunks of any size
 * @returns examples in order; blank lines are passed over
 * @throws {DataError} with the line's number in the message and in `details.line`: `invalid_json`, `torn_last_line`,
 *   `invalid_example`, `wrong_last_role`, `unsupported_loss_mask`, and those of `readLines`;
 *   `empty_training_data` when there is no example
 */
export async function* readSftExamples(
  source: AsyncIterable<Uint8Array>,
  options: LineOptions = {},
): AsyncGenerator<SftExample> {
  let isEmpty = true
  for await (const line of readLines(source, options)) {
    if (line.text.trim() === '') continue
    isEmpty = false
    yield checkExample(parseLine(line.text, line.number, line.isTerminated), line.number)
  }
  if (isEmpty) throw new InvalidRequestError('empty_training_data', 'The training data has no example.')
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
 * Tokenizes a file batch by batch.
 *
 * @returns every batch of the file in order, also those in which nothing trains
 * @throws {DataError} as `readSftExamples`; `unrenderable_example` when the chat template refuses a conversation
 */
export async function* readSftBatches(
  source: AsyncIterable<Uint8Array>,
  options: SftBatchOptions,
): AsyncGenerator<SftBatch> {
  let index = 0
  let examples: SftExample[] = []
  for await (const example of readSftExamples(source, options)) {
    examples.push(example)
    if (examples.length < options.batchSize) continue
    yield toBatch(examples, index, options)
    examples = []
    index += 1
  }
  if (examples.length > 0) yield toBatch(examples, index, options)
}

/** Runs over a file once and adds up its batches; holds one batch in memory. */
export async function surveySftData(source: AsyncIterable<Uint8Array>, options: SftBatchOptions): Promise<SftSurvey> {
  const total = {
    exampleCount: 0,
    batchCount: 0,
    trainableBatchCount: 0,
    droppedCount: 0,
    untrainableCount: 0,
    tokenCount: 0,
    trainableTokenCount: 0,
    longestLength: 0,
  }
  for await (const batch of readSftBatches(source, options)) {
    total.batchCount += 1
    total.longestLength = Math.max(total.longestLength, batch.longestLength)
    if (batch.trainableTokenCount > 0) total.trainableBatchCount += 1
    for (const name of [
      'exampleCount',
      'droppedCount',
      'untrainableCount',
      'tokenCount',
      'trainableTokenCount',
    ] as const)
      total[name] += batch[name]
  }
  return total
}

/**
 * Checks that a list of learning rates has exactly one value per batch.
 *
 * @throws {InvalidRequestError} `learning_rate_count`, param `config.learning_rate`
 */
export function assertLearningRateCount(learningRate: number | readonly number[], batchCount: number): void {
  if (typeof learningRate === 'number' || learningRate.length === batchCount) return
  throw new InvalidRequestError(
    'learning_rate_count',
    `config.learning_rate has ${learningRate.length} values but the training data makes ${batchCount} batches.`,
    {
      param: 'config.learning_rate',
      hint: 'Give one number, or one value for each batch of batch_size examples.',
    },
  )
}

/** Number of batches that `exampleCount` examples make. */
export function sftBatchCount(exampleCount: number, batchSize: number): number {
  return Math.ceil(exampleCount / batchSize)
}

function parseLine(text: string, number: number, isTerminated: boolean): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    if (!isTerminated)
      throw lineError(
        'torn_last_line',
        number,
        'is the last one and ends inside a JSON value; the file looks cut off',
        cause,
      )
    throw lineError('invalid_json', number, 'is not valid JSON', cause)
  }
}

function checkExample(value: unknown, number: number): SftExample {
  if (!isJsonObject(value))
    throw lineError('invalid_example', number, `must be a JSON object with messages, got ${describe(value)}`)
  const messages = value['messages']
  if (!Array.isArray(messages) || messages.length === 0)
    throw lineError('invalid_example', number, 'must have a non-empty array messages')
  messages.forEach((message, m) => {
    const problem = messageProblem(message)
    if (problem !== null) throw lineError('invalid_example', number, `has messages[${m}]${problem}`)
  })
  const lastRole: unknown = messages.at(-1)?.role
  if (lastRole !== 'assistant')
    throw lineError(
      'wrong_last_role',
      number,
      `must end with an assistant message, but its last role is ${describe(lastRole)}`,
    )
  if ((value['loss_mask'] ?? null) !== null)
    throw lineError('unsupported_loss_mask', number, 'has loss_mask, which is not supported yet; use assistant_turns')
  const tools = value['tools'] ?? null
  if (tools !== null && !(Array.isArray(tools) && tools.every(isJsonObject)))
    throw lineError('invalid_example', number, 'has tools that are not an array of objects')
  return { lineNumber: number, messages, tools }
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

function toBatch(examples: readonly SftExample[], index: number, options: SftBatchOptions): SftBatch {
  const rendered = examples.map((example) => tokenizeExample(example, options))
  const fitting = rendered.filter((sequence) => sequence.tokenIds.length <= options.maxLength)
  const sequences = fitting.filter((sequence) => sequence.lossMask.includes(1))
  return {
    index,
    sequences,
    exampleCount: examples.length,
    droppedCount: rendered.length - fitting.length,
    untrainableCount: fitting.length - sequences.length,
    tokenCount: sequences.reduce((sum, sequence) => sum + sequence.tokenIds.length, 0),
    longestLength: sequences.reduce((longest, sequence) => Math.max(longest, sequence.tokenIds.length), 0),
    trainableTokenCount: sequences.reduce(
      (sum, sequence) => sum + sequence.lossMask.reduce((ones, bit) => ones + bit, 0),
      0,
    ),
  }
}

function tokenizeExample(example: SftExample, options: SftBatchOptions): SftSequence {
  const { tokenIds, mask } = render(example, options)
  const lossMask = Uint8Array.from(mask, (bit) => (bit === 0 ? 0 : 1))
  if (lossMask.length > 0) lossMask[0] = 0
  return { tokenIds: Int32Array.from(tokenIds), lossMask, lineNumber: example.lineNumber }
}

function render(example: SftExample, options: SftBatchOptions): ReturnType<SftText['renderWithMask']> {
  try {
    return options.text.renderWithMask({ messages: example.messages, tools: example.tools }, options.assistantTurns)
  } catch (cause) {
    throw unrenderable(example.lineNumber, cause)
  }
}

function unrenderable(lineNumber: number, cause: unknown): DataError {
  const reason =
    cause instanceof AppError || cause instanceof Error ? cause.message.replace(/\.$/, '') : 'unknown reason'
  return lineError(
    'unrenderable_example',
    lineNumber,
    `cannot be rendered by the chat template: ${reason.slice(0, 500)}`,
    cause,
  )
}
