/**
 * What a common thing is, in a few words: meanings of common nouns from WordNet.
 *
 * Held-out words stand with their meaning in the training text only. A hard ability for a small model: the score is the
 * overlap of words with the dictionary's meaning.
 */
import { commonWords } from '../../text/common-words.js'
import { nounMeanings } from '../../text/wordnet.js'
import { overlap } from '../compare.js'
import { defineAbility, exchange } from '../define.js'
import { capitalize, pick, say, withArticle } from '../say.js'

const MAX_LENGTH = 70
const RANKED = 2500
const ASK = [
  "[What is|What's] {aWord}[?|]",
  '[Explain|Describe|Define] {aWord}[.|]',
  'What does [the word |]"{word}" mean?',
  'Do you know what [the word |]{word} means?',
  '[Explain|Define|Tell me the meaning of] [the word |]{word}[.|]',
]

/** @type {{ word: string, meaning: string }[] | undefined} */
let entries

/** A meaning without remarks in parentheses and without what follows a semicolon. @param {string} meaning */
export const shortMeaning = (meaning) =>
  meaning
    .replace(/\s*\([^)]*\)/g, '')
    .split(';')[0]
    .trim()

/** Common nouns with a short meaning. */
export function explainedWords() {
  if (entries === undefined) {
    const meanings = nounMeanings()
    entries = commonWords()
      .slice(0, RANKED)
      .flatMap((word) => {
        const meaning = shortMeaning(meanings.get(word) ?? '')
        return meaning.length > MAX_LENGTH || meaning.length < 10 ? [] : [{ word, meaning }]
      })
  }
  return entries
}

export const explain = defineAbility({
  name: 'explain',
  summary: 'say what a common word means',
  share: 2,
  draw(rng) {
    const { word, meaning } = pick(rng, explainedWords())
    const question = say(rng, ASK, { word, aWord: withArticle(word) })
    const text = `${capitalize(meaning)}.`
    return { task: 'meaning', keys: [`meaning:${word}`], messages: exchange(question, text), expect: { text } }
  },
  score: ({ expect }, { content }) => overlap(String(expect.text), content),
})
