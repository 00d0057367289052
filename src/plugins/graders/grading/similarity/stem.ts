/**
 * The stem of an English word: Porter's algorithm (Porter 1980, "An algorithm for suffix stripping"), with what NLTK
 * adds by default: a table of irregular words, words of two letters as they are, and other rules for -ies, -ied, -y,
 * -alli, -fulli and -logi.
 */

const IRREGULAR: ReadonlyMap<string, string> = new Map(
  Object.entries({
    sky: 'sky skies',
    die: 'dying',
    lie: 'lying',
    tie: 'tying',
    news: 'news',
    inning: 'innings inning',
    outing: 'outings outing',
    canning: 'cannings canning',
    howe: 'howe',
    proceed: 'proceed',
    exceed: 'exceed',
    succeed: 'succeed',
  }).flatMap(([stemmed, words]) => words.split(' ').map((word) => [word, stemmed] as const)),
)

/** A suffix, what takes its place, and what the rest must be for that. The first suffix that fits decides. */
type Rule = readonly [suffix: string, replacement: string, condition: (rest: string) => boolean]

/** For each letter whether it is a consonant; y is one where none stands before it. */
function consonants(word: string): readonly boolean[] {
  const flags: boolean[] = []
  for (const [i, letter] of [...word].entries()) {
    flags.push(letter === 'y' ? i === 0 || flags[i - 1] === false : !'aeiou'.includes(letter))
  }
  return flags
}

/** How often a vowel is followed by a consonant. */
function measure(word: string): number {
  const flags = consonants(word)
  return flags.filter((isConsonant, i) => isConsonant && flags[i - 1] === false).length
}

const hasVowel = (word: string): boolean => consonants(word).includes(false)
const isPositive = (rest: string): boolean => measure(rest) > 0
const isLong = (rest: string): boolean => measure(rest) > 1
const always = (): boolean => true

function endsDouble(word: string): boolean {
  const letters = [...word]
  return letters.length >= 2 && letters.at(-1) === letters.at(-2) && consonants(word).at(-1) === true
}

/** Consonant, vowel, consonant other than w, x and y; or a word of a vowel and a consonant. */
function endsShort(word: string): boolean {
  const flags = consonants(word)
  if (flags.length === 2) return flags[0] === false && flags[1] === true
  const [first, second, third] = flags.slice(-3)
  return flags.length >= 3 && first === true && second === false && third === true && !/[wxy]$/.test(word)
}

function apply(word: string, rules: readonly Rule[]): string {
  for (const [suffix, replacement, condition] of rules) {
    if (!word.endsWith(suffix)) continue
    const rest = word.slice(0, word.length - suffix.length)
    return condition(rest) ? rest + replacement : word
  }
  return word
}

const table = (rows: string, condition: (rest: string) => boolean): readonly Rule[] =>
  rows.split(' ').map((row) => {
    const [suffix = '', replacement = ''] = row.split('>')
    return [suffix, replacement, condition]
  })

const PLURALS = table('sses>ss ies>i ss>ss s>', always)
const DERIVED: readonly Rule[] = [
  ...table(
    'ational>ate tional>tion enci>ence anci>ance izer>ize bli>ble alli>al entli>ent eli>e ousli>ous ization>ize ation>ate ator>ate alism>al iveness>ive fulness>ful ousness>ous aliti>al iviti>ive biliti>ble fulli>ful',
    isPositive,
  ),
  // the l belongs to the stem, so that geology is like archaeology
  ['logi', 'log', (rest) => isPositive(`${rest}l`)],
]
const FULL = table('icate>ic ative> alize>al iciti>ic ical>ic ful> ness>', isPositive)
const LAST: readonly Rule[] = [
  ...table('al> ance> ence> er> ic> able> ible> ant> ement> ment> ent>', isLong),
  ['ion', '', (rest) => isLong(rest) && /[st]$/.test(rest)],
  ...table('ou> ism> ate> iti> ous> ive> ize>', isLong),
]

function plural(word: string): string {
  return word.length === 4 && word.endsWith('ies') ? word.slice(0, -1) : apply(word, PLURALS)
}

function past(word: string): string {
  if (word.endsWith('ied')) return word.slice(0, word.length === 4 ? -1 : -2)
  if (word.endsWith('eed')) return isPositive(word.slice(0, -3)) ? word.slice(0, -1) : word
  const suffix = ['ed', 'ing'].find((each) => word.endsWith(each) && hasVowel(word.slice(0, -each.length)))
  if (suffix === undefined) return word
  const rest = word.slice(0, -suffix.length)
  if (/(?:at|bl|iz)$/.test(rest)) return `${rest}e`
  if (endsDouble(rest)) return /[lsz]$/.test(rest) ? rest : rest.slice(0, -1)
  return measure(rest) === 1 && endsShort(rest) ? `${rest}e` : rest
}

function derived(word: string): string {
  const isAlly = word.endsWith('alli') && isPositive(word.slice(0, -4))
  return isAlly ? derived(word.slice(0, -2)) : apply(word, DERIVED)
}

function withoutE(word: string): string {
  if (!word.endsWith('e')) return word
  const rest = word.slice(0, -1)
  return isLong(rest) || (measure(rest) === 1 && !endsShort(rest)) ? rest : word
}

/** @param word in lower case */
export function stem(word: string): string {
  const irregular = IRREGULAR.get(word)
  if (irregular !== undefined) return irregular
  if ([...word].length <= 2) return word
  let stemmed = past(plural(word))
  stemmed = apply(stemmed, [['y', 'i', (rest) => [...rest].length > 1 && consonants(rest).at(-1) === true]])
  stemmed = withoutE(apply(apply(derived(stemmed), FULL), LAST))
  return stemmed.endsWith('ll') && isLong(stemmed.slice(0, -1)) ? stemmed.slice(0, -1) : stemmed
}
