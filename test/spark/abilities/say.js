/**
 * Small tools of the data generators: seeded choice, sentences with alternatives, and the split into train and held-out.
 *
 * Knows no ability. All randomness comes from an `Rng` of `util/rng`, so a seed fixes every row.
 */
import { createHash } from 'node:crypto'

/** @typedef {import('../../../src/base/util/rng.js').Rng} Rng */

/** Share of every content domain that is held out, in parts of `BUCKETS`. */
const HELD_OUT = 10
const BUCKETS = 100

/**
 * One element of a list, each equally likely.
 *
 * @template T
 * @param {Rng} rng
 * @param {readonly T[]} list not empty
 * @returns {T}
 */
export function pick(rng, list) {
  return list[rng.integer(list.length)]
}

/** @param {Rng} rng @param {number} probability @returns {boolean} */
export function chance(rng, probability) {
  return rng.uniform() < probability
}

/** Uniform integer from `low` to `high`, both included. @param {Rng} rng @param {number} low @param {number} high */
export function between(rng, low, high) {
  return low + rng.integer(high - low + 1)
}

/**
 * Distinct elements in random order.
 *
 * @template T
 * @param {Rng} rng
 * @param {readonly T[]} list with at least `count` distinct elements
 * @param {number} count
 * @returns {T[]}
 */
export function sample(rng, list, count) {
  const chosen = new Set()
  while (chosen.size < count) chosen.add(pick(rng, list))
  return [...chosen]
}

/** A shuffled copy. @template T @param {Rng} rng @param {readonly T[]} list @returns {T[]} */
export function shuffle(rng, list) {
  const copy = [...list]
  for (let last = copy.length - 1; last > 0; last--) {
    const at = rng.integer(last + 1)
    ;[copy[last], copy[at]] = [copy[at], copy[last]]
  }
  return copy
}

/**
 * Writes a sentence: every `[a|b|c]` becomes one of its alternatives (they nest), then every `{name}` its value.
 *
 * Values are put in last and as they are, so they may hold brackets and braces.
 *
 * @param {Rng} rng
 * @param {string | readonly string[]} template a list stands for one of its elements
 * @param {Readonly<Record<string, string | number>>} [values]
 * @example say(rng, '[Please |]reverse "{word}"[.|]', { word: 'cat' })  // Please reverse "cat".
 */
export function say(rng, template, values = {}) {
  let text = typeof template === 'string' ? template : pick(rng, template)
  for (;;) {
    const close = text.indexOf(']')
    if (close === -1) break
    const open = text.lastIndexOf('[', close)
    if (open === -1) throw new Error(`template "${text}" closes a bracket that it does not open`)
    text = text.slice(0, open) + pick(rng, text.slice(open + 1, close).split('|')) + text.slice(close + 1)
  }
  return text.replace(/\{(\w+)\}/g, (whole, name) => (Object.hasOwn(values, name) ? String(values[name]) : whole))
}

/**
 * Whether content belongs to the held-out set: a tenth of every domain, by a hash of the content alone.
 *
 * @param {string} key `domain:content`, for example `word:cat`
 */
export function isHeldOut(key) {
  return createHash('sha256').update(key).digest().readUInt32LE(0) % BUCKETS < HELD_OUT
}

/** Upper-cases the first letter. @param {string} text */
export const capitalize = (text) => text.charAt(0).toUpperCase() + text.slice(1)

/** `a` or `an`, by the first letter. @param {string} noun */
export const withArticle = (noun) => `${/^(?:[aeio]|u(?!ni))/i.test(noun) ? 'an' : 'a'} ${noun}`

/** `a, b and c`. @param {readonly string[]} items */
export const listing = (items) =>
  items.length < 2 ? items.join('') : `${items.slice(0, -1).join(', ')} and ${items.at(-1)}`
