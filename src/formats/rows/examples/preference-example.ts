/**
 * Preference pairs from JSON Lines, checked line by line, in the forms TRL's and OpenAI's users have them.
 *
 * - `{"prompt", "chosen", "rejected"}` as texts: one user turn and two answers to it;
 * - the same as lists of messages: a conversation and two ways it goes on;
 * - `{"chosen", "rejected"}` as lists of messages: whole conversations, whose common beginning is the prompt; a `prompt`
 *   beside them counts once (`preference-prompt.ts`);
 * - `{"input": {"messages", "tools"?}, "preferred_output", "non_preferred_output"}`: the rows of OpenAI's preference jobs.
 *
 * Deviation from TRL: texts go through the model's chat template like any conversation, because that is how models are
 * served here; TRL takes them as they are.
 */
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import { READ_FIELDS } from '#contract/wire/training/row-forms.js'
import { lineError, type RowSource } from '../json-lines.js'
import { noteUnreadFields } from '../notes/read-message.js'
import { describe } from '../parse-choice.js'
import { splitPair } from './preference-prompt.js'
import {
  assertNotForeign,
  assertTrains,
  checkMessages,
  checkTools,
  noteAnswers,
  type Row,
  type RowOptions,
  readJsonLines,
  rowAt,
  withSystem,
} from './sft-example.js'

const TRL_FIELDS = ['prompt', 'chosen', 'rejected'] as const
const OPENAI_FIELDS = ['input', 'preferred_output', 'non_preferred_output'] as const

/** One checked line. Both continuations end with an assistant message and are not empty. */
export interface PreferenceExample {
  /** Counted from 1, blank lines included. */
  readonly lineNumber: number
  readonly prompt: readonly JsonObject[]
  readonly chosen: readonly JsonObject[]
  readonly rejected: readonly JsonObject[]
  readonly tools: readonly JsonObject[] | null
}

/**
 * Reads and checks the pairs of a file.
 *
 * @throws {DataError} with the line's number: `invalid_example`, `wrong_last_role`, `equal_answers`,
 *   `contradicting_prompt`, and those of
 *   `readJsonLines`; `empty_training_data`
 */
export async function* readPreferenceExamples(
  source: RowSource,
  options: RowOptions = {},
): AsyncGenerator<PreferenceExample> {
  for await (const { value, number } of readJsonLines(source, options)) yield checkExample(value, number, options)
}

/** Checks a whole file. @returns number of pairs, at least 1 @throws {DataError} as `readPreferenceExamples` */
export async function countPreferenceExamples(
  source: AsyncIterable<Uint8Array>,
  options: RowOptions = {},
): Promise<number> {
  let count = 0
  for await (const _ of readPreferenceExamples(source, options)) count += 1
  return count
}

function checkExample(value: unknown, number: number, options: RowOptions): PreferenceExample {
  if (!isJsonObject(value)) {
    throw lineError(
      'invalid_example',
      number,
      `must be a JSON object with prompt, chosen and rejected, got ${describe(value)}`,
    )
  }
  assertNotForeign(value, 'preference', number)
  assertTrains(value, number)
  const given = (name: string): unknown => value[name] ?? null
  const row = rowAt(number, options.notes)
  if (OPENAI_FIELDS.some((name) => given(name) !== null)) return fromOpenAi(value, row, options)
  const chosen = answerOf(given('chosen'), 'chosen', row)
  const rejected = answerOf(given('rejected'), 'rejected', row)
  const pair = splitPair({ prompt: promptOf(given('prompt'), row), chosen, rejected })
  if (pair === 'missing') {
    throw lineError(
      'invalid_example',
      number,
      'must have prompt, or conversations chosen and rejected that begin alike',
    )
  }
  if (pair === 'contradicted') {
    throw lineError(
      'contradicting_prompt',
      number,
      'has a prompt that chosen and rejected contradict: they begin a conversation that does not hold it',
      { hint: 'leave out prompt, so that what chosen and rejected have in common is it, or make them answers alone' },
    )
  }
  const prompt = withSystem(value, pair.prompt, row)
  const example = { lineNumber: number, ...pair, prompt, tools: checkTools(value, row) }
  assertAnswers(example, ['chosen', 'rejected'])
  noteUnreadFields(value, READ_FIELDS.preference, row.note)
  notePair(example, row, options)
  return example
}

/** `input.parallel_tool_calls` is taken, has no effect and is noted: nothing here limits calls to one. */
function fromOpenAi(value: JsonObject, row: Row, options: RowOptions): PreferenceExample {
  const { number } = row
  const mixed = TRL_FIELDS.find((name) => (value[name] ?? null) !== null)
  if (mixed !== undefined) {
    throw lineError('invalid_example', number, `must have either input with both outputs or ${mixed}, not both`)
  }
  const input = value['input'] ?? null
  if (!isJsonObject(input)) {
    throw lineError('invalid_example', number, `must have input, an object with messages, got ${describe(input)}`)
  }
  const example = {
    lineNumber: number,
    prompt: checkMessages(input['messages'], 'input.messages', row),
    chosen: checkMessages(value['preferred_output'], 'preferred_output', row),
    rejected: checkMessages(value['non_preferred_output'], 'non_preferred_output', row),
    tools: checkTools(input, row),
  }
  assertAnswers(example, ['preferred_output', 'non_preferred_output'])
  noteUnreadFields(value, READ_FIELDS.openAiPreference, row.note)
  noteUnreadFields(input, READ_FIELDS.openAiInput, row.note, 'input.')
  notePair(example, row, options)
  return example
}

function answerOf(value: unknown, name: string, row: Row): readonly JsonObject[] {
  if (typeof value === 'string') return [{ role: 'assistant', content: value }]
  if (value === null) throw lineError('invalid_example', row.number, `must have ${name}, a text or a list of messages`)
  return checkMessages(value, name, row)
}

function promptOf(value: unknown, row: Row): readonly JsonObject[] | null {
  if (value === null) return null
  return typeof value === 'string' ? [{ role: 'user', content: value }] : checkMessages(value, 'prompt', row)
}

/** Both answers train; what they have in common is noted once. */
function notePair({ prompt, chosen, rejected }: PreferenceExample, row: Row, options: RowOptions): void {
  noteAnswers(prompt, () => false, row, options)
  for (const answer of [chosen, rejected]) noteAnswers(answer, () => true, row, options)
}

/** @param names of the chosen and the rejected answer, for messages */
function assertAnswers(
  { chosen, rejected, lineNumber }: PreferenceExample,
  [chosenName, rejectedName]: readonly [string, string],
): void {
  if (JSON.stringify(chosen) === JSON.stringify(rejected)) {
    throw lineError(
      'equal_answers',
      lineNumber,
      `has equal answers ${chosenName} and ${rejectedName}, which prefer nothing`,
    )
  }
  for (const [name, messages] of [
    [chosenName, chosen],
    [rejectedName, rejected],
  ] as const) {
    const role = messages.at(-1)?.['role'] ?? null
    if (role !== 'assistant') {
      throw lineError(
        'wrong_last_role',
        lineNumber,
        `must end ${name} with an assistant message, but its last role is ${describe(role)}`,
      )
    }
  }
}
