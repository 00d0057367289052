/**
 * Tools: calling the right one with the right arguments, not calling without need, and answering from the result.
 *
 * `tool-call` rows end with the call or with a plain answer; `tool-answer` rows with the answer after the result.
 */
import { toPythonJson } from '#formats/answers/tool-calls.js'
import { PARTIAL, sameValue, words } from './compare.js'
import { defineAbility } from './define.js'
import { between, chance, pick, sample, shuffle } from './say.js'
import { drawSmallTalk } from './small-talk.js'
import { definitionOf, TOOLBOX } from './toolbox.js'

/** @typedef {import('./say.js').Rng} Rng @typedef {import('./toolbox.js').ToolKind} ToolKind */

/** One to three tools, `wanted` among them, in random order. @param {Rng} rng @param {ToolKind} wanted */
function offer(rng, wanted) {
  const others = sample(
    rng,
    TOOLBOX.filter((tool) => tool !== wanted),
    between(rng, 0, 2),
  )
  return shuffle(rng, [wanted, ...others]).map((tool) => definitionOf(rng, tool))
}

/** A question for a tool with everything that follows from it. @param {Rng} rng */
function drawUse(rng) {
  const tool = pick(rng, TOOLBOX)
  const use = tool.use(rng)
  const id = `call_${rng
    .integer(2 ** 31)
    .toString(16)
    .padStart(8, '0')}`
  const call = {
    id,
    type: /** @type {const} */ ('function'),
    function: { name: tool.name, arguments: toPythonJson(use.arguments) },
  }
  const keys = [use.key ?? `call:${tool.name} ${Object.values(use.arguments).join('/')}`]
  return { tool, use, call, keys, tools: offer(rng, tool) }
}

export const toolCall = defineAbility({
  name: 'tool-call',
  summary: 'call the right tool with the right arguments (Hermes format), or none',
  share: 11,
  draw(rng) {
    if (chance(rng, 0.15)) {
      const { keys, question, answer } = drawSmallTalk(rng)
      return {
        task: 'none',
        keys,
        tools: offer(rng, pick(rng, TOOLBOX)),
        messages: [
          { role: 'user', content: question },
          { role: 'assistant', content: answer },
        ],
        expect: { name: null },
      }
    }
    const { tool, use, call, keys, tools } = drawUse(rng)
    return {
      task: tools.length === 1 ? 'one' : 'several',
      keys,
      tools,
      messages: [
        { role: 'user', content: use.question },
        { role: 'assistant', content: '', tool_calls: [call] },
      ],
      expect: { name: tool.name, arguments: use.arguments },
    }
  },
  score: scoreCall,
})

/**
 * 1 for the right call alone, or for an answer where no call is wanted; less for the right tool with other arguments.
 *
 * @param {Pick<import('./define.js').Row, 'expect'>} row
 * @param {import('./define.js').Answer} answer
 */
export function scoreCall({ expect }, { content, toolCalls }) {
  if (expect.name === null) return toolCalls.length === 0 && content !== '' && !content.includes('<tool_call>') ? 1 : 0
  const [call] = toolCalls
  if (call === undefined || call.name !== expect.name) return call === undefined ? 0 : 0.1
  const wanted = /** @type {Record<string, unknown>} */ (expect.arguments)
  const names = Object.keys(wanted)
  const hits = names.filter((name) => sameValue(call.arguments[name], wanted[name])).length
  const isExact = hits === names.length && Object.keys(call.arguments).length === names.length && toolCalls.length === 1
  return isExact ? 1 : 0.2 + (PARTIAL * hits) / names.length
}

export const toolAnswer = defineAbility({
  name: 'tool-answer',
  summary: 'answer in a sentence from what a tool returned',
  share: 8,
  draw(rng) {
    const { tool, use, call, keys, tools } = drawUse(rng)
    return {
      task: tool.name,
      keys,
      tools,
      messages: [
        { role: 'user', content: use.question },
        { role: 'assistant', content: '', tool_calls: [call] },
        { role: 'tool', tool_call_id: call.id, name: tool.name, content: toPythonJson(use.result) },
        { role: 'assistant', content: use.answer },
      ],
      expect: { facts: use.facts },
    }
  },
  score({ expect }, { content, toolCalls }) {
    if (toolCalls.length > 0 || content === '' || content.length > 200) return 0
    const text = ` ${words(content).join(' ')} `
    const facts = /** @type {(string | number)[]} */ (expect.facts)
    const isStated = (/** @type {string | number} */ fact) =>
      text.includes(` ${words(String(fact)).join(' ')} `) &&
      (typeof fact !== 'number' || fact >= 0 || content.includes(String(fact)))
    return facts.filter(isStated).length / facts.length
  },
})
