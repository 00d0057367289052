/**
 * Rows of training data in forms of other trainers: what they are called, what is expected instead, and a line that converts them.
 *
 * One table for both sides of HTTP, so that a file is refused in the same sentence before and after it is uploaded. A row that is
 * in a form that is read is never refused here, whatever else stands in it. Forms as FastChat, LlamaFactory, Stanford's Alpaca,
 * Databricks' Dolly, Anthropic's HH-RLHF and TRL write them. Knows nothing of lines and errors.
 */
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'

/** What jobs read as JSON Lines: supervised ones conversations, preference jobs preferences. */
export type RowKind = 'conversation' | 'preference'

export interface RowProblem {
  /** What follows the name of the row or the file: `is a ShareGPT row (…), expected …`. */
  readonly problem: string
  readonly hint: string
}

interface RowForm {
  /** With an article. */
  readonly name: string
  /** What trains on it, if need be once it is converted. */
  readonly kind: RowKind | 'trajectory'
  readonly matches: (row: JsonObject) => boolean
  /** How to make a row of it that such a job reads; null where that job's reader knows it, and names what is wrong better. */
  readonly advice: ((row: JsonObject) => string) | null
}

const EXPECTED: Readonly<Record<RowKind, string>> = {
  conversation: 'messages, or prompt and completion',
  preference: 'prompt, chosen and rejected',
}
const WANTED: Readonly<Record<RowKind, string>> = {
  conversation:
    'write each row as {"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]}',
  preference: 'write each row as {"prompt": "…", "chosen": "…", "rejected": "…"}',
}
const TRAINED_BY: Readonly<Record<RowKind | 'trajectory', string>> = {
  conversation: 'conversations train in supervised jobs (trainyard train sft, POST /v1/preview/sft-training-jobs)',
  preference: 'preferences train in preference jobs (trainyard train dpo, POST /v1/preview/dpo-training-jobs)',
  trajectory: 'trajectory groups train in RL jobs (trainyard train rl, POST /v1/preview/training-jobs)',
}

/** Names of lists of turns. */
const LISTS = ['conversations', 'conversation', 'dialog', 'dialogue', 'messages'] as const
const QUESTIONS = ['instruction', 'question', 'query', 'prompt', 'input'] as const
const CONTEXTS = ['input', 'context'] as const
const ANSWERS = ['output', 'answer', 'response', 'completion'] as const

/** jq: a turn of ShareGPT as a message. */
const TURN =
  '{role: ({human: "user", gpt: "assistant", chatgpt: "assistant", bot: "assistant", observation: "tool"}[.from] // .from), content: .value}'
/** jq: a dialog of HH-RLHF as messages. */
const DIALOG =
  '[("\\n\\n" + ltrimstr("\\n\\n")) | split("\\n\\nHuman:")[1:][] | split("\\n\\nAssistant:") | map(gsub("^\\\\s+|\\\\s+$"; "")) | ' +
  '{role: "user", content: .[0]}, (.[1:][] | {role: "assistant", content: .})]'

const LABELLED_NAME = 'a KTO row (an answer and a label that says whether it is good)'
/** jq: of each prompt the first good and the first bad completion. */
const PAIR_COMMAND =
  "jq -sc 'group_by(.prompt)[] | {prompt: .[0].prompt, chosen: (map(select(.label))[0].completion), rejected: (map(select(.label | not))[0].completion)} | select(.chosen != null and .rejected != null)' rows.jsonl > pairs.jsonl"

