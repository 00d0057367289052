/**
 * Passes a call on to the upstream of a route and its answer back, and offers what it saw to the recorder.
 *
 * Whose call it is says a key of ours: as `X-Trainyard-Key`, or where the upstream's would stand; ours never goes on. Programs
 * of this machine need none for routes that are theirs. The client's own key for the upstream passes by and is held nowhere.
 */
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { AppError, NotFoundError } from '#base/errors/errors.js'
import { command } from '#contract/wire/command-words.js'
import { withBody } from '#service/http/body.js'
import type { AppOptions, RequestContext } from '#service/http/environment.js'
import { connectionOf } from '#service/http/event-stream.js'
import { sendFile } from '#service/http/file-answer.js'
import { limitRequests } from '#service/http/middleware/rate-limit.js'
import { noteOwner } from '#service/http/owner.js'
import { requireScope } from '#service/operations/access/tenant.js'
import type { ServiceContext } from '#service/operations/context.js'
import type { EndedCall, Recorder } from './record/recorder.js'
import { type CallForm, type CallOutcome, formOf, type GatewayRoute } from './route.js'
import { findLocalRoute, findRoute } from './storage/routes.js'
import { headersToAnswer, headersToSend, type Upstream } from './upstream.js'

interface PassParts {
  readonly upstream: Upstream
  readonly recorder: Recorder
  /** Between 0 and 1. */
  readonly draw: () => number
  /** The value of a variable that routes may name for this origin; null: they may not, or it is empty. */
  readonly keyOf: (variable: string, origin: string) => string | null
}

export type Pass = (c: RequestContext, reference: string) => Promise<Response>

/** How an answer ended for the one who passes it on. */
type End = 'whole' | 'cut' | 'cancelled'

/** A stream is many times as long as what it says. */
const STREAM_FACTOR = 32
const MOST_HELD_BYTES = 32 * 1024 ** 2

export function createPass(
  { db, clock }: Pick<ServiceContext, 'db' | 'clock'>,
  { services, limits, countServers }: Pick<AppOptions, 'services' | 'limits' | 'countServers'>,
  { upstream, recorder, draw, keyOf }: PassParts,
): Pass {
  const limit = limitRequests({ limits, clock, countServers })

  async function routeOf(c: RequestContext, reference: string, ownKey: string | null): Promise<GatewayRoute> {
    if (ownKey !== null) {
      const principal = await services.auth.authenticate(`Bearer ${ownKey}`)
      requireScope(principal, 'read')
      services.usage.noteKey(principal.keyId)
      c.set('principal', principal)
      noteOwner(c, principal.entity)
      const found = await findRoute(db, principal, reference)
      if (found === null) throw noRoute(reference)
      return found
    }
    const local = isOfThisMachine(c) ? await findLocalRoute(db, reference) : null
    if (local === null) {
      throw new AppError(
        'authentication',
        'missing_api_key',
        'a call on a route of the gateway needs a key of this server',
        {
          hint: 'send it as X-Trainyard-Key beside the upstream’s own key; a route with access "local" takes programs of its machine without one',
        },
      )
    }
    noteOwner(c, local.entity)
    return local
  }

  async function send(c: RequestContext, route: GatewayRoute, path: string, signal: AbortSignal) {
    const body = c.req.method === 'POST' ? await bytesOf(c) : null
    const headers: Record<string, string> = headersToSend(c.req.raw.headers)
    for (const name of CREDENTIALS) if (isOurs(headers[name])) delete headers[name]
    const url = new URL(`${route.spec.upstream}/${path}${new URL(c.req.url).search}`)
    if (CREDENTIALS.every((name) => headers[name] === undefined))
      Object.assign(headers, storedKey(c, route, { path, keyOf }))
    if (body !== null) headers['content-length'] = String(body.length)
    const { method } = c.req
    return { body, response: await upstream.send({ url, method, headers, body, signal, entity: route.entity }) }
  }

  async function passOn(c: RequestContext, route: GatewayRoute): Promise<Response> {
    const startMs = clock.monotonicMs()
    const startedAtMs = clock.nowMs()
    const path = pathBelow(c)
    const form = formOf(c.req.method, path)
    const gone = new AbortController()
    const onGone = (): void => gone.abort()
    const connection = connectionOf(c)
    connection?.once('close', onGone)
    c.req.raw.signal.addEventListener('abort', onGone, { once: true })
    const { body, response } = await send(c, route, path, gone.signal)
    const isRecorded = form !== null && body !== null && draw() < route.spec.sample
    if (!isRecorded && form !== null) recorder.count(route.id)
    const tap = createTap(isRecorded ? heldBytesOf(route) : 0)
    let firstByteMs: number | null = null
    const onPart = (part: Uint8Array): void => {
      firstByteMs ??= clock.monotonicMs() - startMs
      tap.add(part)
    }
    const onEnd = (end: End): void => {
      connection?.off('close', onGone)
      if (!isRecorded) return
      recorder.offer({
        ...factsOf({ route, form, body, response, end: end !== 'whole' && gone.signal.aborted ? 'cancelled' : end }),
        ...{ answer: tap.parts, isLonger: tap.isLonger() },
        ...{ firstByteMs, startedAtMs, durationMs: clock.monotonicMs() - startMs },
      })
    }
    return answer(c, response, { onPart, onEnd })
  }

  return async (c, reference) => {
    const route = await routeOf(c, reference, ownKeyOf(c))
    let passed = new Response(null)
    // a key is known only now, and may ask for no more at once here than elsewhere
    await limit(c, async () => {
      passed = await passOn(c, route)
    })
    return passed
  }
}

