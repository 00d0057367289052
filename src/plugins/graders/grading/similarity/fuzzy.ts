/**
 * `fuzzy_match`: the weighted ratio of rapidfuzz 3.10 (`fuzz.WRatio` after `default_process`), from 0 to 1. All its
 * ratios are 2 · common / (both lengths), by the longest common subsequence; they differ in what is compared: the
 * texts, their words sorted, the words that only one of them has, or the best part of the longer text.
 */
import { comparable, type Work } from './common-length.js'

/** How much the order of words, and a part in place of the whole, take away. */
const [WORDS, PART, SMALL_PART] = [0.95, 0.9, 0.6]
/** How many times longer one text is from which its parts are compared, and from which those count less. */
const [LONGER, MUCH_LONGER] = [1.5, 8]

type Chars = readonly string[]

export async function fuzzyMatch(input: string, reference: string, work: Work): Promise<number> {
  const [a, b] = [prepare(input), prepare(reference)]
  if (a.length === 0 || b.length === 0) return 0
  const times = Math.max(a.length, b.length) / Math.min(a.length, b.length)
  const whole = await ratio(a, b, work)
  if (times < LONGER) return Math.max(whole, WORDS * (await wordRatio(a, b, work)))
  const scale = times < MUCH_LONGER ? PART : SMALL_PART
  return Math.max(whole, scale * (await partRatio(a, b, work)), WORDS * scale * (await partWordRatio(a, b, work)))
}

/** Everything that is no letter and no number is a blank; lower case. */
function prepare(text: string): Chars {
  return [...lower(text.replaceAll(/[^\p{L}\p{N}]/gu, ' ')).trim()]
}

/** Character by character, and none becomes two: İ is i. */
function lower(text: string): string {
  return Array.from(text, (each) => [...each.toLowerCase()][0] ?? each).join('')
}

async function ratio(a: Chars, b: Chars, work: Work): Promise<number> {
  if (a.length + b.length === 0) return 1
  const prepared = comparable(a)
  await work.did(prepared.words * b.length)
  return (2 * prepared.common(b, 0, b.length)) / (a.length + b.length)
}

/** Words in the order of their code points, which is not that of UTF-16. */
const sorted = (words: Iterable<string>): string[] => [...words].sort(byCodePoints)
const joined = (words: Iterable<string>): Chars => [...sorted(words).join(' ')]
const wordsOf = (text: Chars): string[] => text.join('').split(' ').filter(Boolean)

function byCodePoints(a: string, b: string): number {
  const [left, right] = [[...a], [...b]]
  for (let i = 0; i < Math.min(left.length, right.length); i += 1) {
    const difference = (left[i]?.codePointAt(0) ?? 0) - (right[i]?.codePointAt(0) ?? 0)
    if (difference !== 0) return difference
  }
  return left.length - right.length
}

/** Which words both have, and which only one of them. */
function compareWords(a: readonly string[], b: readonly string[]) {
  const [left, right] = [new Set(a), new Set(b)]
  return {
    both: [...left].filter((word) => right.has(word)),
    onlyLeft: [...left].filter((word) => !right.has(word)),
    onlyRight: [...right].filter((word) => !left.has(word)),
  }
}

/** The better of the words sorted, and of the words as sets. */
async function wordRatio(a: Chars, b: Chars, work: Work): Promise<number> {
  const [left, right] = [wordsOf(a), wordsOf(b)]
  const { both, onlyLeft, onlyRight } = compareWords(left, right)
  if (both.length > 0 && (onlyLeft.length === 0 || onlyRight.length === 0)) return 1
  const inOrder = await ratio(joined(left), joined(right), work)
  const [first, second] = [joined(onlyLeft), joined(onlyRight)]
  const shared = joined(both).length
  const gap = shared > 0 ? 1 : 0
  const [firstLength, secondLength] = [shared + gap + first.length, shared + gap + second.length]
  const prepared = comparable(first)
  await work.did(prepared.words * second.length)
  const common = prepared.common(second, 0, second.length)
  const asSets = 1 - (first.length + second.length - 2 * common) / (firstLength + secondLength)
  if (shared === 0) return Math.max(inOrder, asSets)
  // what both have, against that and the rest of one of them
  const beside = ({ length }: Chars): number => 1 - (gap + length) / (2 * shared + gap + length)
  return Math.max(inOrder, asSets, beside(first), beside(second))
}

async function partWordRatio(a: Chars, b: Chars, work: Work): Promise<number> {
  const [left, right] = [wordsOf(a), wordsOf(b)]
  const { both, onlyLeft, onlyRight } = compareWords(left, right)
  if (both.length > 0) return 1
  const inOrder = await partRatio(joined(left), joined(right), work)
  if (left.length === onlyLeft.length && right.length === onlyRight.length) return inOrder
  return Math.max(inOrder, await partRatio(joined(onlyLeft), joined(onlyRight), work))
}

/** The best ratio of the shorter text with a part of the longer one: as long as it, or less at either end. */
async function partRatio(a: Chars, b: Chars, work: Work): Promise<number> {
  const [shorter, longer] = a.length <= b.length ? [a, b] : [b, a]
  const best = await bestPart(shorter, longer, work)
  return a.length === b.length ? Math.max(best, await bestPart(longer, shorter, work)) : best
}

async function bestPart(shorter: Chars, longer: Chars, work: Work): Promise<number> {
  const { length } = shorter
  if (length === 0) return longer.length === 0 ? 1 : 0
  let best = 0
  // parts at the ends, one pass each: their common length grows with them
  const toEnds = [
    { elements: shorter, others: longer },
    { elements: shorter.toReversed(), others: longer.toReversed() },
  ]
  for (const { elements, others } of toEnds) {
    const prepared = comparable(elements)
    const end = Math.min(length - 1, others.length)
    await work.did(2 * prepared.words * end)
    prepared.common(others, 0, end, (common, size) => {
      best = Math.max(best, (2 * common) / (length + size))
    })
  }
  const prepared = comparable(shorter)
  for (let start = 0; start + length <= longer.length; ) {
    const turn = work.did(prepared.words * length)
    if (turn !== undefined) await turn
    const common = prepared.common(longer, start, start + length)
    best = Math.max(best, common / length)
    if (best === 1) return 1
    // one place further on at most one more is common: the next part that could be better is so many places away
    start += Math.max(1, Math.floor(best * length + 1e-9) - common + 1)
  }
  return best
}
