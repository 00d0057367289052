/**
 * Copying what is no word: every printable character, parts of words, letters of other alphabets. What no row holds the softmax
 * pushes to one point, and no training of an adapter tells it from its neighbours again.
 */
import { commonWords } from '../text/common-words.js'
import { COUNTRIES } from '../text/countries.js'
import { editDistance, PARTIAL } from './compare.js'
import { defineAbility, exchange } from './define.js'
import { between, chance, pick, sample, say } from './say.js'

/** @typedef {import('./say.js').Rng} Rng */

const ASK = [
  '[Copy|Repeat|Write|Echo][ this| exactly|]: {text}',
  '[Repeat|Copy|Write] the following [signs|characters|text]: {text}',
  '[Type|Print|Give back] {text}',
  '[The code is|Code]: {text} [Write|Repeat|Say] the code.',
  '{text} [Repeat it|Copy that|The same again].',
]
const SIGNS = [...'!"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~']
const PRINTABLE = [...SIGNS, ...'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789']
/** Code points, first and last: what is written beyond ASCII, so that every byte of UTF-8 comes. */
const RANGES = [
  [0xa1, 0xac],
  [0xae, 0x17f],
  [0x391, 0x3a1],
  [0x3a3, 0x3c9],
  [0x400, 0x45f],
  [0x5d0, 0x5ea],
  [0x621, 0x63a],
  [0x905, 0x939],
  [0x1e00, 0x1eff],
  [0x2010, 0x2027],
  [0x20a0, 0x20bf],
  [0x2190, 0x21ff],
  [0x2600, 0x26ff],
  [0x3041, 0x3096],
  [0x4e00, 0x9fff],
  [0xac00, 0xd7a3],
  [0x1f300, 0x1f64f],
]
const FOREIGN = (
  'für über schön größe straße müde año señor mañana niño sí qué garçon été forêt où ça naïve é è ê São coração não ' +
  'città perché più où łódź źle żaba čaj šest žena år på även gøre rød привет да нет мир спасибо γειά όχι λόγος ' +
  'şehir iğne ığdır București Kraków Düsseldorf Malmö Zürich €5 £20 ¥300 25°C § 12 ½ «oui» “yes” ‘no’ – — … • → ✓ 你好 谢谢 日本 ありがとう 안녕'
).split(' ')

/** @param {Rng} rng */
const foreign = (rng) => {
  if (chance(rng, 0.5)) return sample(rng, FOREIGN, between(rng, 1, 3)).join(' ')
  const [first, last] = pick(rng, RANGES)
  return Array.from({ length: between(rng, 1, 4) }, () => String.fromCodePoint(between(rng, first, last))).join('')
}

/** A word cut at its front, as tokens in the middle of words begin. @param {Rng} rng */
function ending(rng) {
  const source = chance(rng, 0.5) ? pick(rng, commonWords()) : pick(rng, pick(rng, COUNTRIES.map(namesOf)))
  const letters = [...source.replaceAll(' ', '')]
  return letters.slice(between(rng, 1, Math.max(1, letters.length - 2))).join('')
}

/** @param {{ name: string, capital: string }} country */
const namesOf = ({ name, capital }) => [name, capital]

/** @param {Rng} rng @param {readonly string[]} from @param {number} most */
const several = (rng, from, most) => Array.from({ length: between(rng, 1, most) }, () => pick(rng, from)).join('')

/** @type {Record<string, (rng: Rng) => string>} */
const DRAWS = {
  signs: (rng) => several(rng, SIGNS, 6),
  code: (rng) => several(rng, PRINTABLE, 8),
  mixed: (rng) =>
    Array.from({ length: between(rng, 2, 4) }, () =>
      chance(rng, 0.5) ? pick(rng, commonWords()) : several(rng, SIGNS, 2),
    ).join(pick(rng, ['', ' '])),
  endings: (rng) => Array.from({ length: between(rng, 1, 4) }, () => ending(rng)).join(pick(rng, [' ', '', ', ', '-'])),
  foreign,
}

export const copy = defineAbility({
  name: 'copy',
  summary: 'copy codes, signs, parts of words, letters of other alphabets',
  share: 10,
  draw(rng) {
    const task = pick(rng, Object.keys(DRAWS))
    const text = DRAWS[task](rng).trim()
    return { task, keys: [`copy:${text}`], messages: exchange(say(rng, ASK, { text }), text), expect: { text } }
  },
  score({ expect }, { content }) {
    const text = String(expect.text)
    if (content === text) return 1
    const longest = Math.max(text.length, content.length)
    return longest > 200 ? 0 : Math.max(0, PARTIAL * (1 - editDistance(text, content) / longest))
  },
})
