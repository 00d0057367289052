/**
 * Plain text for fluency and facts: dictionary meanings and examples, geography, facts on countries, short stories.
 *
 * Facts cover every country and every explained word, also those held out from questions; see the two abilities.
 */

import { between, capitalize, chance, isHeldOut, pick, sample, say, shuffle, withArticle } from '../abilities/say.js'
import { drawStory } from '../abilities/story.js'
import { explainedWords, shortMeaning } from '../abilities/words/explain.js'
import { commonWords } from './common-words.js'
import { COUNTRIES, withThe } from './countries.js'
import { factbookPages } from './factbook.js'
import { wordnetSenses } from './wordnet.js'

/** @typedef {import('../abilities/say.js').Rng} Rng @typedef {import('../abilities/define.js').Split} Split */
/** @typedef {{ name: string, share: number, generate: (rng: Rng, split: Split) => string }} TextSource */

const COUNTRY_FACTS = [
  'The capital of {country} is {capital}.',
  '{capital} is the capital of {country}[, a country in {continent}|].',
  '{Country} is a country in {continent}. Its capital is {capital}.',
  '{Country} lies in {continent}, and {capital} is its capital.',
  '[The city of |]{capital}, the capital of {country}, [is|lies] in {continent}.',
  '{country} ({continent}): {capital}.',
  '{continent} is the continent of {country}.',
]

/** @type {Record<Split, import('./wordnet.js').Sense[]> | undefined} */
let senses

/** Senses whose words are all common enough for a small model. */
function readableSenses() {
  if (senses === undefined) {
    const explained = new Set(explainedWords().map(({ meaning }) => meaning))
    const common = new Set(commonWords())
    const isReadable = (/** @type {string} */ text) => {
      const long = text.toLowerCase().match(/[a-z]{4,9}/g) ?? []
      return long.length > 0 && long.filter((word) => common.has(word)).length >= 0.6 * long.length
    }
    const kept = wordnetSenses().filter(({ meaning }) => isReadable(meaning) && meaning.length < 160)
    const isOut = (/** @type {import('./wordnet.js').Sense} */ sense) =>
      isHeldOut(`sense:${sense.meaning}`) && !explained.has(shortMeaning(sense.meaning))
    senses = { train: kept.filter((sense) => !isOut(sense)), heldOut: kept.filter(isOut) }
  }
  return senses
}

/** @param {Rng} rng @param {Split} split */
function dictionaryText(rng, split) {
  return Array.from({ length: between(rng, 2, 6) }, () => {
    const { part, words, meaning, examples } = pick(rng, readableSenses()[split])
    const word = pick(rng, words)
    const example =
      examples.length > 0 && chance(rng, 0.8) ? ` ${capitalize(pick(rng, examples)).replace(/[.!?]?$/, '.')}` : ''
    const isThing = part === 'noun' && /^(?:an?|the) /.test(meaning) && chance(rng, 0.5)
    return isThing
      ? `${capitalize(withArticle(word))} is ${meaning}.${example}`
      : say(rng, '{Word}: {meaning}.{example}', { Word: capitalize(word), meaning, example })
  }).join(pick(rng, ['\n', ' ']))
}

/** @param {Rng} rng */
function countryText(rng) {
  return sample(rng, COUNTRIES, between(rng, 2, 8))
    .map(({ name, capital, continent }) => {
      const values = { country: withThe(name), Country: capitalize(withThe(name)), capital, continent }
      return capitalize(say(rng, COUNTRY_FACTS, values))
    })
    .join(' ')
}

/** @param {Rng} rng @param {Split} split */
function geographyText(rng, split) {
  const pages = factbookPages().filter(({ name }) => isHeldOut(`factbook:${name}`) === (split === 'heldOut'))
  const { name, sentences } = pick(rng, pages)
  const [first, ...others] = sentences
  return `${name}. ${[first, ...shuffle(rng, others).slice(0, between(rng, 2, 5))].join(' ')}`
}

/** @type {readonly TextSource[]} */
export const TEXT_SOURCES = [
  { name: 'text-dictionary', share: 2, generate: dictionaryText },
  { name: 'text-countries', share: 3, generate: countryText },
  { name: 'text-geography', share: 2, generate: geographyText },
  {
    name: 'text-stories',
    share: 3,
    generate(rng, split) {
      for (;;) {
        const { kind, text } = drawStory(rng)
        if (isHeldOut(`story:${kind}`) === (split === 'heldOut')) return text
      }
    },
  },
]
