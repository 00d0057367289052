/**
 * Yes or no: kinds of things, comparisons, letters of words, even and odd, parts of the world.
 *
 * The answer gives its reason first ("A potato is a vegetable, so no."). Without it nothing was learned in 9 M tokens: whether two
 * things that must both be worked out are equal is more than a model of this size finds in one step.
 */

import { commonWords } from '../text/common-words.js'
import { CONTINENTS, COUNTRIES, withThe } from '../text/countries.js'
import { defineAbility, exchange } from './define.js'
import { KINDS } from './lists.js'
import { between, capitalize, chance, pick, say, withArticle } from './say.js'

/** @typedef {import('./say.js').Rng} Rng */

const KIND_NAMES = /** @type {(keyof typeof KINDS)[]} */ (Object.keys(KINDS))
/** Facts cannot be guessed: a fact held out from one of these is trained on in another. */
const KIND_QUESTIONS = [
  'Is {subject} {kind}?',
  'Would you say that {subject} is {kind}?',
  'Is it true that {subject} is {kind}?',
]
const NUMBER_QUESTIONS = [
  'Is {left} [greater|larger|bigger|more] than {right}?',
  '[Is it true that|True or not:] {left} is [greater|bigger] than {right}?',
]
const LESS_QUESTIONS = [
  'Is {left} [less|smaller] than {right}?',
  '[Is it true that|True or not:] {left} is less than {right}?',
]

/** Nouns without an article. */
const MASS_NOUN =
  /^(?:tea|coffee|milk|water|juice|lemonade|cocoa|cider|football|tennis|golf|hockey|rugby|cricket|baseball|judo|chess|rowing|boxing|basketball|red|blue|green|yellow|black|white|brown|pink|purple|gray|gold|corn|garlic|spinach)$/

/** @type {Record<string, (rng: Rng) => { key: string, question: string, isYes: boolean, reason: string }>} */
const DRAWS = {
  kind(rng) {
    const kind = pick(rng, KIND_NAMES)
    const others = KIND_NAMES.filter((other) => other !== kind)
    const drawn = chance(rng, 0.5) ? kind : pick(rng, others)
    const thing = pick(rng, KINDS[drawn])
    const isYes = /** @type {readonly string[]} */ (KINDS[kind]).includes(thing)
    const subject = MASS_NOUN.test(thing) ? thing : withArticle(thing)
    const form = rng.integer(KIND_QUESTIONS.length)
    const question = say(rng, KIND_QUESTIONS[form], { subject, kind: withArticle(kind) })
    return {
      key: `is:${thing}/${kind}/${form}`,
      question,
      isYes,
      reason: `${capitalize(subject)} is ${withArticle(isYes ? kind : drawn)}`,
    }
  },
  greater(rng) {
    const [left, right] = [rng.integer(100), rng.integer(100)]
    const isLess = chance(rng, 0.4)
    const question = say(rng, isLess ? LESS_QUESTIONS : NUMBER_QUESTIONS, { left, right })
    const relation = left === right ? 'equal to' : left < right ? 'less than' : 'greater than'
    return {
      key: `compare:${left}/${right}`,
      question,
      isYes: isLess ? left < right : left > right,
      reason: `${left} is ${relation} ${right}`,
    }
  },
  even(rng) {
    const number = between(rng, 0, 99)
    const isEven = chance(rng, 0.5)
    const question = say(rng, 'Is {number} an {parity} number?', { number, parity: isEven ? 'even' : 'odd' })
    return {
      key: `parity:${number}`,
      question,
      isYes: (number % 2 === 0) === isEven,
      reason: `${number} is ${number % 2 === 0 ? 'even' : 'odd'}`,
    }
  },
  letter(rng) {
    const word = pick(rng, commonWords())
    const isStart = chance(rng, 0.5)
    const isYes = chance(rng, 0.5)
    const letter = isYes ? (isStart ? word.charAt(0) : pick(rng, [...word])) : pick(rng, [...'abcdefghiklmnoprstuvw'])
    const question = isStart
      ? say(rng, 'Does [the word |]"{word}" [start|begin] with [the letter |]{letter}?', { word, letter })
      : say(
          rng,
          '[Does [the word |]"{word}" contain the letter {letter}?|Is there [a letter|the letter] {letter} in "{word}"?]',
          {
            word,
            letter,
          },
        )
    return {
      key: `word:${word}/${isStart ? 'starts' : 'contains'}`,
      question,
      isYes: isStart ? word.startsWith(letter) : word.includes(letter),
      reason: isStart ? `${capitalize(word)} starts with ${word.charAt(0)}` : [...word].join('-'),
    }
  },
  country(rng) {
    const country = pick(rng, COUNTRIES)
    const isContinent = chance(rng, 0.5)
    const other = pick(rng, COUNTRIES)
    const isYes = chance(rng, 0.5)
    const asked = isYes ? country : other
    const continent = isYes ? country.continent : pick(rng, CONTINENTS)
    const values = { country: withThe(country.name), Country: capitalize(withThe(country.name)) }
    return isContinent
      ? {
          key: `country:${country.name}/is in`,
          question: say(rng, 'Is {country} [in|a country in|part of] {continent}?', { ...values, continent }),
          isYes: continent === country.continent,
          reason: `${values.Country} is in ${country.continent}`,
        }
      : {
          key: `country:${country.name}/is capital`,
          question: say(rng, 'Is {capital} the capital of {country}?', { ...values, capital: asked.capital }),
          isYes: asked.capital === country.capital,
          reason: `The capital of ${values.country} is ${country.capital}`,
        }
  },
}

/** A question with its answer; also used by the ability `only`. @param {Rng} rng */
export function drawYesNo(rng) {
  const task = pick(rng, ['kind', 'kind', 'kind', 'greater', 'greater', 'even', 'letter', 'country'])
  return { task, ...DRAWS[task](rng) }
}

export const yesNo = defineAbility({
  name: 'yes-no',
  summary: 'yes/no questions on things, numbers, letters, countries',
  share: 10,
  draw(rng, { isBrief }) {
    const { task, key, question, isYes, reason } = drawYesNo(rng)
    const answer = isYes ? 'Yes' : 'No'
    const text = isBrief ? `${answer}.` : `${reason}, so ${answer.toLowerCase()}.`
    return { task, keys: [key], messages: exchange(question, text), expect: { answer } }
  },
  score({ expect }, { content }) {
    const given = new Set(content.toLowerCase().match(/\b(?:yes|no)\b/g))
    return given.size === 1 && given.has(String(expect.answer).toLowerCase()) ? 1 : 0
  },
})
