/**
 * Who is signed in. The credential is kept for this tab, or for this browser when asked, by the origin with its port; it is sent in a header
 * and never in an address or a cookie.
 */
import { signal } from '@preact/signals'
import type { KeyScope } from '#contract/wire/access/key-words.js'
import type { WhoamiResponse } from '#contract/wire/health.js'

const NAME = 'trainyard.session'
/** Each contains the ones before it; a worker's contains none of them. */
const SCOPES: readonly KeyScope[] = ['read', 'write', 'admin']

/** Null: nobody is signed in. */
export const credential = signal<string | null>(sessionStorage.getItem(NAME) || localStorage.getItem(NAME) || null)
/** What the server says of it; null until it has answered. */
export const identity = signal<WhoamiResponse | null>(null)

/** @param isKept beyond this tab */
export function keepCredential(text: string, isKept: boolean): void {
  const [store, other] = isKept ? [localStorage, sessionStorage] : [sessionStorage, localStorage]
  other.removeItem(NAME)
  store.setItem(NAME, text)
  credential.value = text
}

export function forgetCredential(): void {
  sessionStorage.removeItem(NAME)
  localStorage.removeItem(NAME)
  credential.value = null
  identity.value = null
}

/** Null if the credential may do that; else the reason, for a control that is shown disabled. */
export function missingScope(needed: KeyScope): string | null {
  const scope = identity.value?.scope
  if (scope === undefined || SCOPES.indexOf(scope) >= SCOPES.indexOf(needed)) return null
  return `needs a key of scope ${needed}; this one may ${scope}`
}