/** The key that the server has for the route's upstream, in the header that its format reads. */
function storedKey(
  c: RequestContext,
  { spec }: GatewayRoute,
  { path, keyOf }: { readonly path: string; readonly keyOf: PassParts['keyOf'] },
): Record<string, string> {
  if (spec.keyVariable === null) return {}
  const { origin } = new URL(spec.upstream)
  const key = keyOf(spec.keyVariable, origin)
  if (key === null) {
    throw new AppError(
      'unavailable',
      'upstream_key_missing',
      `the server has no key in ${spec.keyVariable} for ${origin}`,
      {
        hint: command`start it with that variable set and trainyard serve --gateway-key ${`${spec.keyVariable}=${origin}`}`,
      },
    )
  }
  const isAnthropic = c.req.header('anthropic-version') !== undefined || /^messages\b/.test(path)
  return isAnthropic ? { 'x-api-key': key } : { authorization: `Bearer ${key}` }
}

function factsOf(call: {
  readonly route: GatewayRoute
  readonly form: CallForm
  readonly body: Uint8Array
  readonly response: IncomingMessage
  readonly end: End
}): Pick<EndedCall, 'route' | 'form' | 'status' | 'outcome' | 'isStream' | 'encoding' | 'request'> {
  const { route, form, body, response, end } = call
  const status = response.statusCode ?? 0
  const whole: CallOutcome = status >= 400 ? 'refused' : 'complete'
  return {
    ...{ route, form, status, request: body },
    outcome: end === 'whole' ? whole : end,
    isStream: /^text\/event-stream\b/i.test(response.headers['content-type'] ?? ''),
    encoding: response.headers['content-encoding']?.trim().toLowerCase() ?? null,
  }
}

/** Hands the answer back at the client's pace. Where the upstream breaks off, so does the answer. */
function answer(
  c: RequestContext,
  response: IncomingMessage,
  { onPart, onEnd }: { onPart(part: Uint8Array): void; onEnd(end: End): void },
): Response {
  async function* seen(): AsyncGenerator<Uint8Array> {
    let end: End = 'cancelled'
    try {
      for await (const part of response as AsyncIterable<Uint8Array>) {
        onPart(part)
        yield part
      }
      end = 'whole'
    } catch (error) {
      end = 'cut'
      throw error
    } finally {
      onEnd(end)
    }
  }
  const status = response.statusCode ?? 502
  const headers = { 'x-trainyard-request-id': c.get('requestId'), ...headersToAnswer(response) }
  if (NO_BODY.includes(status)) {
    response.resume()
    onEnd('whole')
    return c.body(null, status as 204, headers)
  }
  const sent = sendFile(c, Readable.from(seen()), headers, status as 200)
  // with the first part would be late, where that takes its time
  connectionOf(c)?.flushHeaders()
  // a status that logs and counts see: what is sent is sent
  return sent.body === null ? new Response(null, { status, headers: sent.headers }) : sent
}

const NO_BODY: readonly number[] = [204, 304]

/** Keeps parts of an answer up to a limit. */
function createTap(mostBytes: number) {
  const parts: Uint8Array[] = []
  let bytes = 0
  return {
    parts,
    isLonger: () => bytes > mostBytes,
    add: (part: Uint8Array): void => {
      bytes += part.length
      // a copy: what was sent gives its memory back
      if (bytes <= mostBytes) parts.push(Uint8Array.from(part))
      else parts.length = 0
    },
  }
}

const heldBytesOf = ({ spec }: GatewayRoute): number => Math.min(spec.maxCallBytes * STREAM_FACTOR, MOST_HELD_BYTES)

async function bytesOf(c: RequestContext): Promise<Uint8Array> {
  const bodies = c.get('bodies')
  return withBody(c, { maxBytes: bodies.limits.chatBytes }, async (body) => bodies.bytesOf(body))
}

/** As it was sent, with what is encoded in it. */
function pathBelow(c: RequestContext): string {
  const found = /\/gateway\/[^/]+\/v1\/(.+)$/.exec(new URL(c.req.url).pathname)?.[1]
  if (found === undefined) throw new NotFoundError('not_found', 'the path leads out of the route')
  return found
}

const CREDENTIALS = ['authorization', 'x-api-key', 'api-key'] as const

/** Keys of ours, also in front of which a client of training loops puts its own word. */
function isOurs(value: string | undefined): boolean {
  return value !== undefined && /^(?:bearer +)?(?:tml-)?ty[a-z]*_/i.test(value.trim())
}

function ownKeyOf(c: RequestContext): string | null {
  const said = c.req.header('x-trainyard-key')?.trim()
  if (said !== undefined && said !== '') return said.replace(/^bearer +/i, '')
  const found = CREDENTIALS.map((name) => c.req.header(name)?.trim()).find(isOurs)
  return found === undefined ? null : found.replace(/^bearer +/i, '')
}

/** Whether it comes from this machine, and not through a proxy on it. */
function isOfThisMachine(c: RequestContext): boolean {
  const proxied = ['forwarded', 'x-forwarded-for', 'x-real-ip', 'via'].some((name) => c.req.header(name) !== undefined)
  const { incoming } = (c.env ?? {}) as {
    readonly incoming?: { readonly socket?: { readonly remoteAddress?: string } }
  }
  const address = incoming?.socket?.remoteAddress
  return !proxied && address !== undefined && /^(?:::ffff:)?127\.|^::1$/.test(address)
}

function noRoute(reference: string): NotFoundError {
  return new NotFoundError('route_not_found', `there is no route "${reference.slice(0, 100)}" of this key`, {
    param: 'route',
    hint: 'trainyard routes list shows the routes of a key',
  })
}
