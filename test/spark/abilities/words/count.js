/**
 * Counting: words of a phrase, letters of a word, one letter in a word, one thing in a list.
 */
import { commonWords } from '../../text/common-words.js'
import { oneNumber } from '../compare.js'
import { defineAbility, exchange } from '../define.js'
import { ANIMALS, FRUITS, plural } from '../lists.js'
import { between, chance, pick, sample, say, shuffle } from '../say.js'

const ASK_WORDS = [
  'How many words are [in this|in the following|in the] [phrase|text|sentence|list]: {text}',
  '[Count|Please count] the words[ in this text|]: {text}',
  'How many words does "{text}" have?',
]
const ASK_LETTERS = [
  'How many letters are [there |]in [the word |]"{word}"?',
  'How many letters does [the word |]{word} have?',
  '[Count|Please count] the letters [in|of] [the word |]{word}[.|]',
  'How long is the word {word}?',
]
const ASK_LETTER = [
  'How many times does [the letter |]"{letter}" [appear|occur] in "{word}"?',
  'How many {letter}s are [there |]in [the word |]{word}?',
  'Count the letter {letter} in [the word |]"{word}"[.|]',
]
const ASK_THINGS = [
  'How many {things} are [there |]in this list: {text}?',
  '[Count|Please count] the {things}: {text}',
  'How [often|many times] does "{thing}" appear here: {text}',
]

export const count = defineAbility({
  name: 'count',
  summary: 'count words, letters and things in a list',
  share: 8,
  draw(rng) {
    const task = pick(rng, ['words', 'letters', 'letter', 'things'])
    if (task === 'words') {
      const items = sample(rng, commonWords(), between(rng, 1, 8))
      const text = items.join(' ')
      return row({ task, keys: [`text:${text}`], question: say(rng, ASK_WORDS, { text }), number: items.length })
    }
    if (task === 'things') {
      const [thing, ...others] = sample(rng, chance(rng, 0.5) ? ANIMALS : FRUITS, 4)
      const number = between(rng, 1, 6)
      const rest = Array.from({ length: between(rng, 1, 5) }, () => pick(rng, others))
      const text = shuffle(rng, [...Array.from({ length: number }, () => thing), ...rest]).join(', ')
      const question = say(rng, ASK_THINGS, { things: plural(thing), thing, text })
      return row({ task, keys: [`text:${text}`], question, number })
    }
    const word = pick(rng, commonWords())
    if (task === 'letters') {
      const question = say(rng, ASK_LETTERS, { word })
      return row({ task, keys: [`word:${word}/letters`], question, number: word.length })
    }
    const letter = chance(rng, 0.85) ? pick(rng, [...word]) : pick(rng, [...'abcdefghijklmnopqrstuvwxyz'])
    const number = [...word].filter((other) => other === letter).length
    return row({ task, keys: [`word:${word}/letter`], question: say(rng, ASK_LETTER, { word, letter }), number })
  },
  score: ({ expect }, { content }) => oneNumber(Number(expect.number), content),
})

/** @param {{ task: string, keys: string[], question: string, number: number }} drawn */
const row = ({ task, keys, question, number }) => ({
  task,
  keys,
  messages: exchange(question, String(number)),
  expect: { number },
})
