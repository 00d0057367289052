/**
 * The forms that training rows have in the wild: what each is called, how it is told, and how a row of it becomes one that is read.
 *
 * One table for both sides of HTTP and for `trainyard data convert`. Forms as FastChat, LlamaFactory, Stanford's Alpaca, Databricks'
 * Dolly, Anthropic's HH-RLHF, TRL and OpenAI write them. Knows nothing of lines, files and errors.
 */
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import {
  type Converted,
  conversationOfPair,
  has,
  isAnswered,
  isAsked,
  isDialogText,
  isPair,
  isText,
  isTurn,
  labelledTextOf,
  labelOf,
  listIn,
  messagesNameOf,
  messagesOfDialog,
  messagesOfTurns,
  parsed,
  questionOf,
  systemOf,
  systemTextOf,
  turnsNameOf,
  without,
  withoutSystem,
  withReadTools,
} from './row-parts.js'

/** What jobs read as JSON Lines: supervised ones conversations, preference jobs preferences. */
export type RowKind = 'conversation' | 'preference'

export interface RowForm {
  /** With an article. */
  readonly name: string
  /** What trains on it, if need be once it is converted. */
  readonly kind: RowKind | 'trajectory'
  readonly matches: (row: JsonObject) => boolean
  /**
   * A row of its kind that says the same, fields that are no part of the form kept. Null where its kind's reader knows the form and
   * names what is wrong better; a sentence where one row says too little.
   */
  readonly convert: ((row: JsonObject) => Converted) | string | null
}

export const WANTED: Readonly<Record<RowKind, string>> = {
  conversation:
    'write each row as {"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]}',
  preference: 'write each row as {"prompt": "…", "chosen": "…", "rejected": "…"}',
}

export const LABELLED_NAME = 'a KTO row (an answer and a label that says whether it is good)'

