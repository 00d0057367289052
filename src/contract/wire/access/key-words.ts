/**
 * Scopes of API keys, which scope contains which, and the longest life of a key. Apart from the schemas, which the
 * command line does not load.
 */

/**
 * What a key may do, and what its scope contains. A worker's key opens nothing but the queue: it lies on machines that are none of the
 * server's.
 */
const GRANTS = {
  read: ['read'],
  write: ['read', 'write'],
  admin: ['read', 'write', 'admin', 'worker'],
  worker: ['worker'],
} as const
export type KeyScope = keyof typeof GRANTS
export const KEY_SCOPES = ['read', 'write', 'admin', 'worker'] as const satisfies readonly KeyScope[]

/** Whether a key of scope `held` may do what needs `needed`. */
export function scopeContains(held: KeyScope, needed: KeyScope): boolean {
  return (GRANTS[held] as readonly KeyScope[]).includes(needed)
}

/** Longest life a key may be given, seconds: ten years. */
export const MAX_KEY_LIFE_SECONDS = 315_360_000

/** Longest life of a key that a browser's session makes, and its life where none is asked for, seconds: 30 days, as the longest session's. */
export const SESSION_KEY_LIFE_SECONDS = 2_592_000
