/**
 * JSON that is shown as it was written: the arguments of a call that the model made itself, so that its own text comes back to it.
 *
 * A value that stands for both the text and what it says, as plain data: what changes strings in a conversation changes both alike.
 */
import type { JsonValue } from '#base/util/json.js'

/** Keys that JSON text cannot have: its readers refuse them. */
const TEXT_KEY = '\u0000text\u0000'
const VALUE_KEY = '\u0000value\u0000'

export type WrittenJson = { readonly [TEXT_KEY]: string; readonly [VALUE_KEY]: JsonValue }

/** @param value what the text says */
export function writtenJson(text: string, value: JsonValue): WrittenJson {
  return { [TEXT_KEY]: text, [VALUE_KEY]: value }
}

export function isWritten(value: JsonValue): value is WrittenJson {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, TEXT_KEY)
}

export function textOfWritten(written: WrittenJson): string {
  return written[TEXT_KEY]
}

export function valueOfWritten(written: WrittenJson): JsonValue {
  return written[VALUE_KEY]
}
