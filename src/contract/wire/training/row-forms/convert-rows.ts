/**
 * Rows of any known form as rows that supervised jobs, preference jobs or `rollout` read, one after the other.
 *
 * Nothing is guessed: a row that says too little is told by name. Of KTO's rows conversations keep the good ones, and preferences pair
 * the good and the bad answers to one prompt in the order of the file; what finds no partner is counted. Knows nothing of files.
 */
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import {
  convertByForm,
  goodnessOf,
  IS_READ,
  isLabelled,
  LABELLED_NAME,
  ROW_FORMS,
  type RowForm,
  type RowKind,
} from './forms.js'
import { type RowPurpose, TARGET_OF } from './purposes.js'
import { type Converted, has, isText, listIn, without } from './row-parts.js'

/** What became of one row: the rows it makes (none where it is left out or waits for its pair), or what is wrong with it. */
export type ConvertedRow =
  | { readonly form: string; readonly rows: readonly JsonObject[] }
  | { readonly form: string; readonly problem: string }

export interface RowConverter {
  readonly purpose: RowPurpose
  convert(row: JsonObject): ConvertedRow
  /** Rows that train nothing: KTO's bad ones as conversations, as preferences those without a partner. */
  leftOut(): number
}

/** What a row of its form is for, where nobody says it; null where it is for several things or for none. */
export function purposeOf(row: JsonObject): RowPurpose | null {
  if (isLabelled(row)) return null
  if (IS_READ.preference(row)) return 'preference'
  if (IS_READ.conversation(row)) return 'conversation'
  const kind = formOf(row)?.kind
  return kind === undefined || kind === 'trajectory' ? null : kind
}

/** @param options.keepsLabels as preferences KTO's rows stay labelled answers, as a job with `loss_type` kto reads them */
export function createRowConverter(
  purpose: RowPurpose,
  { keepsLabels = false }: { readonly keepsLabels?: boolean | undefined } = {},
): RowConverter {
  const pairs = createPairing()
  let bad = 0

  function convertLabelled(row: JsonObject): ConvertedRow {
    const isGood = goodnessOf(row) === true
    const made = asConversation(without(row, ['label', 'kto_tag']))
    const form = LABELLED_NAME
    if (isText(made)) return { form, problem: made }
    if (purpose === 'prompt') return { form, rows: [promptOf(made)] }
    if (purpose === 'preference' && keepsLabels) {
      const { prompt, answer } = splitAnswer(made)
      return { form, rows: [{ ...without(made, ['messages']), prompt, completion: answer, label: isGood }] }
    }
    if (purpose === 'preference') return { form, rows: pairs.add(made, isGood) }
    if (!isGood) bad += 1
    return { form, rows: isGood ? [made] : [] }
  }

  return {
    purpose,
    convert(row) {
      if (isLabelled(row)) return convertLabelled(row)
      const form = nameOf(row, purpose) ?? 'a row of no known form'
      const made = CONVERSIONS[purpose](row)
      return isText(made) ? { form, problem: made } : { form, rows: [made] }
    },
    leftOut: () => bad + pairs.waiting(),
  }
}

const CONVERSIONS: Readonly<Record<RowPurpose, (row: JsonObject) => Converted>> = {
  conversation: (row) => {
    const form = formOf(row)
    if (!IS_READ.conversation(row) && form?.kind === 'preference') {
      return `is ${form.name}, which trains with its two answers: --to ${TARGET_OF.preference}`
    }
    return asConversation(row)
  },
  preference: (row) => (IS_READ.preference(row) ? row : convertTo(row, 'preference')),
  prompt: (row) => {
    if (isPromptRow(row)) return row
    const group = listIn(row, 'trajectories')[0]
    if (isJsonObject(group)) return promptOfTrajectory(group)
    const isPreference = IS_READ.preference(row) || formOf(row)?.kind === 'preference'
    const made = isPreference ? CONVERSIONS.preference(row) : asConversation(row)
    return isText(made) ? made : isPreference ? promptOfPreference(made) : promptOf(made)
  },
}

function asConversation(row: JsonObject): Converted {
  return IS_READ.conversation(row) ? row : convertTo(row, 'conversation')
}

function convertTo(row: JsonObject, kind: RowKind): Converted {
  const form = formOf(row)
  if (form === undefined) return 'has no form that is known'
  if (form.kind !== kind) return `is ${form.name}, of which no ${kind} is made`
  const made = convertByForm(row, form)
  if (made === null) return `is ${form.name} with something missing`
  if (isJsonObject(made)) return made
  return made === form.convert ? `is ${form.name}: ${made}` : `is ${form.name}, and its ${made}`
}

