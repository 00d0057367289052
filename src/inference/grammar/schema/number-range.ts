/**
 * Numbers between bounds as a rule of EBNF: decimals without an exponent, compared digit by digit.
 *
 * xgrammar 0.1.27 turns the bounds of a JSON Schema into patterns that let other things through, so these are our own.
 * Up to 15 significant digits are written beside a bound, because decimals that short are told apart as 64-bit floats: what is below a
 * bound as text is below it after parsing too.
 */
import { type ExactNumber, isExactNumber, textOfNumber, valueOfNumber } from '#base/json/exact-number.js'
import { maxOf } from '#base/util/lists.js'

/** A number that keeps its text is as large as it says. */
export type Bound = number | ExactNumber

/** Bounds of a number; null: none. */
export interface NumberRange {
  readonly minimum: Bound | null
  readonly maximum: Bound | null
  readonly exclusiveMinimum: Bound | null
  readonly exclusiveMaximum: Bound | null
}

/** Decimal digits that a 64-bit float keeps. */
const DIGITS = 15
const LARGEST = 10n ** BigInt(DIGITS) - 1n
/** An integer that a bound may name beyond 64-bit floats: up to 128 bits. */
const LONG_INTEGER = /^-?\d{16,39}$/

/**
 * The right side of a rule that matches JSON numbers in the range.
 *
 * @returns null if no number of at most 15 digits is in it
 */
export function numberRangeRule(range: NumberRange): string | null {
  const whole = maxOf(
    boundsOf(range).map((bound) => Math.min(Math.trunc(Math.abs(nearestNumber(bound))), Number(LARGEST))),
    0,
  )
  const places = DIGITS - (whole === 0 ? 0 : String(whole).length)
  return ruleOf(range, places, (LARGEST + 1n) * 10n ** BigInt(places) - 1n)
}

/**
 * The right side of a rule that matches the JSON integers in the range. xgrammar's own lets a lone minus sign through.
 *
 * Integers beyond what a 64-bit float holds exactly are among them only where a bound names one: who asks for `maximum` 2^63 - 1
 * reads such integers.
 *
 * @returns null if no such integer is in it
 */
export function integerRangeRule(range: NumberRange): string | null {
  const named = boundsOf(range).filter(isExactNumber).map(textOfNumber)
  const long = named.filter((text) => LONG_INTEGER.test(text)).map((text) => BigInt(text.replace('-', '')))
  return ruleOf(
    range,
    0,
    long.reduce((most, each) => largest(most, each), BigInt(Number.MAX_SAFE_INTEGER)),
  )
}

function boundsOf({ minimum, maximum, exclusiveMinimum, exclusiveMaximum }: NumberRange): readonly Bound[] {
  return [minimum, maximum, exclusiveMinimum, exclusiveMaximum].filter((bound) => bound !== null)
}

/** The nearest number. */
export function nearestNumber(bound: Bound): number {
  return isExactNumber(bound) ? valueOfNumber(bound) : bound
}

function ruleOf(range: NumberRange, places: number, limit: bigint): string | null {
  const low = largest(-limit, atLeast(range.minimum, places), above(range.exclusiveMinimum, places))
  const high = smallest(limit, atMost(range.maximum, places), below(range.exclusiveMaximum, places))
  if (low > high) return null
  const parts: string[] = []
  if (high >= 0n) parts.push(between(low > 0n ? low : 0n, high, places))
  if (low < 0n) parts.push(`"-" (${between(high < 0n ? -high : 1n, -low, places)})`)
  return parts.join(' | ')
}

/** A number as an exact decimal: digits * 10 ** exponent. */
function decimalOf(value: Bound): { readonly digits: bigint; readonly exponent: number } {
  const text = isExactNumber(value) ? textOfNumber(value) : value.toExponential()
  const [mantissa = '0', exponent = '0'] = text.toLowerCase().split('e')
  const [whole = '0', fraction = ''] = mantissa.split('.')
  return { digits: BigInt(whole + fraction), exponent: Number(exponent) - fraction.length }
}

/** `value * 10 ** places` rounded down, and whether that is exact. */
function scaled(value: Bound, places: number): { readonly floor: bigint; readonly isExact: boolean } {
  const { digits, exponent } = decimalOf(value)
  const power = exponent + places
  if (power >= 0) return { floor: digits * 10n ** BigInt(Math.min(power, 400)), isExact: true }
  const divisor = 10n ** BigInt(-power)
  const quotient = digits / divisor
  const isExact = quotient * divisor === digits
  return { floor: !isExact && digits < 0n ? quotient - 1n : quotient, isExact }
}

function atLeast(bound: Bound | null, places: number): bigint | null {
  if (bound === null) return null
  const { floor, isExact } = scaled(bound, places)
  return isExact ? floor : floor + 1n
}

function above(bound: Bound | null, places: number): bigint | null {
  return bound === null ? null : scaled(bound, places).floor + 1n
}

function atMost(bound: Bound | null, places: number): bigint | null {
  return bound === null ? null : scaled(bound, places).floor
}

function below(bound: Bound | null, places: number): bigint | null {
  if (bound === null) return null
  const { floor, isExact } = scaled(bound, places)
  return isExact ? floor - 1n : floor
}

function largest(first: bigint, ...others: readonly (bigint | null)[]): bigint {
  return others.reduce<bigint>((best, other) => (other !== null && other > best ? other : best), first)
}

function smallest(first: bigint, ...others: readonly (bigint | null)[]): bigint {
  return others.reduce<bigint>((best, other) => (other !== null && other < best ? other : best), first)
}

