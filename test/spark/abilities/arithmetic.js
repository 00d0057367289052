/**
 * Plus, minus, times and divided by on numbers of one and two digits, bare and in small stories.
 *
 * Pairs are held out: an unordered pair of an operation when a number has two digits; only one of the two orders (`3 + 7` but
 * not `7 + 3`) when both have one, since a times table cannot be guessed.
 */
import { oneNumber } from './compare.js'
import { defineAbility, exchange } from './define.js'
import { NAMES, OBJECTS, plural } from './lists.js'
import { between, chance, pick, say } from './say.js'

/** @typedef {'+' | '-' | '*' | '/'} Operation */

const WORDS = { '+': 'plus', '-': 'minus', '*': 'times', '/': 'divided by' }
const ASK = [
  'What is {left} {sign} {right}?',
  '{left} {sign} {right}[ =| = ?|?|]',
  '[Calculate|Compute|Work out|Solve] {left} {sign} {right}[.|]',
  'How much is {left} {sign} {right}?',
  'What does {left} {sign} {right} [make|equal]?',
  '[Can you|Could you] [tell me|calculate] {left} {sign} {right}?',
  '[Hey, |Please tell me, |]what is {left} {word} {right}?',
]
const STORIES = {
  '+': [
    '{name} has {left} {things} and [gets|finds|buys] {right} more. How many {things} does {name} have[ now|]?',
    'There are {left} {things} in one box and {right} in another. How many {things} are there in total?',
    '[Add|Sum] {left} and {right}[.|]',
  ],
  '-': [
    '{name} has {left} {things} and [gives away|loses|sells] {right}. How many {things} [are left|does {name} have now]?',
    'There are {left} {things} on the table. {name} takes {right} away. How many are left?',
    'Subtract {right} from {left}[.|]',
  ],
  '*': [
    '{name} has {left} boxes with {right} {things} each. How many {things} are there[ in total|]?',
    '[Multiply|Please multiply] {left} by {right}[.|]',
  ],
  '/': [
    '{name} shares {left} {things} equally among {right} friends. How many does each friend get?',
    'Divide {left} by {right}[.|]',
  ],
}

/** @param {Operation} operation @param {number} left @param {number} right */
export const calculate = (operation, left, right) =>
  ({ '+': left + right, '-': left - right, '*': left * right, '/': left / right })[operation]

/**
 * Two numbers for an operation; subtraction never gives less than 0, division is exact.
 *
 * @param {import('./say.js').Rng} rng
 * @param {Operation} operation
 */
export function drawPair(rng, operation) {
  const big = () => (chance(rng, 0.35) ? rng.integer(10) : rng.integer(100))
  const small = () => (chance(rng, 0.15) ? between(rng, 10, 12) : rng.integer(10))
  if (operation === '*') return chance(rng, 0.15) ? [between(rng, 10, 99), rng.integer(10)] : [small(), small()]
  if (operation === '/') {
    const right = between(rng, 1, 10)
    return [right * between(rng, 0, 10), right]
  }
  const [left, right] = [big(), big()]
  return operation === '-' && left < right ? [right, left] : [left, right]
}

/** The key of a pair. @param {Operation} operation @param {number} left @param {number} right */
export function pairKey(operation, left, right) {
  const isOrdered = (left < 10 && right < 10) || operation === '-' || operation === '/'
  // Of two orders of small numbers only the falling one is in the domain that can be held out.
  if (isOrdered && (operation === '+' || operation === '*') && left <= right)
    return `always:${left}${operation}${right}`
  const [first, second] = isOrdered || left > right ? [left, right] : [right, left]
  return `sum:${first}${operation}${second}`
}

export const arithmetic = defineAbility({
  name: 'arithmetic',
  summary: 'one- and two-digit plus, minus, times, divided by',
  share: 18,
  draw(rng) {
    const operation = pick(rng, /** @type {Operation[]} */ (['+', '+', '+', '-', '-', '-', '*', '*', '/']))
    const [left, right] = drawPair(rng, operation)
    const number = calculate(operation, left, right)
    const isStory = chance(rng, 0.25) && left > 1 && right > 1
    const sign = chance(rng, 0.7)
      ? pick(rng, operation === '*' ? ['*', 'x', '×'] : operation === '/' ? ['/', '÷'] : [operation])
      : WORDS[operation]
    const values = {
      left,
      right,
      sign,
      word: WORDS[operation],
      name: pick(rng, NAMES),
      things: plural(pick(rng, OBJECTS)),
    }
    const question = say(rng, isStory ? STORIES[operation] : ASK, values)
    return {
      task: { '+': 'plus', '-': 'minus', '*': 'times', '/': 'divided by' }[operation],
      keys: [pairKey(operation, left, right)],
      messages: exchange(question, String(number)),
      expect: { number },
    }
  },
  score: ({ expect }, { content }) => oneNumber(Number(expect.number), content),
})
