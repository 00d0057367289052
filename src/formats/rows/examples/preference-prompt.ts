/**
 * What is the prompt of a preference row, and where its two answers begin.
 *
 * Rows say it in several ways: a prompt with answers that go on from it, whole conversations that begin alike, or both: a
 * prompt beside whole conversations that repeat it (UltraFeedback and what was made like it), with or without a system
 * message in front. A message is counted once however often it is written; a prompt that the conversations contradict is no
 * prompt of theirs. Knows messages, not lines.
 */
import type { JsonObject, JsonValue } from '#base/util/json.js'

/** A row's messages as they are written. */
export interface WrittenPair {
  /** Null: the row has none. */
  readonly prompt: readonly JsonObject[] | null
  readonly chosen: readonly JsonObject[]
  readonly rejected: readonly JsonObject[]
}

/** The same, every message once. */
export interface SplitPair {
  readonly prompt: readonly JsonObject[]
  readonly chosen: readonly JsonObject[]
  readonly rejected: readonly JsonObject[]
}

/** Why a row has no prompt: nothing says it, or what says it is contradicted. */
export type PromptProblem = 'missing' | 'contradicted'

/** Takes the prompt of a row apart from its answers. */
export function splitPair({ prompt, chosen, rejected }: WrittenPair): SplitPair | PromptProblem {
  const shared = countShared(chosen, rejected)
  const from = (start: number) => ({ chosen: chosen.slice(start), rejected: rejected.slice(start) })
  if (prompt === null) return shared === 0 ? 'missing' : { prompt: chosen.slice(0, shared), ...from(shared) }
  const head = chosen.slice(0, shared)
  // the conversations hold the prompt, perhaps behind a system message it does not have
  if (positionOf(prompt, head) !== -1) return { prompt: head, ...from(shared) }
  // the prompt has more in front (a system message), and ends as they begin
  const repeated = overlap(prompt, head)
  if (repeated > 0) return { prompt: [...prompt, ...head.slice(repeated)], ...from(shared) }
  const [own, other] = [chosen, rejected].map((answer) => (positionOf(prompt, answer) === 0 ? prompt.length : 0))
  const answers = { chosen: chosen.slice(own), rejected: rejected.slice(other) }
  if ([answers.chosen, answers.rejected].some((answer) => isContradiction(prompt, answer))) return 'contradicted'
  // a question behind the prompt that both ask is none of the answers
  return head[0]?.['role'] === 'user' ? { prompt: [...prompt, ...head], ...from(shared) } : { prompt, ...answers }
}

/** Messages at the head of both; the assistant's turn that ends one is an answer even where the other has it too. */
function countShared(a: readonly JsonObject[], b: readonly JsonObject[]): number {
  const isAnswer = (list: readonly JsonObject[], m: number): boolean =>
    m === list.length - 1 && list[m]?.['role'] === 'assistant'
  let count = 0
  while (isSame(a[count], b[count]) && !isAnswer(a, count) && !isAnswer(b, count)) count += 1
  return count
}

/** Where a list stands inside another, as a whole; -1 nowhere. */
function positionOf(part: readonly JsonObject[], whole: readonly JsonObject[]): number {
  for (let at = 0; at + part.length <= whole.length; at += 1) {
    if (part.every((message, m) => isSame(message, whole[at + m]))) return at
  }
  return -1
}

/** How many messages end the one list and begin the other. */
function overlap(first: readonly JsonObject[], second: readonly JsonObject[]): number {
  for (let count = Math.min(first.length, second.length); count > 0; count -= 1) {
    if (first.slice(-count).every((message, m) => isSame(message, second[m]))) return count
  }
  return 0
}

/** Whether an answer begins a conversation anew where the prompt waits for the assistant, or is one already. */
function isContradiction(prompt: readonly JsonObject[], answer: readonly JsonObject[]): boolean {
  const first = answer[0]?.['role']
  if (first === 'system' || first === 'developer') return true
  return first === 'user' && prompt.at(-1)?.['role'] === 'user'
}

/** Whether two messages say the same, whatever else stands beside it. */
function isSame(a: JsonObject | undefined, b: JsonObject | undefined): boolean {
  return a !== undefined && b !== undefined && saidBy(a) === saidBy(b)
}

function saidBy({ role, content, tool_calls: calls, tool_call_id: id }: JsonObject): string {
  return JSON.stringify([role, textOf(content), calls ?? [], id ?? null])
}

/** Content of one text part is that text; white space around a text is none of what it says. */
function textOf(content: JsonValue | undefined): JsonValue {
  if (typeof content === 'string') return content.trim()
  if (!Array.isArray(content)) return content ?? ''
  const texts: readonly JsonValue[] = content.map((part: JsonValue) =>
    typeof part === 'object' && part !== null && 'text' in part ? (part['text'] ?? null) : part,
  )
  return texts.length === 1 ? textOf(texts[0]) : texts
}
