/**
 * A number that JavaScript would change, held by its JSON text: digits beyond 2^53, and a decimal whose value is whole (`5.0` is not `5`).
 *
 * Plain data, so it passes through threads, processes and storage as it is. Every other number stays a plain one. Knows nothing of how a
 * text is parsed (`exact-json.ts`), nor of how a template prints a number.
 */

const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/

/** No text spells this key: the readers refuse it. */
export const NUMBER_KEY = '\u0000number\u0000'

/** A number by its JSON text. */
export type ExactNumber = { readonly [NUMBER_KEY]: string }

/** Whether a key may stand for something in here, as that of numbers does: JSON text must not have it. */
export function isReservedKey(key: string): boolean {
  return key.length > 1 && key.startsWith('\u0000') && key.endsWith('\u0000')
}

export function isExactNumber(value: unknown): value is ExactNumber {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, NUMBER_KEY)
}

/** As it was written. */
export function textOfNumber(number: ExactNumber): string {
  return number[NUMBER_KEY]
}

/** The nearest number; infinite beyond the range of doubles. */
export function valueOfNumber(number: ExactNumber): number {
  return Number(number[NUMBER_KEY])
}

/** @param text of a JSON number */
export function readNumber(text: string): number | ExactNumber {
  return needsText(text) ? { [NUMBER_KEY]: text } : Number(text)
}

/** A decimal whose value is whole would be taken for an integer, and a long integer lose its last digits. */
function needsText(text: string): boolean {
  const value = Number(text)
  if (/[.eE]/.test(text)) return Number.isInteger(value) || !Number.isFinite(value)
  return !Number.isSafeInteger(value)
}

/** Whether a text is a JSON number whose text must be kept. */
export function isExactText(text: string): boolean {
  return NUMBER.test(text) && needsText(text)
}