/** The more particular ones first. */
export const ROW_FORMS: readonly RowForm[] = [
  {
    name: 'a trajectory group',
    kind: 'trajectory',
    matches: (row) => Array.isArray(row['trajectories']) || Array.isArray(row['trajectory_groups']),
    convert: null,
  },
  {
    name: 'a ShareGPT preference row (conversations, and chosen and rejected of from and value)',
    kind: 'preference',
    matches: (row) => turnsNameOf(row) !== null && isTurn(row['chosen']) && isTurn(row['rejected']),
    convert: preferenceOfTurns,
  },
  {
    name: 'an HH-RLHF row (chosen and rejected as texts of Human: and Assistant:)',
    kind: 'preference',
    matches: (row) => isDialogText(row['chosen']) && isDialogText(row['rejected']),
    convert: (row) => ({
      ...row,
      chosen: messagesOfDialog(String(row['chosen'])),
      rejected: messagesOfDialog(String(row['rejected'])),
    }),
  },
  {
    name: 'a preference row whose prompt has another name',
    kind: 'preference',
    matches: (row) => isText(row['chosen']) && isText(row['rejected']) && !has(row, 'prompt') && isAsked(row),
    convert: (row) => {
      const { content, names } = questionOf(row)
      const system = systemOf(row)
      const prompt = system.length === 0 ? content : [...system, { role: 'user', content }]
      return { ...without(withoutSystem(row), names), prompt }
    },
  },
  {
    name: 'a preference row with tools as JSON text',
    kind: 'preference',
    matches: (row) => has(row, 'chosen') && has(row, 'rejected') && isText(row['tools']),
    convert: withReadTools,
  },
  {
    name: 'a preference row',
    kind: 'preference',
    matches: (row) =>
      (has(row, 'chosen') && has(row, 'rejected')) ||
      (has(row, 'preferred_output') && has(row, 'non_preferred_output')),
    convert: null,
  },
  {
    name: LABELLED_NAME,
    kind: 'preference',
    matches: isLabelled,
    convert:
      'pair a good and a bad answer to each prompt: trainyard data convert rows.jsonl --to dpo --out pairs.jsonl',
  },
  {
    name: 'a ShareGPT row (conversations of from and value)',
    kind: 'conversation',
    matches: (row) => turnsNameOf(row) !== null,
    convert: (row) => {
      const list = turnsNameOf(row) ?? ''
      const turns = messagesOfTurns(listIn(row, list))
      if (typeof turns === 'string') return turns
      return { ...without(withoutSystem(row), [list]), messages: [...systemOf(row, turns), ...turns] }
    },
  },
  {
    name: 'a conversation by another name than messages',
    kind: 'conversation',
    matches: (row) => messagesNameOf(row) !== null && !has(row, 'messages'),
    convert: (row) => {
      const list = messagesNameOf(row) ?? ''
      const messages = listIn(row, list)
      return { ...without(withoutSystem(row), [list]), messages: [...systemOf(row, messages), ...messages] }
    },
  },
  {
    name: 'a row of messages as JSON text',
    kind: 'conversation',
    matches: (row) => isText(row['messages']) && /^\s*\[/.test(row['messages']),
    convert: (row) => {
      const messages = parsed(String(row['messages']))
      return Array.isArray(messages) ? { ...row, messages } : 'messages are a text that is no JSON list'
    },
  },
  {
    name: 'a conversation with tools as JSON text',
    kind: 'conversation',
    matches: (row) => (Array.isArray(row['messages']) || isPair(row)) && isText(row['tools']),
    convert: withReadTools,
  },
  {
    name: 'an Alpaca row (instruction, input and output)',
    kind: 'conversation',
    matches: (row) => isText(row['instruction']) && isText(row['output']),
    convert: conversationOfPair,
  },
  {
    name: 'a question and its answer by other names than prompt and completion',
    kind: 'conversation',
    matches: (row) => !has(row, 'messages') && isAsked(row) && !isPair(row) && isAnswered(row),
    convert: conversationOfPair,
  },
  {
    name: 'a conversation without a preference',
    kind: 'conversation',
    matches: (row) => Array.isArray(row['messages']) || isPair(row),
    convert: null,
  },
  {
    name: 'a message instead of a conversation',
    kind: 'conversation',
    matches: (row) => isText(row['role']) && has(row, 'content'),
    convert: `put the messages of one conversation into a list: ${WANTED.conversation}`,
  },
  {
    name: 'a text and its label',
    kind: 'conversation',
    matches: (row) => !has(row, 'messages') && !has(row, 'completion') && labelledTextOf(row) !== null,
    convert: (row) => {
      const { text, label } = labelledTextOf(row) ?? { text: '', label: '' }
      const turns = [
        { role: 'user', content: row[text] ?? '' },
        { role: 'assistant', content: String(row[label]) },
      ]
      return { ...without(withoutSystem(row), [text, label]), messages: [...systemOf(row), ...turns] }
    },
  },
  {
    name: 'a row of plain text',
    kind: 'conversation',
    matches: (row) => isText(row['text']) && !has(row, 'prompt') && !has(row, 'completion'),
    convert: `say who says what: ${WANTED.conversation}`,
  },
]

/** Rows of KTO, where answers that are bad stand among the good ones. */
export function isLabelled(row: JsonObject): boolean {
  return goodnessOf(row) !== null && (isPair(row) || hasTurns(row) || (isAsked(row) && isAnswered(row)))
}

/** What a row says of its answer, in `label` or `kto_tag`; null where it says nothing of that. */
export function goodnessOf(row: JsonObject): boolean | null {
  const label = row['label'] ?? null
  // numbers beside a list of turns are classes of a data set, 0 and 1 among them: KTO's rows of turns say true and false
  const isClass = hasTurns(row) && typeof label !== 'boolean' && label !== null && /^\s*\d+\s*$/.test(String(label))
  return labelOf(label === null || isClass ? row['kto_tag'] : label)
}

function hasTurns(row: JsonObject): boolean {
  return Array.isArray(row['messages']) || turnsNameOf(row) !== null || messagesNameOf(row) !== null
}

/** Whether the reader of a kind knows the form, right or wrong in its details. */
export const IS_READ: Readonly<Record<RowKind, (row: JsonObject) => boolean>> = {
  conversation: (row) => {
    if (isText(row['tools'])) return false
    return has(row, 'messages') ? turnsNameOf(row) !== 'messages' && !isText(row['messages']) : isPair(row)
  },
  preference: (row) => {
    if (has(row, 'preferred_output') || has(row, 'non_preferred_output')) return true
    if (isText(row['tools'])) return false
    const answers = [row['chosen'], row['rejected']]
    if (answers.every(isText)) return has(row, 'prompt')
    return answers.every((answer) => isText(answer) || Array.isArray(answer))
  },
}

/** A row of the kind of its form, tools and all; null where its form is read or unknown. @returns a text: why it cannot be converted */
export function convertByForm(row: JsonObject, form: RowForm): Converted | null {
  if (typeof form.convert === 'string') return form.convert
  if (form.convert === null) return null
  if (systemTextOf(row) === 'twice') return 'system and system_prompt say different things'
  const made = form.convert(row)
  return isJsonObject(made) ? withReadTools(made) : made
}

function preferenceOfTurns(row: JsonObject): Converted {
  const list = turnsNameOf(row) ?? ''
  const parts = [listIn(row, list), [row['chosen'] ?? null], [row['rejected'] ?? null]].map(messagesOfTurns)
  const [prompt, chosen, rejected] = parts
  if (!isList(prompt)) return prompt ?? ''
  if (!isList(chosen)) return chosen ?? ''
  if (!isList(rejected)) return rejected ?? ''
  return { ...without(withoutSystem(row), [list]), prompt: [...systemOf(row, prompt), ...prompt], chosen, rejected }
}

function isList(value: Converted<readonly JsonObject[]> | undefined): value is readonly JsonObject[] {
  return Array.isArray(value)
}
