/**
 * Single answers that are good or bad (KTO), from JSON Lines, checked line by line.
 *
 * `{"prompt", "completion", "label"}`, TRL's form: two texts (one user turn and the answer to it) or two lists of messages (a
 * conversation and how it goes on); `label` is true for an answer that is wanted. `tools` may stand beside them.
 *
 * Deviation from TRL: texts go through the model's chat template like any conversation.
 */
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import { labelOf, READ_FIELDS } from '#contract/wire/training/row-forms.js'
import { lineError, type RowSource } from '../json-lines.js'
import { noteUnreadFields } from '../notes/read-message.js'
import { describe } from '../parse-choice.js'
import {
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

/** One checked line. The completion ends with an assistant message and is not empty. */
export interface UnpairedExample {
  /** Counted from 1, blank lines included. */
  readonly lineNumber: number
  readonly prompt: readonly JsonObject[]
  readonly completion: readonly JsonObject[]
  readonly isDesirable: boolean
  readonly tools: readonly JsonObject[] | null
}

/**
 * Reads and checks the answers of a file.
 *
 * @throws {DataError} with the line's number: `invalid_example`, `invalid_label`, `wrong_last_role`, and those of `readJsonLines`;
 *   `empty_training_data`
 */
export async function* readUnpairedExamples(
  source: RowSource,
  options: RowOptions = {},
): AsyncGenerator<UnpairedExample> {
  for await (const { value, number } of readJsonLines(source, options)) yield checkExample(value, number, options)
}

/** Checks a whole file. @returns number of answers, at least 1 @throws {DataError} as `readUnpairedExamples` */
export async function countUnpairedExamples(
  source: AsyncIterable<Uint8Array>,
  options: RowOptions = {},
): Promise<number> {
  let count = 0
  for await (const _ of readUnpairedExamples(source, options)) count += 1
  return count
}

function checkExample(value: unknown, number: number, options: RowOptions): UnpairedExample {
  const wanted = 'prompt, completion and label'
  if (!isJsonObject(value)) {
    throw lineError('invalid_example', number, `must be a JSON object with ${wanted}, got ${describe(value)}`)
  }
  const row = rowAt(number, options.notes)
  const given = (name: string): unknown => value[name] ?? null
  const missing = ['prompt', 'completion', 'label'].find((name) => given(name) === null)
  if (missing !== undefined) {
    throw lineError('invalid_example', number, `has no ${missing}, expected ${wanted} (loss_type kto)`, {
      hint: 'write each row as {"prompt": "…", "completion": "…", "label": true}; pairs of answers train with another loss_type',
    })
  }
  assertTrains(value, number)
  const label = labelOf(value['label'])
  if (label === null) {
    const got = describe(value['label'])
    throw lineError('invalid_label', number, `must have a label that is true or false (or 1 or 0), got ${got}`)
  }
  const [prompt, completion] = [given('prompt'), given('completion')]
  if ((typeof prompt === 'string') !== (typeof completion === 'string')) {
    throw lineError(
      'invalid_example',
      number,
      'must have prompt and completion, both a text or both a list of messages',
    )
  }
  const example = {
    lineNumber: number,
    prompt: withSystem(value, messagesOf(prompt, 'prompt', row), row),
    completion: messagesOf(completion, 'completion', row),
    isDesirable: label,
    tools: checkTools(value, row),
  }
  const role = example.completion.at(-1)?.['role'] ?? null
  if (role !== 'assistant') {
    throw lineError(
      'wrong_last_role',
      number,
      `must end completion with an assistant message, but its last role is ${describe(role)}`,
    )
  }
  noteUnreadFields(value, READ_FIELDS.labelled, row.note)
  noteAnswers(example.prompt, () => false, row, options)
  noteAnswers(example.completion, () => true, row, options)
  return example
}

function messagesOf(value: unknown, name: 'prompt' | 'completion', row: Row): readonly JsonObject[] {
  if (typeof value !== 'string') return checkMessages(value, name, row)
  return [{ role: name === 'prompt' ? 'user' : 'assistant', content: value }]
}
