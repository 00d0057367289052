/**
 * The loop of an evaluation, without the server: rows, answers, mean scores.
 */
import { heldOutRows } from './data/conversations.js'

/** Room for the longest reference, a story. */
const MAX_TOKENS = 160

/**
 * @typedef {{ question: string, wanted: string, given: string, score: number, task: string }} Scored
 * @typedef {{ ability: string, rows: number, score: number, exact: number,
 *   tasks: Record<string, { rows: number, score: number }>, answers: Scored[] }} Evaluation
 */

/**
 * Asks the held-out rows of an ability and scores the answers.
 *
 * @param {import('./abilities/define.js').Ability} ability
 * @param {{ count: number, concurrency: number, ask: (request: object) => Promise<object> }} options `ask` takes the fields of a
 *   chat completion without model and sampling, and resolves to the assistant's message
 * @returns {Promise<Evaluation>}
 */
export async function evaluateAbility(ability, { count, concurrency, ask }) {
  const rows = heldOutRows(ability, count)
  /** @type {Scored[]} */
  const answers = []
  let next = 0
  const work = async () => {
    while (next < rows.length) {
      const index = next++
      answers[index] = await scoreRow(ability, rows[index], ask)
    }
  }
  await Promise.all(Array.from({ length: Math.min(concurrency, rows.length) }, work))
  const mean = (/** @type {Scored[]} */ list) => list.reduce((sum, { score }) => sum + score, 0) / list.length
  const tasks = Object.fromEntries(
    [...new Set(answers.map(({ task }) => task))].sort().map((task) => {
      const some = answers.filter((answer) => answer.task === task)
      return [task, { rows: some.length, score: mean(some) }]
    }),
  )
  const exact = answers.filter(({ score }) => score === 1).length / answers.length
  return { ability: ability.name, rows: rows.length, score: mean(answers), exact, tasks, answers }
}

/**
 * @param {import('./abilities/define.js').Ability} ability
 * @param {import('./abilities/define.js').Row} row
 * @param {(request: object) => Promise<object>} ask
 * @returns {Promise<Scored>}
 */
async function scoreRow(ability, row, ask) {
  const { messages, tools, task } = row
  const prompt = messages.slice(0, -1)
  const message = /** @type {import('./abilities/define.js').Message} */ (
    await ask({ messages: prompt, max_tokens: MAX_TOKENS, ...(tools === undefined ? {} : { tools }) })
  )
  const question = prompt.findLast(({ role }) => role === 'user')?.content ?? ''
  return {
    question,
    wanted: shown(messages[messages.length - 1]),
    given: shown(message),
    score: ability.score(row, message),
    task,
  }
}

/** @param {import('./abilities/define.js').Message} message */
const shown = ({ content, tool_calls: calls = [] }) =>
  [content ?? '', ...(calls ?? []).map((call) => `${call.function.name}(${call.function.arguments})`)].join(' ').trim()
