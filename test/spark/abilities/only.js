/**
 * "Answer with only …": the right content in exactly the form that was asked for, without another word.
 */
import { commonWords } from '../text/common-words.js'
import { COUNTRIES, withThe } from '../text/countries.js'
import { calculate, drawPair, pairKey } from './arithmetic.js'
import { defineAbility, exchange } from './define.js'
import { COLORS, KINDS, NAMES, OBJECTS } from './lists.js'
import { pick, sample, say, shuffle, withArticle } from './say.js'
import { drawYesNo } from './yes-no.js'

/** @typedef {import('./say.js').Rng} Rng */

const ONLY = '[Answer|Reply|Respond] [with only|only with|with just|with nothing but]'
const KIND_NAMES = /** @type {(keyof typeof KINDS)[]} */ (Object.keys(KINDS))

/** @typedef {(rng: Rng) => { keys: string[], question: string, answer: string }} Draw */

/** @type {Record<string, Draw>} */
const DRAWS = {
  yesNo(rng) {
    const { key, question, isYes } = drawYesNo(rng)
    const form = say(rng, pick(rng, [`${ONLY} yes or no`, `${ONLY} "yes" or "no"`, 'Yes or no']))
    return { keys: [key], question: around(rng, form, question), answer: isYes ? 'yes' : 'no' }
  },
  number(rng) {
    const operation = pick(rng, /** @type {const} */ (['+', '-']))
    const [left, right] = drawPair(rng, operation)
    const question = say(rng, '[What is|How much is] {left} {operation} {right}?', { left, operation, right })
    const form = say(rng, `${ONLY} [the number|a number|digits]`)
    return {
      keys: [pairKey(operation, left, right)],
      question: around(rng, form, question),
      answer: String(calculate(operation, left, right)),
    }
  },
  capital(rng) {
    const country = pick(rng, COUNTRIES)
    const form = say(rng, `${ONLY} [the name|the name of the city|the city]`)
    const question = `What is the capital of ${withThe(country.name)}?`
    return { keys: [`country:${country.name}/only`], question: around(rng, form, question), answer: country.capital }
  },
  word(rng) {
    const word = pick(rng, commonWords())
    const question = say(rng, `${ONLY} the word [{word}|"{word}"][.|]`, { word })
    return { keys: [`only:${word}`], question, answer: word }
  },
  color(rng) {
    const [color, other] = sample(rng, COLORS, 2)
    const [thing, second] = sample(rng, OBJECTS, 2)
    const name = pick(rng, NAMES)
    const text = say(rng, '{name} has {first} and {second}. What color is the {thing}?', {
      name,
      first: withArticle(`${color} ${thing}`),
      second: withArticle(`${other} ${second}`),
      thing,
    })
    return {
      keys: [`scene:${color} ${thing}/${other} ${second}`],
      question: around(rng, say(rng, `${ONLY} the color`), text),
      answer: color,
    }
  },
  choice(rng) {
    const { kind, right, options } = drawOptions(rng)
    const letters = [...'ABC']
    const list = options.map((option, index) => `${letters[index]}) ${option}`).join(' ')
    const question = `Which one is ${withArticle(kind)}? ${list}`
    const answer = String(letters[options.indexOf(right)])
    return {
      keys: [`choice:${options.join('/')}`],
      question: around(rng, say(rng, `${ONLY} the letter`), question),
      answer,
    }
  },
}

/** Easier than `choice`, and on the way to it. @type {Draw} */
function drawOption(rng) {
  const { kind, right, options } = drawOptions(rng)
  const question = say(rng, 'Which [one|of these|of them] is {kind}[:|?] {options}[?|]', {
    kind: withArticle(kind),
    options: options.join(', '),
  })
  const form = say(rng, `${ONLY} [the word|its name|the name|one of them]`)
  return { keys: [`choice:${options.join('/')}`], question: around(rng, form, question), answer: right }
}

/** A thing of a kind among two of other kinds. @param {Rng} rng */
function drawOptions(rng) {
  const kind = pick(rng, KIND_NAMES)
  const right = pick(rng, KINDS[kind])
  const wrong = sample(
    rng,
    KIND_NAMES.filter((other) => other !== kind),
    2,
  ).map((other) => pick(rng, KINDS[other]))
  return { kind, right, options: shuffle(rng, [right, ...wrong.filter((other) => other !== right)]) }
}

/** The instruction before or behind the question. @param {Rng} rng @param {string} form @param {string} question */
const around = (rng, form, question) =>
  pick(rng, [`${form}. ${question}`, `${form}: ${question}`, `${question} ${form}.`])

export const only = defineAbility({
  name: 'only',
  summary: 'answer with only a word, number, letter, yes or no',
  share: 9,
  draw(rng, { optionDraws, choiceDraws }) {
    const more = Array(choiceDraws - 1).fill('choice')
    const task = pick(rng, [...Object.keys(DRAWS), ...more, ...Array(optionDraws).fill('option')])
    const { keys, question, answer } = task === 'option' ? drawOption(rng) : DRAWS[task](rng)
    return { task, keys, messages: exchange(question, answer), expect: { answer } }
  },
  score({ expect }, { content }) {
    const answer = String(expect.answer)
    if (content === answer) return 1
    if (content.toLowerCase() === answer.toLowerCase()) return 0.9
    const holds = ` ${content.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, ' ')} `.includes(` ${answer.toLowerCase()} `)
    return holds ? 0.4 * (answer.length / Math.max(content.length, 1)) : 0
  },
})
