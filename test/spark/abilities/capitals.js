/**
 * Capitals and continents. Each kind of question holds out countries of its own; what it asks for stands in the training data in
 * other forms (questions the other way round, "answer with only ...", plain sentences of `text/documents.js`), so the score says
 * whether a fact met in one form can be used in another.
 */
import { CONTINENTS, COUNTRIES, withThe } from '../text/countries.js'
import { mentions } from './compare.js'
import { defineAbility, exchange } from './define.js'
import { pick, say } from './say.js'

const ASK_CAPITAL = [
  "[What is|What's|Do you know] the capital of {country}?",
  '[Tell me|Name] the capital of {country}[.|]',
  '[What|Which] city is the capital of {country}?',
  '[Capital of|The capital of] {country}?',
  '{Country}: what is the capital?',
  'What is the name of the capital of {country}?',
]
const ASK_COUNTRY = [
  '[Which|What] country has the capital {capital}?',
  '{capital} is the capital of [which|what] country?',
  'Of which country is {capital} the capital?',
]
const ASK_CONTINENT = [
  '[Which|What] continent is {country} [in|on|part of]?',
  '[On which|In which] continent is {country}?',
  '[Where is|On what continent do I find] {country}? [Name the continent.|Which continent?]',
  '[Tell me|Name] the continent of {country}[.|]',
  '{Country}: [what|which] continent?',
]
const CAPITALS = COUNTRIES.map(({ capital }) => capital)

export const capitals = defineAbility({
  name: 'capitals',
  summary: 'capitals of countries, and countries of capitals',
  share: 4,
  draw(rng) {
    const country = pick(rng, COUNTRIES)
    const values = { country: withThe(country.name), Country: country.name, capital: country.capital }
    const task = pick(rng, ['capital', 'capital', 'capital', 'country'])
    const keys = [`country:${country.name}/${task}`]
    const [template, answer] = task === 'capital' ? [ASK_CAPITAL, country.capital] : [ASK_COUNTRY, country.name]
    return { task, keys, messages: exchange(say(rng, template, values), answer), expect: { answer } }
  },
  score: ({ task, expect }, { content }) =>
    mentions(String(expect.answer), content, {
      maxLength: 120,
      others: task === 'capital' ? CAPITALS.filter((capital) => !String(expect.answer).includes(capital)) : [],
    }),
})

export const continents = defineAbility({
  name: 'continents',
  summary: 'continents of countries',
  share: 2,
  draw(rng) {
    const country = pick(rng, COUNTRIES)
    const values = { country: withThe(country.name), Country: country.name }
    return {
      task: 'continent',
      keys: [`country:${country.name}/continent`],
      messages: exchange(say(rng, ASK_CONTINENT, values), country.continent),
      expect: { answer: country.continent },
    }
  },
  score: ({ expect }, { content }) => mentions(String(expect.answer), content, { maxLength: 120, others: CONTINENTS }),
})
