/**
 * JSON beyond one flat object: lists of words and numbers, lists in objects, objects in objects and in lists.
 */
import { toPythonJson } from '#formats/answers/tool-calls.js'
import { commonWords } from '../text/common-words.js'
import { PARTIAL } from './compare.js'
import { defineAbility, exchange } from './define.js'
import { ANIMALS, CITIES, COLORS, FOODS, FRUITS, NAMES, OBJECTS } from './lists.js'
import { between, chance, listing, pick, sample, say } from './say.js'

/** @typedef {import('./say.js').Rng} Rng @typedef {(rng: Rng) => { key: string, question: string, value: unknown }} Draw */

const JSON_NAME = '[JSON|a JSON value|JSON, nothing else]'
const LISTS = [ANIMALS, CITIES, COLORS, FOODS, FRUITS, NAMES, OBJECTS]
const KEYS = ['items', 'names', 'tags', 'colors', 'words', 'list', 'things', 'parts', 'cities', 'values']

/** @param {Rng} rng @param {number} [most] */
function someWords(rng, most = 5) {
  const list = chance(rng, 0.4) ? commonWords() : pick(rng, LISTS)
  return sample(rng, list, between(rng, 1, most))
}
/** @param {Rng} rng */
const someNumbers = (rng) =>
  Array.from({ length: between(rng, 2, 5) }, () => between(rng, 0, chance(rng, 0.3) ? 999 : 99))

/** @type {Record<string, Draw>} */
const DRAWS = {
  words(rng) {
    const value = someWords(rng)
    const question = say(
      rng,
      [
        `[Write|Give|Return|Make] {list} as a [JSON list|JSON array|list in JSON][.|]`,
        `[A JSON array|A list in JSON|JSON list] of {list}[:|]`,
        `[Turn|Convert|Put] into a JSON array: {list}`,
        '{name} [needs|has|sees|wants] {list}. [Return|Write|List] [the items|them|all of them] as a JSON array.',
      ],
      { list: chance(rng, 0.5) ? listing(value) : value.join(', '), name: pick(rng, NAMES) },
    )
    return { key: `list:${value.join(' ')}`, question, value }
  },
  numbers(rng) {
    const value = someNumbers(rng)
    const question = say(rng, '[Write|Give|Return] {list} as a JSON [list|array][ of numbers|][.|]', {
      list: listing(value.map(String)),
    })
    return { key: `list:${value.join(' ')}`, question, value }
  },
  objectOfList(rng) {
    const [key, items] = [pick(rng, KEYS), someWords(rng, 4)]
    const question = say(
      rng,
      [
        `[Write|Return|Make] ${JSON_NAME} with the key {key} and the list {list}[.|]`,
        '{list} as a JSON list [under|in an object under] {key}[:|]',
      ],
      { key, list: listing(items) },
    )
    return { key: `list:${items.join(' ')}`, question, value: { [key]: items } }
  },
  objects(rng) {
    const people = sample(rng, NAMES, between(rng, 2, 3)).map((name) => ({ name, age: between(rng, 3, 99) }))
    const question = say(rng, '[Write|Return] [a JSON list|a JSON array] of objects with name and age: {list}[.|]', {
      list: listing(people.map(({ name, age }) => `${name} is ${age}`)),
    })
    return { key: `people:${people.map(({ name, age }) => name + age).join(' ')}`, question, value: people }
  },
  nested(rng) {
    const [name, age, city] = [pick(rng, NAMES), between(rng, 5, 99), pick(rng, CITIES)]
    const colors = sample(rng, COLORS, between(rng, 1, 3))
    const [outer, isListed] = [pick(rng, ['person', 'user', 'owner', 'customer']), chance(rng, 0.5)]
    const question = say(
      rng,
      `{name} is {age}, lives in {city} and likes {colors}. [Write|Return] ${JSON_NAME}: {outer} [with|holds] name[ and|,] age and city${isListed ? ', and a list of colors' : ''}[.|]`,
      { name, age, city, colors: listing(colors), outer },
    )
    const value = { [outer]: { name, age, city }, ...(isListed ? { colors } : {}) }
    return { key: `person:${name} ${age} ${city}`, question, value }
  },
  flags(rng) {
    const names = sample(rng, ['open', 'ready', 'paid', 'new', 'done', 'full', 'sold', 'late'], between(rng, 1, 3))
    const values = names.map(() => pick(rng, [true, false, null]))
    const said = names.map(
      (name, at) => `${name} is ${values[at] === null ? 'unknown' : values[at] ? 'true' : 'false'}`,
    )
    const question = say(rng, '{list}. [Write|Return] this as [JSON|a JSON object][, unknown as null|].', {
      list: listing(said),
    })
    const key = said.join(' ')
    return {
      key: `flags:${key} ${pick(rng, ['a', 'b', 'c'])}`,
      question,
      value: Object.fromEntries(names.map((name, at) => [name, values[at]])),
    }
  },
  count(rng) {
    const value = someWords(rng)
    const question = say(rng, 'How many items are in {json}?', { json: toPythonJson(value) })
    return { key: `list:${value.join(' ')}`, question, value: value.length }
  },
  field(rng) {
    const names = sample(rng, commonWords(), between(rng, 2, 3))
    const object = Object.fromEntries(names.map((name) => [name, between(rng, 0, 99)]))
    const name = pick(rng, names)
    const question = say(rng, '[Read|What is] {name} [in|of] {json}[?|:]', { name, json: toPythonJson(object) })
    return { key: `field:${names.join(' ')}`, question, value: object[name] }
  },
  add(rng) {
    const [items, more] = [someWords(rng, 3), pick(rng, commonWords())]
    const question = say(rng, '[Add|Append] {more} to {json}[.|]', { more, json: toPythonJson(items) })
    return { key: `list:${items.join(' ')}`, question, value: [...items, more] }
  },
}

export const jsonLists = defineAbility({
  name: 'json-lists',
  summary: 'JSON lists, lists in objects, nested objects; read and add to them',
  share: 9,
  draw(rng) {
    const task = pick(rng, [...Object.keys(DRAWS), 'words', 'words'])
    const { key, question, value } = DRAWS[task](rng)
    const answer = typeof value === 'number' ? String(value) : toPythonJson(value)
    return { task, keys: [key], messages: exchange(question, answer), expect: { value } }
  },
  score({ expect }, { content }) {
    const given = readJson(content)
    if (given === undefined) return 0
    if (JSON.stringify(given) === JSON.stringify(expect.value)) return 1
    const [wanted, parts] = [leaves(expect.value), leaves(given)]
    if (typeof given !== typeof expect.value || wanted.length === 0) return 0
    const hits = wanted.filter((leaf) => parts.includes(leaf)).length
    return (PARTIAL * hits) / Math.max(wanted.length, parts.length, 1)
  },
})

/** @param {string} text @returns {unknown} undefined where it is no JSON */
function readJson(text) {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** @param {unknown} value @returns {string[]} */
function leaves(value) {
  if (typeof value !== 'object' || value === null) return [JSON.stringify(value)]
  return Object.values(value).flatMap(leaves)
}
