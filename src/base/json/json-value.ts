/**
 * What JSON can say, as types. Knows nothing of parsing, nor of numbers that keep their text.
 */

export type JsonValue = string | number | boolean | null | readonly JsonValue[] | { readonly [key: string]: JsonValue }

export type JsonObject = { readonly [key: string]: JsonValue }
