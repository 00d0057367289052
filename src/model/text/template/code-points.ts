/**
 * Texts by code points, as Python counts them, without a list of their characters: a text of a prompt may have millions.
 */
import { claimItems, claimSearch } from './render-meter.js'

const isPaired = /[\ud800-\udbff][\udc00-\udfff]/

const isHigh = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdbff
const isLow = (unit: number): boolean => unit >= 0xdc00 && unit <= 0xdfff
const isPairAt = (text: string, at: number): boolean => isHigh(text.charCodeAt(at)) && isLow(text.charCodeAt(at + 1))

/** How many code points a text has. */
export function codePointCount(text: string): number {
  if (!isPaired.test(text)) return text.length
  let count = 0
  for (let at = 0; at < text.length; at += isPairAt(text, at) ? 2 : 1) count += 1
  return count
}

/** UTF-16 units before a code point. @param index 0 to the count of code points */
function unitsBefore(text: string, index: number): number {
  let at = 0
  for (let i = 0; i < index; i++) at += isPairAt(text, at) ? 2 : 1
  return at
}

/** The code points from one to before another. */
export function codePointSlice(text: string, start: number, stop: number): string {
  if (!isPaired.test(text)) return text.slice(start, stop)
  const from = unitsBefore(text, start)
  const rest = text.slice(from)
  return rest.slice(0, unitsBefore(rest, Math.max(0, stop - start)))
}

/** The code point at an index, from the end where that is below zero; null where there is none. */
export function codePointAt(text: string, index: number): string | null {
  const at = index < 0 && isPaired.test(text) ? index + codePointCount(text) : index
  if (!isPaired.test(text)) return text.at(at) ?? null
  return at < 0 ? null : codePointSlice(text, at, at + 1) || null
}

/** Every code point. @throws {InvalidRequestError} `chat_template_budget` where that is too long a list */
export function codePointsOf(text: string): string[] {
  claimItems(codePointCount(text))
  return Array.from(text)
}

/** How often a part stands in a text, parts that overlap once; of nothing, one more than there are code points. */
export function countOf(text: string, part: string): number {
  if (part === '') return codePointCount(text) + 1
  claimSearch(text, part)
  let count = 0
  for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + part.length)) count += 1
  return count
}

/** By code points: below zero, zero or above. */
export function compareCodePoints(a: string, b: string): number {
  const least = Math.min(a.length, b.length)
  for (let at = 0; at < least; at++) {
    if (a.charCodeAt(at) === b.charCodeAt(at)) continue
    // the second half of pairs that begin alike
    const from = at > 0 && isHigh(a.charCodeAt(at - 1)) ? at - 1 : at
    return (a.codePointAt(from) ?? 0) - (b.codePointAt(from) ?? 0)
  }
  return a.length - b.length
}
