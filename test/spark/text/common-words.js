/**
 * Common English words for the word tasks: the npm package `popular-english-words`, kept where WordNet has the word too.
 *
 * The list comes from an encyclopedia and holds names, abbreviations and markup; WordNet's headwords sort those out.
 */
import { words as popular } from 'popular-english-words'
import { isClean, wordnetLemmas } from './wordnet.js'

const COUNT = 6000
const MIN_LENGTH = 3
const MAX_LENGTH = 9
const LOOKED_AT = 40_000

/** Headwords of WordNet that are abbreviations or chemistry to most people. */
const ODD = new Set(
  'nbsp wiki http https www href html pdf jpg png isbn edit redirect talk user afd css php xml usa nba nfl gdp ibn von des del der las los san saint pub inc ltd etc dna rna led mid pre pro sub non hon ref rev sen gen sgt col dec jan feb aug oct nov mar apr jun jul sun mon tue wed thu fri sat uss ser fin'.split(
    ' ',
  ),
)

/** @type {readonly string[] | undefined} */
let kept

/** Common words, the most frequent first; lower case, 3 to 9 letters. @returns {readonly string[]} */
export function commonWords() {
  kept ??= selectWords()
  return kept
}

/** @returns {readonly string[]} */
function selectWords() {
  const lemmas = wordnetLemmas()
  /** @type {string[]} */
  const candidates = popular.getMostPopular(LOOKED_AT)
  return candidates
    .filter((word) => word.length >= MIN_LENGTH && word.length <= MAX_LENGTH)
    .filter((word) => lemmas.has(word) && /[aeiouy]/.test(word) && !ODD.has(word) && isClean(word))
    .slice(0, COUNT)
}
