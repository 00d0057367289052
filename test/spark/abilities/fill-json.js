/**
 * A JSON object from a sentence: the asked fields and no others, nothing around it.
 */

import { toPythonJson } from '#formats/answers/tool-calls.js'
import { PARTIAL, sameValue } from './compare.js'
import { defineAbility, exchange } from './define.js'
import { CITIES, COLORS, DAYS, HOBBIES, JOBS, NAMES, OBJECTS, PLACES, plural } from './lists.js'
import { between, listing, pick, sample, say, withArticle } from './say.js'

/** @typedef {import('./say.js').Rng} Rng @typedef {Record<string, string | number>} Fields */

/** @type {Record<string, { draw: (rng: Rng) => Fields, sentences: string[] }>} */
const SCENES = {
  person: {
    draw: (rng) => ({
      name: pick(rng, NAMES),
      age: between(rng, 5, 99),
      city: pick(rng, CITIES),
      job: pick(rng, JOBS),
    }),
    sentences: [
      '{name} is {age} years old, lives in {city} and works as {aJob}.',
      '{name}, {aJob} from {city}, is {age} years old.',
      'My friend {name} lives in {city}. [He or she is|The age is] {age}, and the job is {job}.',
      'At {age}, {name} moved to {city} to work as {aJob}.',
    ],
  },
  order: {
    draw: (rng) => ({
      customer: pick(rng, NAMES),
      item: pick(rng, OBJECTS),
      quantity: between(rng, 2, 20),
      price: between(rng, 1, 99),
    }),
    sentences: [
      '{customer} [bought|ordered] {quantity} {items} for {price} dollars.',
      'We sold {quantity} {items} to {customer} for {price} dollars.',
      '{price} dollars were paid by {customer} for {quantity} {items}.',
    ],
  },
  meeting: {
    draw: (rng) => ({
      name: pick(rng, NAMES),
      day: pick(rng, DAYS),
      hour: between(rng, 1, 12),
      place: pick(rng, PLACES),
    }),
    sentences: [
      "{name} [will be|is] at the {place} on {day} at {hour} o'clock.",
      "Meet {name} on {day} at {hour} o'clock [at|in front of] the {place}.",
      "On {day} at {hour} o'clock, {name} waits at the {place}.",
    ],
  },
  thing: {
    draw: (rng) => ({
      owner: pick(rng, NAMES),
      color: pick(rng, COLORS),
      object: pick(rng, OBJECTS),
      count: between(rng, 2, 12),
    }),
    sentences: [
      '{owner} has {count} {color} {objects}.',
      'There are {count} {color} {objects} that belong to {owner}.',
      '{owner} [found|keeps] {count} {objects}, all of them {color}.',
    ],
  },
  hobby: {
    draw: (rng) => ({
      name: pick(rng, NAMES),
      age: between(rng, 5, 99),
      hobby: pick(rng, HOBBIES),
      city: pick(rng, CITIES),
    }),
    sentences: [
      '{name} from {city} is {age} and [likes|loves|enjoys] {hobby}.',
      'The hobby of {name}, {age}, is {hobby}; home is {city}.',
      '{name} is {age} years old, lives in {city} and [likes|loves] {hobby}.',
    ],
  },
}

const ASK = [
  '[Extract|Get|Take] {fields}[ from this sentence| from the text|] as [JSON|a JSON object]: {text}',
  '[Fill|Write|Make|Create] a JSON object with [the keys |the fields |]{fields} from[ this| the|] [sentence|text]: {text}',
  '{text} [Return|Give me|Write] {fields} as JSON.',
  '[Turn|Convert] this into JSON with {fields}: {text}',
  'Fill in this JSON object from the text. {template} Text: {text}',
]

export const fillJson = defineAbility({
  name: 'fill-json',
  summary: 'a JSON object with the asked fields from a sentence',
  share: 5,
  draw(rng) {
    const task = pick(rng, Object.keys(SCENES))
    const { draw, sentences } = SCENES[task]
    const fields = draw(rng)
    const text = say(rng, sentences, {
      ...fields,
      aJob: withArticle(String(fields.job)),
      items: plural(String(fields.item)),
      objects: plural(String(fields.object)),
    })
    const names = sample(rng, Object.keys(fields), between(rng, 2, 4))
    const wanted = Object.fromEntries(names.map((name) => [name, fields[name]]))
    const template = toPythonJson(Object.fromEntries(names.map((name) => [name, null])))
    const question = say(rng, ASK, { fields: listing(names), text, template })
    return {
      task,
      keys: [`scene:${Object.values(fields).join('/')}`],
      messages: exchange(question, toPythonJson(wanted)),
      expect: { fields: wanted },
    }
  },
  score({ expect }, { content }) {
    const wanted = /** @type {Fields} */ (expect.fields)
    const given = readObject(content)
    if (given === null) return 0
    const names = Object.keys(wanted)
    const hits = names.filter((name) => sameValue(given.fields[name], wanted[name])).length
    const extra = Object.keys(given.fields).filter((name) => !names.includes(name)).length
    if (hits === names.length && extra === 0) return given.isAlone ? 1 : 0.8
    return 0.1 + (PARTIAL * hits) / (names.length + extra)
  },
})

/** The object of an answer, and whether nothing stands around it. @param {string} content */
function readObject(content) {
  const inside = /\{[^{}]*\}/.exec(content)?.[0]
  if (inside === undefined) return null
  try {
    return { fields: /** @type {Record<string, unknown>} */ (JSON.parse(inside)), isAlone: inside === content }
  } catch {
    return null
  }
}
