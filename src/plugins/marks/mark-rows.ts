/**
 * Training rows of marks, in the forms that supervised and preference jobs read.
 *
 * - A good answer is learned, and the answer that was typed in the place of a bad one. What stands before it is context.
 * - A typed answer is preferred to the bad one; of two that were compared the better one; and of those that were only called good or
 *   bad, the first good one to the first bad one of the same prompt, the second to the second, and so on.
 */
import type { JsonObject } from '#base/util/json.js'
import type { MarkContent } from './storage/marks.js'

/** What rows need of a mark. */
export interface Judged extends MarkContent {
  readonly mark: 'good' | 'bad'
  readonly edited: string | null
}

/** @returns null for a bad answer that nobody wrote better */
export function toSftRow({ prompt, answer, tools, mark, edited }: Judged): JsonObject | null {
  const context = prompt.map(unlearned)
  if (edited !== null) {
    const messages = [...context, ...answer.slice(0, -1).map(unlearned), { role: 'assistant', content: edited }]
    return { messages, ...withTools(tools) }
  }
  return mark === 'good' ? { messages: [...context, ...answer], ...withTools(tools) } : null
}

/** The preferences that a mark is by itself. */
export function toDpoRows({ prompt, answer, other, tools, mark, edited }: Judged): readonly JsonObject[] {
  const rows: JsonObject[] = []
  if (edited !== null) {
    rows.push({
      prompt: [...prompt, ...answer.slice(0, -1)].map(unweighted),
      chosen: [{ role: 'assistant', content: edited }],
      rejected: answer.slice(-1).map(unweighted),
      ...withTools(tools),
    })
  }
  if (other !== null) {
    const [chosen, rejected] = mark === 'good' ? [answer, other] : [other, answer]
    rows.push(preference({ prompt, tools }, chosen, rejected))
  }
  return rows
}

/** The preference between two marked answers to one prompt. */
export function toPairRow(good: MarkContent, bad: MarkContent): JsonObject {
  return preference(good, good.answer, bad.answer)
}

/** Whether two continuations say the same, so that nothing is preferred. */
export function isSameAnswer(a: readonly JsonObject[], b: readonly JsonObject[]): boolean {
  return JSON.stringify(a.map(unweighted)) === JSON.stringify(b.map(unweighted))
}

function preference(
  { prompt, tools }: Pick<MarkContent, 'prompt' | 'tools'>,
  chosen: readonly JsonObject[],
  rejected: readonly JsonObject[],
): JsonObject {
  return {
    prompt: prompt.map(unweighted),
    chosen: chosen.map(unweighted),
    rejected: rejected.map(unweighted),
    ...withTools(tools),
  }
}

function withTools(tools: readonly JsonObject[] | null): JsonObject {
  return tools === null || tools.length === 0 ? {} : { tools: [...tools] }
}

function unlearned(message: JsonObject): JsonObject {
  return message['role'] === 'assistant' ? { ...message, weight: 0 } : message
}

/** Preferences know no weights of messages. */
function unweighted({ weight: _, ...message }: JsonObject): JsonObject {
  return message
}
