/**
 * The JSON value type. Knows nothing of parsing: untrusted text is parsed where it enters.
 */

export type JsonValue = string | number | boolean | null | readonly JsonValue[] | { readonly [key: string]: JsonValue }

export type JsonObject = { readonly [key: string]: JsonValue }
