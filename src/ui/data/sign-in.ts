/**
 * Signing in and out: a key is tried, and what it says of itself is kept.
 */
import type { WhoamiResponse } from '#contract/wire/health.js'
import { ask } from './client.js'
import { credential, forgetCredential, identity, keepCredential } from './session.js'

/** @param key an API key @param isKept also when the tab is closed @throws {ApiError} for one that is not valid */
export async function signIn(key: string, isKept: boolean): Promise<void> {
  const who = await ask<WhoamiResponse>('/v1/whoami', { bearer: key })
  // a key itself is kept for this tab at most
  keepCredential(key, isKept && !key.startsWith('ty_'))
  identity.value = who
}

export async function signOut(): Promise<void> {
  forgetCredential()
}

/** Asks who the stored credential belongs to. @throws {ApiError} */
export async function identify(): Promise<void> {
  if (credential.value === null) return
  identity.value = await ask<WhoamiResponse>('/v1/whoami')
}
