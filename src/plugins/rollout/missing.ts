/**
 * What is missing in answers whose wanted ones are known: characters that never come, the form, or which part of it.
 * Compares texts and knows no model.
 */
import type { JsonObject } from '#base/util/json.js'
import type { Example } from './examples.js'

/** Share of the wanted answers that must hold a character before its absence is said. */
export const COMMON = 0.1
/** Share of the answers in the wanted form from which that counts as learned. */
const FORM_KNOWN = 0.5
/** Letters and digits that never come are those of words that are not known, no characters that a model lacks. */
const SYMBOLS = /[^\p{L}\p{M}\p{N}\s]/gu
/** More parts are a text. */
const MOST_PARTS = 8
/** Characters that are named. */
const NAMED = 5

/** What is missing, in a sentence. */
export interface Missing {
  readonly says: string
  /**
   * `characters`: the model does not write them; `form`: it answers otherwise; `content`: in the form, and wrong; `lost`: its
   * base model cannot write them at all.
   */
  readonly kind: 'characters' | 'form' | 'content' | 'lost'
  /** Whether most of the wanted answers need it. */
  readonly isMost?: boolean
}

/** Letters as one `a`, digits as one `9`, everything else as it is. */
const formOf = (text: string): string =>
  text
    .trim()
    .replaceAll(/[\p{L}\p{M}]+/gu, 'a')
    .replaceAll(/\p{N}+/gu, '9')
    .replaceAll(/\s+/g, ' ')

const partsOf = (text: string): readonly string[] => text.match(/[\p{L}\p{M}]+|\p{N}+/gu) ?? []

export const wantedOf = (row: JsonObject): string | null => {
  const { answer } = row
  return typeof answer === 'string' || typeof answer === 'number' ? String(answer) : null
}

/**
 * Looks at all answers of a measurement.
 *
 * @returns what is missing, and the share of right answers; null where nobody knows what is right, or all are
 */
export function findMissing(examples: readonly Example[]): (Missing & { readonly rightShare: number }) | null {
  const pairs = examples.flatMap(({ answer, row }) => {
    const wanted = wantedOf(row)
    return wanted === null || wanted.trim() === '' ? [] : [{ answer, wanted }]
  })
  const wrong = pairs.filter(({ answer, wanted }) => answer.trim() !== wanted.trim())
  if (pairs.length < examples.length || wrong.length === 0) return null
  const rightShare = 1 - wrong.length / pairs.length
  const said = new Set(pairs.flatMap(({ answer }) => [...answer]))
  const counts = new Map<string, number>()
  for (const { wanted } of pairs) {
    for (const character of new Set(wanted.trim().match(SYMBOLS)))
      counts.set(character, (counts.get(character) ?? 0) + 1)
  }
  const never = [...counts]
    .filter(([character, count]) => count >= COMMON * pairs.length && !said.has(character))
    .sort(([, a], [, b]) => b - a)
  if (never.length > 0) {
    const named = never.slice(0, NAMED).map(([character]) => JSON.stringify(character))
    const most = never[0]?.[1] ?? 0
    return {
      kind: 'characters',
      rightShare,
      says: `${named.join(', ')} ${never.length === 1 ? 'never comes' : 'never come'}, in ${pairs.length} answers of which ${most} should hold ${never.length === 1 ? 'it' : 'the first'}`,
    }
  }
  const formed = pairs.filter(({ answer, wanted }) => formOf(answer) === formOf(wanted))
  const form = `the form of the wanted answer is right in ${formed.length} of ${pairs.length}`
  if (formed.length < FORM_KNOWN * pairs.length) return { kind: 'form', rightShare, says: form }
  return { kind: 'content', rightShare, says: `${form}${sayWorstPart(formed)}` }
}

/** Which of several parts is right least often. */
function sayWorstPart(formed: readonly { readonly answer: string; readonly wanted: string }[]): string {
  const count = partsOf(formed[0]?.wanted ?? '').length
  if (count < 2 || count > MOST_PARTS || formed.some(({ wanted }) => partsOf(wanted).length !== count)) return ''
  const right = Array.from(
    { length: count },
    (_, at) => formed.filter(({ answer, wanted }) => partsOf(answer)[at] === partsOf(wanted)[at]).length,
  )
  const least = right.reduce((a, b) => Math.min(a, b))
  return `; part ${right.indexOf(least) + 1} of ${count} is right least often, in ${least} of ${formed.length}`
}
