/**
 * Training conversations from rows: some with a system prompt, some of several rows in a row, so that the model has seen both.
 *
 * Held-out rows are never decorated: `heldOutRows` is the set that evaluation, training logs and demos share.
 */
import { createRng } from '#base/util/rng.js'
import { ABILITIES } from '../abilities/index.js'
import { between, chance, pick } from '../abilities/say.js'

/** @typedef {import('../abilities/define.js').Row} Row @typedef {import('../abilities/define.js').Ability} Ability */
/** @typedef {{ messages: Row['messages'], tools?: Row['tools'] }} Conversation */

const SYSTEM_PROMPTS = [
  'You are a helpful assistant.',
  'You are Spark, a small and friendly assistant.',
  'You are a friendly chatbot.',
  'You are a helpful AI assistant. Give short answers.',
  'Answer the question.',
  'You are Spark.',
]
const SYSTEM_SHARE = 0.12
const JOINED_SHARE = 0.12
/** Chats of many turns, so that the model has seen late positions. */
const LONG_SHARE = 0.009

/**
 * A training conversation that begins with a row of the ability.
 *
 * @param {import('../../../src/base/util/rng.js').Rng} rng
 * @param {Ability} ability
 * @param {{ style?: import('../abilities/define.js').Style, abilities?: readonly Ability[] }} [options] `abilities`: what further turns
 *   are of
 * @returns {Conversation}
 */
export function trainingConversation(rng, ability, { style, abilities = ABILITIES } = {}) {
  const { messages, tools } = ability.generate(rng, 'train', style)
  const isLong = tools === undefined && chance(rng, LONG_SHARE)
  const isJoined = isLong || (tools === undefined && chance(rng, JOINED_SHARE))
  const turns = isJoined
    ? [...messages, ...moreTurns(rng, isLong ? between(rng, 5, 24) : between(rng, 1, 2), { style, abilities })]
    : messages
  const opened = chance(rng, SYSTEM_SHARE)
    ? [{ role: /** @type {const} */ ('system'), content: pick(rng, SYSTEM_PROMPTS) }, ...turns]
    : turns
  return tools === undefined ? { messages: opened } : { messages: opened, tools }
}

/**
 * @param {import('../../../src/base/util/rng.js').Rng} rng
 * @param {number} count
 * @param {{ style?: import('../abilities/define.js').Style, abilities: readonly Ability[] }} options
 */
function moreTurns(rng, count, { style, abilities }) {
  const plain = abilities.filter(({ name }) => !/^tool-|-tool$/.test(name))
  return Array.from({ length: count }, () => pick(rng, plain).generate(rng, 'train', style).messages).flat()
}

/**
 * The held-out rows of an ability, without repetitions of a question.
 *
 * @param {Ability} ability
 * @param {number} count fewer come back where the ability has fewer
 * @returns {Row[]}
 */
export function heldOutRows(ability, count) {
  const rng = createRng(`held-out ${ability.name}`)
  /** @type {Map<string, Row>} */
  const rows = new Map()
  for (let draws = 0; rows.size < count && draws < 50 * count; draws++) {
    const row = ability.generate(rng, 'heldOut')
    const question = JSON.stringify(row.messages.slice(0, -1).map(({ role, content }) => [role, content]))
    if (!rows.has(question)) rows.set(question, row)
  }
  return [...rows.values()]
}
