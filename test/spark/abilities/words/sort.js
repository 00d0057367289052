/**
 * Order: words by the alphabet, numbers up and down, the smallest and the largest. Lists are held out as sets.
 */
import { commonWords } from '../../text/common-words.js'
import { PARTIAL, plain } from '../compare.js'
import { defineAbility, exchange } from '../define.js'
import { between, chance, pick, sample, say } from '../say.js'

const ASK_WORDS = [
  '[Sort|Please sort|Order|Arrange] [these|the following|the] words [alphabetically|in alphabetical order]: {list}',
  '[Put|Write] [these words|the words|this list] in alphabetical order: {list}',
  '[Alphabetize|Sort alphabetically|Sort from A to Z]: {list}',
]
const ASK_UP = [
  '[Sort|Order|Arrange] [these|the|the following] numbers[ from smallest to largest| in ascending order| from low to high|]: {list}',
  '[Put|List|Write] [these numbers|the numbers] in order[, smallest first|]: {list}',
]
const ASK_DOWN = [
  '[Sort|Order|Arrange] [these|the|the following] numbers [from largest to smallest|in descending order|from high to low]: {list}',
  '[Put|List|Write] [these numbers|the numbers] in order, [largest|biggest] first: {list}',
]
const ASK_END = [
  '[Which|What] is the {end} [of these numbers|number][ here| in this list|]: {list}?',
  '[Find|Give me|Tell me] the {end} number: {list}',
]

export const sort = defineAbility({
  name: 'sort',
  summary: 'sort words and numbers, find the largest',
  share: 7,
  draw(rng) {
    const task = pick(rng, ['words', 'words', 'up', 'down', 'end'])
    if (task === 'words') {
      const items = sample(rng, commonWords(), between(rng, 2, 5))
      const sorted = [...items].sort((left, right) => (left < right ? -1 : 1))
      return row({ task, items, question: say(rng, ASK_WORDS, { list: items.join(', ') }), sorted })
    }
    const bound = chance(rng, 0.4) ? 20 : 100
    const numbers = sample(rng, [...Array(bound).keys()], between(rng, 2, 5))
    const items = numbers.map(String)
    const ascending = [...numbers].sort((left, right) => left - right).map(String)
    const list = items.join(', ')
    if (task === 'end') {
      const [end, answer] = chance(rng, 0.5)
        ? [pick(rng, ['largest', 'biggest', 'highest']), ascending.at(-1)]
        : [pick(rng, ['smallest', 'lowest']), ascending[0]]
      return row({ task, items, question: say(rng, ASK_END, { end, list }), sorted: [String(answer)] })
    }
    const sorted = task === 'up' ? ascending : [...ascending].reverse()
    return row({ task, items, question: say(rng, task === 'up' ? ASK_UP : ASK_DOWN, { list }), sorted })
  },
  score({ expect }, { content }) {
    const wanted = /** @type {string[]} */ (expect.items)
    const given = plain(content)
      .split(/\s*(?:,|\n|\band\b)\s*/)
      .filter((item) => item !== '')
    const hits = wanted.filter((item, index) => given[index] === item).length
    return hits === wanted.length && given.length === wanted.length
      ? 1
      : (PARTIAL * hits) / Math.max(wanted.length, given.length, 1)
  },
})

/** @param {{ task: string, items: string[], question: string, sorted: string[] }} drawn */
const row = ({ task, items, question, sorted }) => ({
  task,
  keys: [`set:${[...items].sort().join(' ')}`],
  messages: exchange(question, sorted.join(', ')),
  expect: { items: sorted },
})
