/**
 * Words of API keys that the command line needs without the schemas.
 */

/** What a key may do; each contains the ones before it. */
export const KEY_SCOPES = ['read', 'write', 'admin'] as const
export type KeyScope = (typeof KEY_SCOPES)[number]
