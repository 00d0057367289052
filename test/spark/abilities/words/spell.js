/**
 * Letters of words: spelling them out, reading a spelling, first and last letter. Each of these holds out words of its own.
 */
import { commonWords } from '../../text/common-words.js'
import { nearText, plain } from '../compare.js'
import { defineAbility, exchange } from '../define.js'
import { chance, pick, say } from '../say.js'

const ASK = [
  '[How do you|How do I|Can you|Could you] spell [the word |]"{word}"?',
  'Please spell [the word |]"{word}"[.|]',
  'Spell [out |][the word |]{word}[ for me|][.|]',
  '[Spell|Write out the letters of|Give me the letters of|List the letters of] {word}[.|]',
  'What are the letters [in|of] [the word |]"{word}"?',
  'Spell "{word}" letter by letter[.|]',
]
const READ = [
  '[What|Which] word is [spelled|spelt] {letters}?',
  '[Which|What] word do the letters {letters} [make|spell]?',
  '[Put|Join] [these|the] letters together: {letters}',
  '[Write|Say] {letters} as one word[.|]',
]
const END = [
  'What is the {end} letter of [the word |]"{word}"?',
  '[Which|What] letter does [the word |]{word} {verb} with?',
  '[Tell me|Give me|Say] the {end} letter of [the word |]{word}[.|]',
]

export const spell = defineAbility({
  name: 'spell',
  summary: 'spell words, read spellings, first and last letters',
  share: 9,
  draw(rng) {
    const word = pick(rng, commonWords())
    const task = pick(rng, ['spell', 'spell', 'spell', 'read', 'read', 'first', 'last'])
    const keys = [`word:${word}/${task}`]
    if (task === 'spell') {
      const written = chance(rng, 0.15) ? word.toUpperCase() : word
      return row({ task, keys, question: say(rng, ASK, { word: written }), text: [...written].join('-') })
    }
    if (task === 'read') {
      const letters = [...word].join(pick(rng, ['-', '-', ' ', ', ']))
      return row({ task, keys, question: say(rng, READ, { letters }), text: word })
    }
    const [letter, verb] = task === 'first' ? [word[0], 'start'] : [word.at(-1), 'end']
    const question = say(rng, END, { word, end: task, verb: verb === 'start' ? pick(rng, ['start', 'begin']) : verb })
    return row({ task, keys, question, text: String(letter) })
  },
  score({ task, expect }, { content }) {
    const text = String(expect.text)
    if (task !== 'spell') return nearText(text, content)
    const isSpelled = /^[a-z](?:[^a-z]{1,2}[a-z])*[.!]?$/i.test(content)
    const letters = plain(content).replace(/[^a-z]/g, '')
    return isSpelled ? nearText(text.replaceAll('-', ''), letters) : 0
  },
})

/** @param {{ task: string, keys: string[], question: string, text: string }} drawn */
const row = ({ task, keys, question, text }) => ({ task, keys, messages: exchange(question, text), expect: { text } })
