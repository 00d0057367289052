/**
 * The tools that the model learns to call: definitions, ways to ask for them, results, and answers from results.
 *
 * Descriptions and wording vary by row. `facts` of a result are what a good answer mentions.
 */

import { commonWords } from '../text/common-words.js'
import { COUNTRIES, withThe } from '../text/countries.js'
import { calculate, drawPair, pairKey } from './arithmetic.js'
import { CITIES, DAYS, NAMES, OBJECTS, PLACES, plural } from './lists.js'
import { between, pick, say } from './say.js'

/**
 * @typedef {import('./say.js').Rng} Rng
 * @typedef {Record<string, string | number>} Arguments
 * @typedef {object} Use
 * @property {Arguments} arguments
 * @property {string} question
 * @property {Record<string, string | number>} result
 * @property {string} answer
 * @property {(string | number)[]} facts
 * @property {string} [key] instead of the tool and its arguments
 * @typedef {object} ToolKind
 * @property {string} name
 * @property {string} description with alternatives
 * @property {Record<string, ['string' | 'integer', string]>} parameters type and description
 * @property {(rng: Rng) => Use} use
 */

const SKIES = ['sunny', 'cloudy', 'rainy', 'windy', 'snowy', 'foggy', 'clear']
const LANGUAGES = {
  Spanish: 'Spanish',
  French: 'French',
  German: 'German',
  Italian: 'Italian',
  Dutch: 'Dutch',
  Polish: 'Polish',
}
const CURRENCIES = ['USD', 'EUR', 'GBP', 'JPY', 'CHF', 'CAD', 'INR', 'SEK']
const ROOMS = ['kitchen', 'bedroom', 'bathroom', 'office', 'garage', 'hall', 'living room', 'garden']
const COMPANIES = ['ACME', 'NOVA', 'ORBI', 'LUMO', 'ZETA', 'KITE', 'PINE', 'RAIL', 'FERN', 'OPAL']
const TASKS = ['buy', 'clean', 'find', 'sell', 'pack', 'bring', 'return', 'repair']
const MESSAGES = [
  'I am late',
  'see you soon',
  'call me back',
  'dinner is ready',
  'good luck',
  'thank you',
  'the train is on time',
  'happy birthday',
]

/** @param {Rng} rng */
const clockTime = (rng) => `${String(rng.integer(24)).padStart(2, '0')}:${String(5 * rng.integer(12)).padStart(2, '0')}`