function formOf(row: JsonObject): RowForm | undefined {
  return ROW_FORMS.find(({ matches }) => matches(row))
}

/** What a row is called by who wants it for a purpose; null where its form is unknown. */
export function nameOf(row: JsonObject, purpose: RowPurpose): string | null {
  if (purpose === 'prompt' && isPromptRow(row)) return 'a prompt'
  if (IS_READ.preference(row)) return 'a preference row'
  if (IS_READ.conversation(row)) return 'a conversation'
  return formOf(row)?.name ?? null
}

/** Rows that `rollout` reads and nothing else does: asked, and not yet answered. */
function isPromptRow(row: JsonObject): boolean {
  if (isText(row['prompt'])) return !['completion', 'chosen', 'rejected', 'response', 'output'].some((n) => has(row, n))
  const last = listIn(row, 'messages').at(-1)
  return isJsonObject(last) && last['role'] === 'user'
}

/** What was asked, and the answer to compare with, of a conversation that is read. */
function promptOf(row: JsonObject): JsonObject {
  const { prompt, completion } = row
  if (isText(prompt) && isText(completion)) return { ...without(row, ['completion']), answer: completion }
  const all = isJsonObject(listIn(row, 'prompt')[0])
    ? [...listIn(row, 'prompt'), ...listIn(row, 'completion')]
    : listIn(row, 'messages')
  const others = without(row, ['prompt', 'completion', 'messages', 'loss_mask'])
  return { ...asked(all.slice(0, -1)), ...answerOf(all.at(-1)), ...others }
}

function promptOfPreference(row: JsonObject): Converted {
  const others = without(row, ['prompt', 'chosen', 'rejected', 'input', 'preferred_output', 'non_preferred_output'])
  const { prompt, input } = row
  if (isText(prompt)) return { prompt, ...others }
  if (isJsonObject(input)) return { ...asked(listIn(input, 'messages')), ...others }
  const [chosen, rejected] = [listIn(row, 'chosen'), listIn(row, 'rejected')]
  const differs = chosen.findIndex((message, m) => JSON.stringify(message) !== JSON.stringify(rejected[m]))
  const messages = Array.isArray(prompt) ? listIn(row, 'prompt') : chosen.slice(0, Math.max(0, differs))
  return messages.length === 0 ? 'has answers that begin with no common prompt' : { ...asked(messages), ...others }
}

/** What stands before the first answer of a trajectory. */
function promptOfTrajectory(trajectory: JsonObject): Converted {
  const all = listIn(trajectory, 'messages_and_choices')
  const isAsked = (each: JsonValue): boolean =>
    isJsonObject(each) && isText(each['role']) && each['role'] !== 'assistant'
  const end = all.findIndex((each) => !isAsked(each))
  const messages = all.slice(0, end === -1 ? all.length : end)
  return messages.length === 0 ? 'is a trajectory group that begins with no prompt' : asked(messages)
}

/** One question of a user as text, anything longer as messages. */
function asked(messages: readonly JsonValue[]): JsonObject {
  const [only] = messages
  const isPlain = messages.length === 1 && isJsonObject(only) && only['role'] === 'user' && isText(only['content'])
  return isPlain ? { prompt: only['content'] ?? '' } : { messages }
}

function answerOf(message: JsonValue | undefined): JsonObject {
  const content = isJsonObject(message) ? message['content'] : null
  return isText(content) ? { answer: content } : {}
}

/** Good and bad answers to one prompt, the first with the first. */
function createPairing() {
  const open = new Map<string, { readonly isGood: boolean; readonly answers: JsonValue[] }>()
  return {
    add(row: JsonObject, isGood: boolean): readonly JsonObject[] {
      const { key, prompt, answer } = splitAnswer(row)
      const waiting = open.get(key)
      if (waiting === undefined || waiting.isGood === isGood) {
        open.set(key, { isGood, answers: [...(waiting?.answers ?? []), answer] })
        return []
      }
      const other = waiting.answers.shift() ?? null
      if (waiting.answers.length === 0) open.delete(key)
      const others = without(row, ['prompt', 'completion', 'messages', 'weight'])
      return [{ ...others, prompt, chosen: isGood ? answer : other, rejected: isGood ? other : answer }]
    },
    waiting: () => [...open.values()].reduce((sum, { answers }) => sum + answers.length, 0),
  }
}

function splitAnswer(row: JsonObject) {
  const all = listIn(row, 'messages')
  const prompt = row['prompt'] ?? all.slice(0, -1)
  const answer = row['completion'] ?? all.slice(-1)
  return { key: JSON.stringify(prompt), prompt, answer }
}
