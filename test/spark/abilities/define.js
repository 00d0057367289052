/**
 * What an ability is: rows of one kind, their split, and a score for answers.
 *
 * A row's keys name its content (`list:cat dog`, `sum:12+7`). A row is held out if any of its keys is; training rows have none,
 * so no held-out content is ever trained on in the same form. What can be worked out is held out from all abilities alike
 * (`sum:12+7`); what can only be known, a country's capital or the letters of a word that is one token, from one kind of
 * question (`word:cat/spell`), and other kinds teach it.
 */
import { parseToolCalls } from '#formats/answers/tool-calls.js'
import { isHeldOut } from './say.js'

/**
 * @typedef {import('../../../src/base/util/rng.js').Rng} Rng
 * @typedef {'train' | 'heldOut'} Split
 * @typedef {{ isBrief: boolean, optionDraws: number, choiceDraws: number }} Style `isBrief`: yes and no without a reason; how often,
 *   against 1 for other tasks of `only`, which of three things is asked for by its name and by its letter
 * @typedef {{ id: string, type: 'function', function: { name: string, arguments: string } }} ToolCall
 * @typedef {{ role: 'system' | 'user' | 'assistant' | 'tool', content: string | null, tool_calls?: ToolCall[],
 *   tool_call_id?: string, name?: string }} Message
 * @typedef {{ type: 'function', function: { name: string, description: string, parameters: object } }} Tool
 * @typedef {{ content: string, toolCalls: readonly { name: string, arguments: Record<string, unknown> }[] }} Answer
 * @typedef {object} Row
 * @property {string} ability
 * @property {string} task what is asked for inside the ability
 * @property {string[]} keys the content, for the split
 * @property {Message[]} messages the last is the assistant's reference answer
 * @property {Tool[]} [tools]
 * @property {Record<string, unknown>} expect what the scorer compares with
 * @typedef {Omit<Row, 'ability'>} Draft
 * @typedef {object} Ability
 * @property {string} name
 * @property {string} summary one line for tables
 * @property {number} share part of the training tokens, relative to the other abilities
 * @property {(rng: Rng, split: Split, style?: Style) => Row} generate
 * @property {(row: Row, answer: string | object) => number} score in [0, 1]; the answer is text, or an OpenAI message
 */

const MAX_DRAWS = 100_000

/**
 * How rows are asked. Held-out questions are `complete`; the others are of the training's phases.
 *
 * @type {Readonly<Record<'brief' | 'reasoned' | 'complete' | 'choosing', Style>>}
 */
export const STYLES = {
  brief: { isBrief: true, optionDraws: 0, choiceDraws: 1 },
  reasoned: { isBrief: false, optionDraws: 0, choiceDraws: 1 },
  complete: { isBrief: false, optionDraws: 1, choiceDraws: 1 },
  choosing: { isBrief: false, optionDraws: 6, choiceDraws: 6 },
}

/**
 * Makes an ability from a function that draws any row and one that scores an answer.
 *
 * @param {{ name: string, summary: string, share: number, draw: (rng: Rng, style: Style) => Draft,
 *   score: (row: Row, answer: Answer) => number }} definition
 * @returns {Ability}
 */
export function defineAbility({ name, summary, share, draw, score }) {
  return {
    name,
    summary,
    share,
    generate(rng, split, style = STYLES.complete) {
      for (let draws = 0; draws < MAX_DRAWS; draws++) {
        const draft = draw(rng, style)
        if (draft.keys.some(isHeldOut) === (split === 'heldOut')) return { ability: name, ...draft }
      }
      throw new Error(`ability "${name}" found no ${split} row in ${MAX_DRAWS} draws`)
    },
    score: (row, answer) => Math.min(1, Math.max(0, score(row, readAnswer(answer)))),
  }
}

/**
 * An answer as scorers see it: trimmed text, and tool calls with parsed arguments.
 *
 * @param {string | object} answer generated text, or the message of a chat completion
 * @returns {Answer}
 */
export function readAnswer(answer) {
  if (typeof answer === 'string') {
    const parsed = parseToolCalls(answer, () => 'call')
    return fromMessage({ content: parsed.content, tool_calls: parsed.toolCalls })
  }
  const message = /** @type {Message} */ (answer)
  return message.tool_calls?.length ? fromMessage(message) : readAnswer(message.content ?? '')
}

/** @param {{ content?: string | null, tool_calls?: readonly ToolCall[] }} message @returns {Answer} */
function fromMessage({ content, tool_calls: calls = [] }) {
  return {
    content: (content ?? '').trim(),
    toolCalls: calls.map((call) => ({ name: call.function.name, arguments: parseObject(call.function.arguments) })),
  }
}

/** @param {string} text @returns {Record<string, unknown>} empty when it is no JSON object */
function parseObject(text) {
  try {
    const value = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {}
  } catch {
    return {}
  }
}

/** A conversation of one question. @param {string} question @param {string} answer @returns {Message[]} */
export const exchange = (question, answer) => [
  { role: 'user', content: question },
  { role: 'assistant', content: answer },
]
