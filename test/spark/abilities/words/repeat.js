/**
 * Saying again what was said: words, short sentences, several times, in capitals.
 */
import { commonWords } from '../../text/common-words.js'
import { wordnetSenses } from '../../text/wordnet.js'
import { nearText } from '../compare.js'
import { defineAbility, exchange } from '../define.js'
import { between, chance, pick, sample, say } from '../say.js'

const ASK = [
  '[Repeat after me|Please repeat after me|Say this|Repeat this|Echo this|Copy this]: {text}',
  '[Repeat|Say|Echo|Copy|Write] the following[ text| words| exactly|]: {text}',
  '[Can you|Could you|Would you] [say|repeat|write] "{text}"?',
  '[Please |]say "{text}"[.|]',
  '[Please |]repeat[ exactly|]: "{text}"',
  'Say [exactly this|just this|this and nothing else]: {text}',
]
const ASK_TIMES = [
  '[Say|Write|Repeat] the word "{text}" {times} times[.|]',
  '[Please |][say|write|repeat] {text} {times} times[.|]',
  '[Can you|Could you] [say|write|repeat] "{text}" {times} times?',
]
const ASK_CAPITALS = [
  '[Write|Say|Repeat] "{text}" in [capital letters|upper case|uppercase|all caps][.|]',
  '[Convert|Change] {text} to [upper case|uppercase|capital letters][.|]',
  '[Uppercase|Capitalize every letter of]: {text}',
]
const TIMES = ['two', 'three', 'four', 'five']

/** @type {string[] | undefined} */
let sentences

/** Short example sentences of the dictionary. */
function exampleSentences() {
  sentences ??= wordnetSenses()
    .flatMap(({ examples }) => examples)
    .filter((text) => text.length >= 12 && text.length <= 60 && /^[A-Za-z][a-z ,']+$/.test(text) && text.includes(' '))
  return sentences
}

export const repeat = defineAbility({
  name: 'repeat',
  summary: 'repeat words and sentences, several times, in capitals',
  share: 10,
  draw(rng) {
    const task = pick(rng, ['words', 'words', 'sentence', 'sentence', 'times', 'capitals'])
    if (task === 'times') {
      const word = pick(rng, commonWords())
      const count = between(rng, 2, 5)
      const times = chance(rng, 0.7) ? TIMES[count - 2] : String(count)
      const text = Array.from({ length: count }, () => word).join(' ')
      return row({ task, keys: [`text:${word} x${count}`], question: say(rng, ASK_TIMES, { text: word, times }), text })
    }
    const source =
      task === 'sentence' ? pick(rng, exampleSentences()) : sample(rng, commonWords(), between(rng, 1, 5)).join(' ')
    const text = task === 'capitals' ? source.toUpperCase() : source
    const question = say(rng, task === 'capitals' ? ASK_CAPITALS : ASK, { text: source })
    return row({ task, keys: [`text:${source}`], question, text })
  },
  score: ({ task, expect }, { content }) => {
    const text = String(expect.text)
    if (task === 'capitals' && content !== content.toUpperCase()) return Math.min(0.3, nearText(text, content))
    return nearText(text, content)
  },
})

/** @param {{ task: string, keys: string[], question: string, text: string }} drawn */
const row = ({ task, keys, question, text }) => ({ task, keys, messages: exchange(question, text), expect: { text } })
