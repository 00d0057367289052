/**
 * Comparisons that scorers share. All return a number in [0, 1]; right answers give exactly 1.
 */

/** Without accents. @param {string} text */
const fold = (text) => text.normalize('NFD').replace(/\p{M}/gu, '')

/** Lower case, without accents, quotes, final full stop and repeated spaces. @param {string} text */
export const plain = (text) =>
  fold(text)
    .toLowerCase()
    .replace(/["'“”‘’`*]/g, '')
    .replace(/\s+/g, ' ')
    .trim()
    .replace(/[.!]+$/, '')

/** 1 for the same words, whatever case, quotes and final full stop. @param {string} expected @param {string} answer */
export const sameText = (expected, answer) => (plain(expected) === plain(answer) ? 1 : 0)

/**
 * How near an answer is: 1 when equal; else at most `PARTIAL`, falling with the edit distance. For RL, where a slope helps.
 *
 * @param {string} expected
 * @param {string} answer
 */
export function nearText(expected, answer) {
  const left = plain(expected)
  const right = plain(answer)
  if (left === right) return 1
  const longest = Math.max(left.length, right.length)
  return longest > 400 ? 0 : PARTIAL * (1 - editDistance(left, right) / longest)
}

/** The most that a wrong answer can get for being near. */
export const PARTIAL = 0.5

/** Levenshtein distance. @param {string} left @param {string} right */
export function editDistance(left, right) {
  let previous = Array.from({ length: right.length + 1 }, (_, column) => column)
  for (let row = 1; row <= left.length; row++) {
    const current = [row]
    for (let column = 1; column <= right.length; column++) {
      const substituted = previous[column - 1] + (left[row - 1] === right[column - 1] ? 0 : 1)
      current.push(Math.min(substituted, previous[column] + 1, current[column - 1] + 1))
    }
    previous = current
  }
  return previous[right.length]
}

/**
 * 1 when the answer holds exactly one number and it is the expected one; 0.1 for another number alone; else 0.
 *
 * @param {number} expected
 * @param {string} answer
 */
export function oneNumber(expected, answer) {
  if (answer.length > 80) return 0
  const numbers = answer.match(/-?\d+(?:\.\d+)?/g) ?? []
  if (numbers.length === 0) return 0
  if (numbers.length > 1) return Number(numbers.at(-1)) === expected ? 0.5 : 0
  return Number(numbers[0]) === expected ? 1 : 0.1
}

/**
 * 1 when the expected words stand in an answer of at most `maxLength` characters and none of the `others` does.
 *
 * @param {string} expected
 * @param {string} answer
 * @param {{ maxLength: number, others?: readonly string[] }} options
 */
export function mentions(expected, answer, { maxLength, others = [] }) {
  if (answer.length > maxLength) return 0
  const text = ` ${words(answer).join(' ')} `
  const holds = (/** @type {string} */ phrase) => text.includes(` ${words(phrase).join(' ')} `)
  return holds(expected) && !others.some((other) => other !== expected && holds(other)) ? 1 : 0
}

/** Words in lower case, without accents and signs. @param {string} text @returns {string[]} */
export const words = (text) =>
  fold(text)
    .toLowerCase()
    .match(/[\p{L}\p{N}]+/gu) ?? []

/** Harmonic mean of precision and recall over words. @param {string} expected @param {string} answer */
export function overlap(expected, answer) {
  const wanted = words(expected)
  const given = words(answer)
  if (wanted.join(' ') === given.join(' ')) return 1
  const left = new Map()
  for (const word of wanted) left.set(word, (left.get(word) ?? 0) + 1)
  let common = 0
  for (const word of given) {
    const count = left.get(word) ?? 0
    if (count > 0) common++
    left.set(word, count - 1)
  }
  return common === 0 ? 0 : Math.min(0.99, (2 * common) / (wanted.length + given.length))
}

/** Equality of JSON values; strings without regard to case. @param {unknown} left @param {unknown} right */
export function sameValue(left, right) {
  if (typeof left === 'string' && typeof right === 'string') return plain(left) === plain(right)
  return JSON.stringify(left) === JSON.stringify(right)
}