/** The more particular ones first. */
const FORMS: readonly RowForm[] = [
  {
    name: 'a trajectory group',
    kind: 'trajectory',
    matches: (row) => Array.isArray(row['trajectories']) || Array.isArray(row['trajectory_groups']),
    advice: null,
  },
  {
    name: 'a ShareGPT preference row (conversations, and chosen and rejected of from and value)',
    kind: 'preference',
    matches: (row) => turnsNameOf(row) !== null && isTurn(row['chosen']) && isTurn(row['rejected']),
    advice: (row) => {
      const list = turnsNameOf(row) ?? ''
      const made = `.prompt = [${systemOf(row)}(.${list}[] | turn)] | .chosen = [.chosen | turn] | .rejected = [.rejected | turn]`
      return convertBy(`def turn: ${TURN}; ${made}`, row, [list])
    },
  },
  {
    name: 'an HH-RLHF row (chosen and rejected as texts of Human: and Assistant:)',
    kind: 'preference',
    matches: (row) => isDialogText(row['chosen']) && isDialogText(row['rejected']),
    advice: (row) => convertBy(`def turns: ${DIALOG}; .chosen |= turns | .rejected |= turns`, row, []),
  },
  {
    name: 'a preference row whose prompt has another name',
    kind: 'preference',
    matches: (row) => isText(row['chosen']) && isText(row['rejected']) && !has(row, 'prompt') && isAsked(row),
    advice: (row) => {
      const { content, names } = questionOf(row)
      const system = systemOf(row)
      const prompt = system === '' ? content : `[${system}{role: "user", content: ${content}}]`
      return convertBy(`.prompt = ${prompt}`, row, names)
    },
  },
  {
    name: 'a preference row',
    kind: 'preference',
    matches: (row) =>
      (has(row, 'chosen') && has(row, 'rejected')) ||
      (has(row, 'preferred_output') && has(row, 'non_preferred_output')),
    advice: null,
  },
  {
    name: LABELLED_NAME,
    kind: 'preference',
    matches: isLabelled,
    advice: (row) =>
      isPair(row)
        ? `pair a good and a bad completion of each prompt: ${PAIR_COMMAND}`
        : `pair a good and a bad answer to each prompt: ${WANTED.preference}`,
  },
  {
    name: 'a ShareGPT row (conversations of from and value)',
    kind: 'conversation',
    matches: (row) => turnsNameOf(row) !== null,
    advice: (row) => {
      const list = turnsNameOf(row) ?? ''
      const command = convertBy(`.messages = [${systemOf(row)}(.${list}[] | ${TURN})]`, row, [list])
      const isCalling = listIn(row, list).some((turn) => isJsonObject(turn) && turn['from'] === 'function_call')
      return isCalling ? `${command}; then write function_call turns as tool_calls of an assistant message` : command
    },
  },
  {
    name: 'a conversation by another name than messages',
    kind: 'conversation',
    matches: (row) => messagesNameOf(row) !== null,
    advice: (row) => {
      const list = messagesNameOf(row) ?? ''
      return convertBy(`.messages = [${systemOf(row)}.${list}[]]`, row, [list])
    },
  },
  {
    name: 'a row of messages as JSON text',
    kind: 'conversation',
    matches: (row) => isText(row['messages']) && /^\s*\[/.test(row['messages']),
    advice: (row) => convertBy('.messages |= fromjson', { ...row, system: null }, []),
  },
  {
    name: 'an Alpaca row (instruction, input and output)',
    kind: 'conversation',
    matches: (row) => isText(row['instruction']) && isText(row['output']),
    advice: pairAdvice,
  },
  {
    name: 'a question and its answer by other names than prompt and completion',
    kind: 'conversation',
    matches: (row) => !has(row, 'messages') && isAsked(row) && !isPair(row) && textName(row, ANSWERS) !== null,
    advice: pairAdvice,
  },
  {
    name: 'a conversation without a preference',
    kind: 'conversation',
    matches: (row) => Array.isArray(row['messages']) || isPair(row),
    advice: null,
  },
  {
    name: 'a message instead of a conversation',
    kind: 'conversation',
    matches: (row) => isText(row['role']) && has(row, 'content'),
    advice: () => `put the messages of one conversation into a list: ${WANTED.conversation}`,
  },
  {
    name: 'a row of plain text',
    kind: 'conversation',
    matches: (row) => isText(row['text']) && !has(row, 'prompt') && !has(row, 'completion'),
    advice: () => `say who says what: ${WANTED.conversation}`,
  },
]

/** As a conversation such a row would be read, and bad answers train like good ones. */
const LABELLED: RowProblem = {
  problem: `is ${LABELLED_NAME}, expected messages, or prompt and completion, that are all to be learned`,
  hint: "train the good ones (jq -c 'select(.label) | del(.label)' rows.jsonl > good.jsonl), or pair good and bad ones and train preferences (trainyard train dpo)",
}

/** Names that a row of a kind has; with one of them it is a near miss, which its reader names better. */
const OWN_NAMES: Readonly<Record<RowKind, readonly string[]>> = {
  conversation: ['messages', 'prompt', 'completion'],
  preference: ['prompt', 'chosen', 'rejected', 'input', 'preferred_output', 'non_preferred_output'],
}

/** What a row is that has the form of another trainer or of another kind of job; null for any other. */
export function findForeignRow(row: JsonObject, kind: RowKind): RowProblem | null {
  if (kind === 'conversation' && isLabelled(row)) return LABELLED
  if (IS_READ[kind](row)) return null
  const form = FORMS.find(({ matches }) => matches(row))
  const expected = `expected ${EXPECTED[kind]}`
  if (form !== undefined) {
    const hint = form.kind === kind ? form.advice?.(row) : TRAINED_BY[form.kind]
    return hint === undefined ? null : { problem: `is ${form.name}, ${expected}`, hint }
  }
  if (OWN_NAMES[kind].some((name) => has(row, name))) return null
  const names = Object.keys(row).filter((name) => has(row, name))
  const shown = names.slice(0, 5).map((name) => JSON.stringify(name.slice(0, 40)))
  const found = names.length === 0 ? 'nothing' : shown.join(', ')
  return { problem: `has ${found}${names.length > 5 ? ', …' : ''}, ${expected}`, hint: WANTED[kind] }
}

/** What is wrong with a file as a whole, by its first line that is not blank; null where its rows are to be looked at. */
export function findForeignFile(firstLine: string): RowProblem | null {
  const text = firstLine.trim()
  const expected = 'expected JSON Lines: one object a line'
  if (text === '{') {
    return { problem: `has JSON over several lines, ${expected}`, hint: asCommand('.') }
  }
  if (!text.startsWith('[') || isListOfNoRows(text)) return null
  return { problem: `is one JSON array, ${expected}`, hint: asCommand('.[]') }
}

/** Whether the reader of a kind knows the form, right or wrong in its details. */
const IS_READ: Readonly<Record<RowKind, (row: JsonObject) => boolean>> = {
  conversation: (row) =>
    has(row, 'messages') ? turnsNameOf(row) !== 'messages' && !isText(row['messages']) : isPair(row),
  preference: (row) => {
    if (has(row, 'preferred_output') || has(row, 'non_preferred_output')) return true
    const answers = [row['chosen'], row['rejected']]
    if (answers.every(isText)) return has(row, 'prompt')
    return answers.every((answer) => isText(answer) || Array.isArray(answer))
  },
}

function asCommand(program: string): string {
  return `convert it: jq -c '${program}' rows.json > rows.jsonl`
}

/** A jq command that keeps what it does not convert. @param names what is converted */
function convertBy(program: string, row: JsonObject, names: readonly string[]): string {
  const gone = [...names.filter((name) => name !== 'messages'), ...(systemOf(row) === '' ? [] : ['system'])]
  const rest = gone.length === 0 ? '' : ` | del(${gone.map((name) => `.${name}`).join(', ')})`
  return `convert it: jq -c '${program}${rest}' rows.jsonl > converted.jsonl`
}

/** jq: the message of a system prompt that stands beside the turns, with a comma. */
function systemOf({ system }: JsonObject): string {
  return isText(system) ? '(.system // "" | select(. != "") | {role: "system", content: .}), ' : ''
}

function pairAdvice(row: JsonObject): string {
  const { content, names } = questionOf(row)
  const answer = textName(row, ANSWERS) ?? ''
  const isContinued = Array.isArray(row['history'])
  const earlier = isContinued
    ? '(.history // [] | .[] | {role: "user", content: .[0]}, {role: "assistant", content: .[1]}), '
    : ''
  const turns = `{role: "user", content: ${content}}, {role: "assistant", content: .${answer}}`
  const gone = [...names, answer, ...(isContinued ? ['history'] : [])]
  return convertBy(`.messages = [${systemOf(row)}${earlier}${turns}]`, row, gone)
}

/** jq: a question with what it is about below, as Alpaca's rows are joined. */
function questionOf(row: JsonObject): { readonly content: string; readonly names: readonly string[] } {
  const question = textName(row, QUESTIONS) ?? ''
  const context = textName(
    row,
    CONTEXTS.filter((name) => name !== question),
  )
  if (context === null) return { content: `.${question}`, names: [question] }
  const content = `([.${question}, .${context}] | map(select(. != null and . != "")) | join("\\n"))`
  return { content, names: [question, context] }
}

/** Rows of KTO, where answers that are bad stand among the good ones. */
function isLabelled(row: JsonObject): boolean {
  const isLabel = typeof row['label'] === 'boolean' || typeof row['kto_tag'] === 'boolean'
  return isLabel && (isPair(row) || Array.isArray(row['messages']))
}

function isAsked(row: JsonObject): boolean {
  return textName(row, QUESTIONS) !== null
}

function isPair(row: JsonObject): boolean {
  return has(row, 'prompt') && has(row, 'completion')
}

function turnsNameOf(row: JsonObject): string | null {
  return LISTS.find((name) => listIn(row, name).length > 0 && listIn(row, name).every(isTurn)) ?? null
}

function messagesNameOf(row: JsonObject): string | null {
  const isMessage = (turn: JsonValue): boolean => isJsonObject(turn) && isText(turn['role'])
  return (
    LISTS.find((name) => name !== 'messages' && listIn(row, name).length > 0 && listIn(row, name).every(isMessage)) ??
    null
  )
}

function listIn(row: JsonObject, name: string): readonly JsonValue[] {
  const list = row[name]
  return Array.isArray(list) ? list : []
}

function isTurn(value: JsonValue | undefined): boolean {
  return isJsonObject(value) && isText(value['from']) && isText(value['value'])
}

function isDialogText(value: JsonValue | undefined): boolean {
  return isText(value) && /^\s*Human:/.test(value) && value.includes('\n\nAssistant:')
}

/** A line that is a list of anything but rows, as of messages, is a wrong row and not a wrong file. */
function isListOfNoRows(text: string): boolean {
  try {
    const [first] = JSON.parse(text) as readonly JsonValue[]
    return !isJsonObject(first) || isText(first['role'])
  } catch {
    return false
  }
}

function textName(row: JsonObject, names: readonly string[]): string | null {
  return names.find((name) => isText(row[name])) ?? null
}

function isText(value: JsonValue | undefined): value is string {
  return typeof value === 'string'
}

function has(row: JsonObject, name: string): boolean {
  return (row[name] ?? null) !== null
}
