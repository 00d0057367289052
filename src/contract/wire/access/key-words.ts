/**
 * Words of API keys that the command line needs without the schemas.
 */

/** What a key may do; each contains the ones before it. */
export const KEY_SCOPES = ['read', 'write', 'admin'] as const
export type KeyScope = (typeof KEY_SCOPES)[number]

/** Longest life a key may be given, seconds: ten years. */
export const MAX_KEY_LIFE_SECONDS = 315_360_000