/** @type {readonly ToolKind[]} */
export const TOOLBOX = [
  {
    name: 'get_weather',
    description: '[Get the weather|Get the current weather|Weather] [of|in] a city',
    parameters: { city: ['string', 'City name'] },
    use(rng) {
      const [city, degrees, sky] = [pick(rng, CITIES), between(rng, -9, 38), pick(rng, SKIES)]
      return {
        arguments: { city },
        question: say(
          rng,
          [
            "[What is|What's|How is] the weather [like |]in {city}[ today| now|]?",
            'Is it [cold|warm|raining] in {city}?',
            '[Check|Tell me] the weather in {city}[.|]',
          ],
          { city },
        ),
        result: { temperature: degrees, sky },
        answer: say(rng, 'It is {degrees} degrees and {sky} in {city}.', { degrees, sky, city }),
        facts: [degrees, sky],
      }
    },
  },
  {
    name: 'get_time',
    description: '[Get the time|Get the current time|Local time] [of|in] a city',
    parameters: { city: ['string', 'City name'] },
    use(rng) {
      const [city, time] = [pick(rng, CITIES), clockTime(rng)]
      return {
        arguments: { city },
        question: say(rng, ['What time is it in {city}?', '[Tell me|I need] the [local |]time in {city}[.|]'], {
          city,
        }),
        result: { time },
        answer: say(rng, 'It is {time} in {city}.', { time, city }),
        facts: [time],
      }
    },
  },
  {
    name: 'calculate',
    description: '[Calculate|Evaluate|Compute] an arithmetic expression',
    parameters: { expression: ['string', 'For example 2 + 3'] },
    use(rng) {
      const operation = pick(rng, /** @type {const} */ (['+', '-', '*']))
      const [left, right] = drawPair(rng, operation)
      const expression = `${left} ${operation} ${right}`
      const value = calculate(operation, left, right)
      return {
        arguments: { expression },
        question: say(rng, ['What is {expression}?', '[Calculate|Compute|Work out] {expression}[.|]'], { expression }),
        result: { value },
        answer: say(rng, '{expression} is {value}.', { expression, value }),
        facts: [value],
        key: pairKey(operation, left, right),
      }
    },
  },
  {
    name: 'set_alarm',
    description: '[Set|Create] an alarm',
    parameters: { time: ['string', 'Time as HH:MM'] },
    use(rng) {
      const time = clockTime(rng)
      return {
        arguments: { time },
        question: say(
          rng,
          [
            '[Set an alarm|Set my alarm] for {time}[.|]',
            '[Wake me|Wake me up] at {time}[, please|][.|]',
            'I need an alarm at {time}.',
          ],
          { time },
        ),
        result: { status: 'ok', time },
        answer: say(rng, 'The alarm is set for {time}.', { time }),
        facts: [time],
      }
    },
  },
  {
    name: 'send_message',
    description: 'Send a [text |]message to a [person|contact]',
    parameters: { to: ['string', 'Name'], text: ['string', 'Message text'] },
    use(rng) {
      const [to, text] = [pick(rng, NAMES), pick(rng, MESSAGES)]
      return {
        arguments: { to, text },
        question: say(
          rng,
          ['[Send|Write] {to} a message: {text}', 'Tell {to}: {text}', '[Send|Write] "{text}" to {to}[.|]'],
          { to, text },
        ),
        result: { status: 'sent' },
        answer: say(rng, 'I sent your message to {to}.', { to }),
        facts: [to, 'sent'],
      }
    },
  },
  {
    name: 'get_capital',
    description: '[Get|Look up] the capital of a country',
    parameters: { country: ['string', 'Country name'] },
    use(rng) {
      const country = pick(rng, COUNTRIES)
      return {
        arguments: { country: country.name },
        question: say(
          rng,
          [
            "[What is|What's] the capital of {name}?",
            'Look up the capital of {name}[.|]',
            'Which city is the capital of {name}?',
          ],
          { name: withThe(country.name) },
        ),
        result: { capital: country.capital },
        answer: say(rng, 'The capital of {name} is {capital}.', {
          name: withThe(country.name),
          capital: country.capital,
        }),
        facts: [country.capital],
        key: `country:${country.name}/tool`,
      }
    },
  },
  {
    name: 'translate',
    description: 'Translate a word into another language',
    parameters: { word: ['string', 'English word'], language: ['string', 'Target language'] },
    use(rng) {
      const [word, language] = [pick(rng, commonWords()), pick(rng, Object.keys(LANGUAGES))]
      // A made-up result: the answer has to come from the tool, not from memory.
      const translation = [...pick(rng, commonWords())].reverse().join('')
      return {
        arguments: { word, language },
        question: say(
          rng,
          ['[How do you say|What is] "{word}" in {language}?', 'Translate [the word |]{word} [to|into] {language}[.|]'],
          { word, language },
        ),
        result: { translation },
        answer: say(rng, '"{word}" in {language} is "{translation}".', { word, language, translation }),
        facts: [translation],
        key: `word:${word}/translate`,
      }
    },
  },
  {
    name: 'convert_currency',
    description: 'Convert money [between currencies|to another currency]',
    parameters: { amount: ['integer', 'Amount'], from: ['string', 'Currency code'], to: ['string', 'Currency code'] },
    use(rng) {
      const [amount, from, value] = [between(rng, 1, 99), pick(rng, CURRENCIES), between(rng, 1, 999)]
      const to = pick(
        rng,
        CURRENCIES.filter((code) => code !== from),
      )
      return {
        arguments: { amount, from, to },
        question: say(
          rng,
          ['[Convert|Change] {amount} {from} [to|into] {to}[.|]', 'How much is {amount} {from} in {to}?'],
          { amount, from, to },
        ),
        result: { value },
        answer: say(rng, '{amount} {from} is {value} {to}.', { amount, from, value, to }),
        facts: [value, to],
      }
    },
  },
  {
    name: 'add_to_list',
    description: 'Add an [item|entry] to the [shopping|to-do] list',
    parameters: { item: ['string', 'What to add'] },
    use(rng) {
      const item = `${pick(rng, TASKS)} ${between(rng, 2, 9)} ${plural(pick(rng, OBJECTS))}`
      return {
        arguments: { item },
        question: say(rng, ['[Add "{item}" to|Put "{item}" on] my list[.|]', '[Remind me to|Write down:] {item}'], {
          item,
        }),
        result: { status: 'added' },
        answer: say(rng, 'I added "{item}" to your list.', { item }),
        facts: [item, 'added'],
      }
    },
  },
  {
    name: 'book_table',
    description: '[Book|Reserve] a table [in a restaurant|for dinner]',
    parameters: { people: ['integer', 'Number of people'], day: ['string', 'Weekday'] },
    use(rng) {
      const [people, day, time] = [between(rng, 2, 12), pick(rng, DAYS), clockTime(rng)]
      return {
        arguments: { people, day },
        question: say(
          rng,
          ['[Book|Reserve] a table for {people} [people |]on {day}[.|]', 'I need a table for {people} on {day}.'],
          { people, day },
        ),
        result: { status: 'booked', time },
        answer: say(rng, 'Your table for {people} on {day} is booked at {time}.', { people, day, time }),
        facts: [time, 'booked'],
      }
    },
  },
  {
    name: 'switch_light',
    description: '[Switch|Turn] a light on or off',
    parameters: { room: ['string', 'Room'], state: ['string', 'on or off'] },
    use(rng) {
      const [room, state] = [pick(rng, ROOMS), pick(rng, ['on', 'off'])]
      return {
        arguments: { room, state },
        question: say(
          rng,
          [
            '[Turn|Switch] {state} the light in the {room}[.|, please.|]',
            '[Turn|Switch] the {room} light {state}[.|]',
            'Light {state} in the {room}[, please|]!',
          ],
          { room, state },
        ),
        result: { status: 'ok' },
        answer: say(rng, 'The light in the {room} is {state}.', { room, state }),
        facts: [room, state],
      }
    },
  },
  {
    name: 'get_stock_price',
    description: '[Get|Look up] the [stock price|share price] of a company',
    parameters: { symbol: ['string', 'Ticker symbol'] },
    use(rng) {
      const [symbol, price] = [pick(rng, COMPANIES), between(rng, 2, 999)]
      return {
        arguments: { symbol },
        question: say(
          rng,
          [
            'What is the [stock |share |]price of {symbol}?',
            '[Tell me|Get] the [stock |share |]price of {symbol}[.|]',
            'How much is [a share of |]{symbol}[ stock|]?',
          ],
          { symbol },
        ),
        result: { price },
        answer: say(rng, 'The price of {symbol} is {price} dollars.', { symbol, price }),
        facts: [price],
      }
    },
  },
  {
    name: 'find_place',
    description: 'Find the nearest place of a kind',
    parameters: { kind: ['string', 'Kind of place'], city: ['string', 'City name'] },
    use(rng) {
      const [kind, city, minutes] = [pick(rng, PLACES), pick(rng, CITIES), between(rng, 2, 59)]
      return {
        arguments: { kind, city },
        question: say(
          rng,
          ['[Find|Show me] [the nearest|a] {kind} in {city}[.|]', 'Where is the [nearest|next] {kind} in {city}?'],
          { kind, city },
        ),
        result: { minutes },
        answer: say(rng, 'The nearest {kind} in {city} is {minutes} minutes away.', { kind, city, minutes }),
        facts: [minutes],
      }
    },
  },
]

/** The definition as the OpenAI API takes it, with a varied description. @param {Rng} rng @param {ToolKind} tool */
export function definitionOf(rng, { name, description, parameters }) {
  const properties = Object.fromEntries(
    Object.entries(parameters).map(([key, [type, text]]) => [key, { type, description: text }]),
  )
  return {
    type: /** @type {const} */ ('function'),
    function: {
      name,
      description: say(rng, description),
      parameters: { type: 'object', properties, required: Object.keys(parameters) },
    },
  }
}
