/**
 * Signing in and out. A key, or the one-time code of an address that the server printed, becomes a session, whose token is what the page
 * keeps: the key itself is never stored.
 */

import { signal } from '@preact/signals'
import type { CreatedSession } from '#contract/wire/access/sessions.js'
import type { WhoamiResponse } from '#contract/wire/health.js'
import { ApiError } from './api-error.js'
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

/** What the address offers to somebody who is signed in as another; null: nothing. */
export const offeredSession = signal<{ readonly offered: CreatedSession; readonly own: WhoamiResponse } | null>(null)

/**
 * Signs in by the code in the address, if there is one, and takes it out of there. Whoever is signed in with another key is asked first
 * (`offeredSession`): an address may come from anybody.
 *
 * @throws {ApiError} for one that was used, or is too old
 */
export async function signInByCode(): Promise<void> {
  const code = CODE.exec(location.hash)?.[1]
  if (code === undefined) return
  history.replaceState(null, '', location.pathname + location.search)
  const json = { code: decodeURIComponent(code), name: browserName() }
  const offered = await ask<CreatedSession>('/v1/preview/sessions/exchange', { json })
  const own = await ownIdentity()
  if (own !== null && own.key_id !== offered.key_id) offeredSession.value = { offered, own }
  else keepCredential(offered.token, false)
}

/** Null: nobody is signed in, or no longer. @throws {ApiError} where the server did not say */
async function ownIdentity(): Promise<WhoamiResponse | null> {
  const bearer = credential.peek()
  if (bearer === null) return null
  try {
    return await ask<WhoamiResponse>('/v1/whoami', { bearer })
  } catch (raw) {
    if (raw instanceof ApiError && raw.status === 401) return null
    throw raw
  }
}

/** @param isTaken whether it takes the place of the session there is; the other of the two ends */
export async function answerOffer(isTaken: boolean): Promise<void> {
  const answered = offeredSession.peek()
  offeredSession.value = null
  if (answered === null) return
  const { offered, own } = answered
  const bearer = credential.peek()
  if (!isTaken) return endSession(offered.id, offered.token)
  keepCredential(offered.token, false)
  if (own.session_id != null && bearer !== null) await endSession(own.session_id, bearer)
  await identify()
}

/** Ends the session; one that the server cannot be told of is forgotten all the same. */
export async function signOut(): Promise<void> {
  const id = identity.peek()?.session_id
  const bearer = credential.peek()
  forgetCredential()
  if (id != null && bearer !== null) await endSession(id, bearer)
}

const endSession = (id: string, bearer: string): Promise<void> =>
  ask(`/v1/preview/sessions/${encodeURIComponent(id)}`, { method: 'DELETE', bearer }).then(
    () => undefined,
    () => undefined,
  )

/** Asks who the stored credential belongs to. @throws {ApiError} */
export async function identify(): Promise<void> {
  if (credential.peek() === null) return
  identity.value = await ask<WhoamiResponse>('/v1/whoami')
}
