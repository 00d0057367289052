/**
 * Backwards: letters of a word, order of a few words or digits. Words and lists are held out.
 */
import { commonWords } from '../../text/common-words.js'
import { nearText } from '../compare.js'
import { defineAbility, exchange } from '../define.js'
import { between, pick, sample, say } from '../say.js'

const ASK_WORD = [
  '[Reverse|Please reverse] [the word |]"{word}"[.|]',
  '[Write|Spell|Say] [the word |]{word} backwards[.|]',
  'What is [the word |]"{word}" [backwards|in reverse|reversed]?',
  'Can you [reverse the word {word}|write {word} backwards]?',
  'Reverse the letters of {word}[.|]',
]
const ASK_LIST = [
  '[Reverse|Flip] the order of [these words|the words|this list]: {list}',
  '[Write|Say|Put|List] [these|the] words in reverse order: {list}',
  '[Give me|Repeat] [this list|these words] backwards, [last first|from last to first]: {list}',
]
const ASK_NUMBERS = [
  '[Reverse|Flip] the order of [these|the] numbers: {list}',
  '[Write|Say|List] these numbers backwards: {list}',
]

export const reverse = defineAbility({
  name: 'reverse',
  summary: 'reverse a word, or the order of a short list',
  share: 7,
  draw(rng) {
    const task = pick(rng, ['word', 'word', 'list', 'numbers'])
    if (task === 'word') {
      const word = pick(rng, commonWords())
      const text = [...word].reverse().join('')
      return row({ task, keys: [`word:${word}/reverse`], question: say(rng, ASK_WORD, { word }), text })
    }
    const count = between(rng, 3, 6)
    const items =
      task === 'list'
        ? sample(rng, commonWords(), count)
        : Array.from({ length: count }, () => String(rng.integer(100)))
    const separator = task === 'list' ? pick(rng, [', ', ', ', ' ']) : ', '
    return row({
      task,
      keys: [`list:${items.join(' ')}`],
      question: say(rng, task === 'list' ? ASK_LIST : ASK_NUMBERS, { list: items.join(separator) }),
      text: [...items].reverse().join(separator),
    })
  },
  score: ({ expect }, { content }) => nearText(String(expect.text), content),
})

/** @param {{ task: string, keys: string[], question: string, text: string }} drawn */
const row = ({ task, keys, question, text }) => ({ task, keys, messages: exchange(question, text), expect: { text } })
