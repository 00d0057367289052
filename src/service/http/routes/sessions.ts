/**
 * Sessions of browsers, the codes that begin one, and addresses of single downloads.
 */
import { AppError, ConflictError, InvalidRequestError } from '#base/errors/errors.js'
import type { Clock } from '#base/util/clock.js'
import type { EndpointTable } from '#contract/endpoints/table.js'
import { networkOf } from '../connections/network.js'
import type { AppOptions, RequestContext } from '../environment.js'
import { handlers } from '../handlers.js'
import { sendsFile } from '../middleware/auth.js'

/** Wrong codes of one client in a minute, after which each further wrong one is told to wait. */
const MOST_WRONG = 5
const MINUTE_MS = 60_000
/** Clients that are remembered at once. */
const MOST_PEERS = 1000

export function sessionHandlers({ services: { sessions, downloads }, table, publicAddress, home, clock }: AppOptions) {
  const wrongCodes = createFailureLimit(clock)
  const fileRoutes = fileRoutesOf(table)
  return handlers({
    'POST /v1/preview/sessions': async ({ principal, body, c }) => {
      const created = await sessions.create(principal, await body())
      forgetAnswer(c)
      return created
    },
    'GET /v1/preview/sessions': ({ principal, query }) => sessions.list(principal, query()),
    'DELETE /v1/preview/sessions/{session_id}': ({ principal, params }) =>
      sessions.delete(principal, params.session_id),
    'POST /v1/preview/sessions/codes': async ({ principal, c }) => {
      if (home === null) {
        throw new ConflictError('ui_not_served', 'this server has no page for browsers', {
          hint: 'it was started with --no-ui; POST /v1/preview/sessions begins a session with a key',
        })
      }
      const { code, expiresAt } = await sessions.createCode(principal)
      forgetAnswer(c)
      return { object: 'session.code', code, url: withCode(publicAddress.of(c) + home, code), expires_at: expiresAt }
    },
    'POST /v1/preview/sessions/exchange': async ({ body, c }) => {
      const request = await body()
      forgetAnswer(c)
      try {
        return await sessions.exchange(request)
      } catch (error) {
        // a right code opens whatever others at the same address got wrong
        if (error instanceof AppError && error.code === 'invalid_code') wrongCodes.note(publicAddress.clientOf(c) ?? '')
        throw error
      }
    },
    'POST /v1/preview/downloads': async ({ principal, body, c }) => {
      const address = readFileAddress((await body()).path, fileRoutes)
      const made = await downloads.create(principal, address)
      forgetAnswer(c)
      return { object: 'download', url: publicAddress.of(c) + made.address, expires_at: made.expiresAt }
    },
  })
}

/** The page that begins a session by itself. A fragment stays in the browser: no log and no other page learns the code. */
const withCode = (page: string, code: string): string => `${page}#code=${code}`

/** A proxy must not keep the one answer that holds a secret. */
function forgetAnswer(c: RequestContext): void {
  c.header('cache-control', 'no-store')
}

interface FileRoute {
  readonly path: string
  readonly pattern: RegExp
}

function fileRoutesOf({ routes }: EndpointTable): readonly FileRoute[] {
  return routes.filter(sendsFile).map(({ path }) => ({
    path,
    pattern: new RegExp(`^${path.replaceAll(/\{\w+\}/g, '[^/]+')}$`),
  }))
}

/**
 * Path and query of a file, as the router will see them.
 *
 * @throws {InvalidRequestError} `not_downloadable`
 */
function readFileAddress(text: string, fileRoutes: readonly FileRoute[]): string {
  const url = text.startsWith('/') && URL.canParse(text, 'http://local') ? new URL(text, 'http://local') : null
  // what begins with two slashes is another server's
  const isOwn = url?.origin === 'http://local'
  if (url !== null && isOwn && fileRoutes.some(({ pattern }) => pattern.test(url.pathname))) {
    const query = url.searchParams.toString()
    return `${url.pathname}${query === '' ? '' : `?${query}`}`
  }
  throw new InvalidRequestError('not_downloadable', `"${text.slice(0, 200)}" is no path of a file`, {
    param: 'path',
    hint: `give the path and query of one of: ${fileRoutes.map(({ path }) => path).join(', ')}`,
  })
}

/** Counts what a client got wrong within a minute. */
function createFailureLimit(clock: Pick<Clock, 'monotonicMs'>) {
  const failures = new Map<string, number[]>()
  return {
    /** @throws {AppError} `too_many_wrong_codes` from the sixth on */
    note(address: string): void {
      const client = networkOf(address)
      const nowMs = clock.monotonicMs()
      const times = (failures.get(client) ?? []).filter((atMs) => nowMs - atMs < MINUTE_MS)
      const [first] = times
      if (first !== undefined && times.length >= MOST_WRONG) {
        const seconds = Math.max(1, Math.ceil((first + MINUTE_MS - nowMs) / 1000))
        throw new AppError('rate_limited', 'too_many_wrong_codes', `${MOST_WRONG} codes in a minute were wrong`, {
          hint: `a right code works at once; try another in ${seconds} s, or sign in with an API key`,
          details: { retry_after_seconds: seconds },
        })
      }
      // the last one noted comes last, so that the first is the oldest
      failures.delete(client)
      failures.set(client, [...times, nowMs])
      const [oldest] = failures.keys()
      if (failures.size > MOST_PEERS && oldest !== undefined) failures.delete(oldest)
    },
  }
}