/** Decimals from low to high, both not negative, with up to so many places. */
function between(low: bigint, high: bigint, places: number): string {
  const scale = 10n ** BigInt(places)
  const [lowWhole, highWhole] = [low / scale, high / scale]
  const pad = (value: bigint): string => (places === 0 ? '' : String(value % scale).padStart(places, '0'))
  const [lowDigits, highDigits] = [pad(low), pad(high)]
  if (places === 0) return wholeNumbers(low, high)
  if (lowWhole === highWhole) return `"${lowWhole}" ${fraction(lowDigits, highDigits)}`
  const any = places === 0 ? '""' : `("" | "." [0-9]{1,${places}})`
  const parts = [
    `"${lowWhole}" ${fraction(lowDigits, null)}`,
    ...(lowWhole + 1n <= highWhole - 1n ? [`(${wholeNumbers(lowWhole + 1n, highWhole - 1n)}) ${any}`] : []),
    `"${highWhole}" ${fraction(null, highDigits)}`,
  ]
  return parts.join(' | ')
}

/** The part behind the whole number, from `low` to `high` as padded digits; null: no bound on that side. */
function fraction(low: string | null, high: string | null): string {
  const places = (low ?? high ?? '').length
  const canBeMissing = low === null || /^0*$/.test(low)
  if (places === 0) return '""'
  const digits = fractionDigits({ low, high, at: 0, places, mustGoOn: true })
  return canBeMissing ? `("" | "." ${digits})` : `("." ${digits})`
}

interface Tail {
  readonly low: string | null
  readonly high: string | null
  readonly at: number
  readonly places: number
  /** At least one digit comes. */
  readonly mustGoOn: boolean
}

function fractionDigits(tail: Tail): string {
  const { at, places, mustGoOn } = tail
  const left = places - at
  // a bound that the rest cannot miss is none
  const low = tail.low === null || /^0*$/.test(tail.low.slice(at)) ? null : tail.low
  const high = tail.high === null || /^9*$/.test(tail.high.slice(at)) ? null : tail.high
  const least = mustGoOn ? 1 : 0
  if (left === 0) return '""'
  if (low === null && high === null) return `[0-9]{${least},${left}}`
  if (low === null && high !== null && /^0*$/.test(high.slice(at))) return `[0]{${least},${left}}`
  const next = (isLow: boolean, isHigh: boolean): string =>
    fractionDigits({ low: isLow ? low : null, high: isHigh ? high : null, at: at + 1, places, mustGoOn: false })
  const runs = digitRuns(Number(low?.[at] ?? 0), Number(high?.[at] ?? 9), low !== null, high !== null)
  const options = runs.map(([from, to, isLow, isHigh]) => `${digit(from, to)} ${next(isLow, isHigh)}`)
  return `(${[...(low === null && !mustGoOn ? ['""'] : []), ...options].join(' | ')})`
}

/** Digits of one place in runs that go on alike: the one that equals a bound goes on bounded. */
function digitRuns(
  first: number,
  last: number,
  hasLow: boolean,
  hasHigh: boolean,
): readonly (readonly [from: number, to: number, isLow: boolean, isHigh: boolean])[] {
  if (first === last) return [[first, first, hasLow, hasHigh]]
  const runs: [number, number, boolean, boolean][] = []
  const from = hasLow ? first + 1 : first
  const to = hasHigh ? last - 1 : last
  if (hasLow) runs.push([first, first, true, false])
  if (from <= to) runs.push([from, to, false, false])
  if (hasHigh) runs.push([last, last, false, true])
  return runs
}

/** Whole numbers from low to high, without leading zeros. */
function wholeNumbers(low: bigint, high: bigint): string {
  const parts: string[] = []
  // lengths of which every number is meant
  const whole: number[] = []
  for (let length = String(low).length; length <= String(high).length; length++) {
    const shortest = length === 1 ? 0n : 10n ** BigInt(length - 1)
    const longest = 10n ** BigInt(length) - 1n
    const from = low > shortest ? low : shortest
    const to = high < longest ? high : longest
    if (length > 1 && from === shortest && to === longest) whole.push(length - 1)
    else parts.push(sameLength(String(from), String(to), 0))
  }
  const [shortest] = whole
  if (shortest !== undefined) parts.push(`[1-9] [0-9]{${shortest},${whole.at(-1)}}`)
  return parts.join(' | ')
}

function sameLength(lowest: string | null, highest: string | null, at: number): string {
  const left = (lowest ?? highest ?? '').length - at
  const low = lowest === null || (at > 0 && /^0*$/.test(lowest.slice(at))) ? null : lowest
  const high = highest === null || /^9*$/.test(highest.slice(at)) ? null : highest
  if (left === 0) return '""'
  if (low === null && high === null) return anyDigits(left)
  const runs = digitRuns(Number(low?.[at] ?? 0), Number(high?.[at] ?? 9), low !== null, high !== null)
  const options = runs.map(([from, to, isLow, isHigh]) => {
    const rest =
      left === 1
        ? ''
        : ` ${isLow || isHigh ? sameLength(isLow ? low : null, isHigh ? high : null, at + 1) : anyDigits(left - 1)}`
    return `${digit(from, to)}${rest}`
  })
  return `(${options.join(' | ')})`
}

function anyDigits(count: number): string {
  return `[0-9]{${count},${count}}`
}

function digit(from: number, to: number): string {
  return from === to ? `"${from}"` : `[${from}-${to}]`
}
