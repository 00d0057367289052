/**
 * Signing in and out. A key, or the one-time code of an address that the server printed, becomes a session, whose token is what the page
 * keeps: the key itself is never stored.
 */
import type { CreatedSession } from '#contract/wire/access/sessions.js'
import type { WhoamiResponse } from '#contract/wire/health.js'
import { ask } from './client.js'
import { credential, forgetCredential, identity, keepCredential } from './session.js'

const CODE = /^#code=([\w.~-]+)$/

/** What a session is called in the list of them. */
const browserName = (): string => `page in ${/Firefox|Edg|Chrome|Safari/.exec(navigator.userAgent)?.[0] ?? 'a browser'}`

/** @param key an API key @param isKept also when the tab is closed @throws {ApiError} for one that is not valid */
export async function signIn(key: string, isKept: boolean): Promise<void> {
  const json = { name: browserName(), is_kept: isKept }
  const { token } = await ask<CreatedSession>('/v1/preview/sessions', { json, bearer: key })
  keepCredential(token, isKept)
  await identify()
}

/** Signs in by the code in the address, if there is one, and takes it out of there. @throws {ApiError} for one that was used, or is too old */
export async function signInByCode(): Promise<void> {
  const code = CODE.exec(location.hash)?.[1]
  if (code === undefined) return
  history.replaceState(null, '', location.pathname + location.search)
  const json = { code: decodeURIComponent(code), name: browserName() }
  const { token } = await ask<CreatedSession>('/v1/preview/sessions/exchange', { json })
  keepCredential(token, false)
}

/** Ends the session; one that the server cannot be told of is forgotten all the same. */
export async function signOut(): Promise<void> {
  const id = identity.peek()?.session_id
  const bearer = credential.peek()
  forgetCredential()
  if (id == null || bearer === null) return
  await ask(`/v1/preview/sessions/${encodeURIComponent(id)}`, { method: 'DELETE', bearer }).catch(() => undefined)
}

/** Asks who the stored credential belongs to. @throws {ApiError} */
export async function identify(): Promise<void> {
  if (credential.peek() === null) return
  identity.value = await ask<WhoamiResponse>('/v1/whoami')
}
