/**
 * Training data behind an `https:` address: fetched while the request that names it waits, under the rules of addresses.
 *
 * Every address on the way, redirects included, is checked and the connection goes to the address that was checked. What comes is
 * bounded in size; how long it may take follows from its pace: silence or a trickle ends it, a long file does not. Nothing of the
 * server travels but the request line.
 */
import { setMaxListeners } from 'node:events'
import { type IncomingMessage, request as plainRequest, type RequestOptions } from 'node:http'
import { request as secureRequest } from 'node:https'
import { isIP } from 'node:net'
import { AppError, InvalidRequestError } from '#base/errors/errors.js'
import { type AddressRules, createAddressRules, type NameService, type Refusal } from '../address-rules.js'

export interface RemoteDataOptions {
  /** Hosts (`name` or `name:port`) that may be private or plain http. */
  readonly allowedHosts: readonly string[]
  /** Shared by all that looks names up. Default: turns of its own. */
  readonly lookUp?: NameService
  readonly userAgent: string
  readonly maxBytes: number
  /** Longest silence: of a connection, before an answer, and between two pieces of it. Default 30 s. */
  readonly silenceMs?: number
  /** Slowest average pace once a silence has passed in all. Default 1,000. */
  readonly minBytesPerSecond?: number
  /** Certificates that are trusted; default the system's. */
  readonly ca?: string
}

/** What a fetch is about, for its errors. */
export interface RemoteAddress {
  readonly field: string
  readonly url: string
}

export interface RemoteData {
  /**
   * The bytes at an address as they arrive.
   *
   * @param key whose request names it
   * @throws {InvalidRequestError} `training_data_refused`, `training_data_unreachable`; {AppError} `too_large`, `queue_full`
   */
  open(key: string, address: RemoteAddress): AsyncGenerator<Uint8Array>
  /** Ends what is being fetched. */
  stop(): void
}

const MAX_REDIRECTS = 5
/** Each is one connection and one file that grows. */
const MOST_AT_ONCE = 16
/** An address that gives its bytes slowly holds its place for hours: those of one key leave places to others. */
const MOST_OF_ONE_KEY = 4

export function createRemoteData(options: RemoteDataOptions): RemoteData {
  const { silenceMs = 30_000, minBytesPerSecond = 1000, maxBytes } = options
  const closing = new AbortController()
  // each fetch listens, and each name that waits
  setMaxListeners(0, closing.signal)
  /** Keys of what is being fetched. */
  const fetching: string[] = []

  function assertPlace(key: string): void {
    const own = fetching.filter((other) => other === key).length
    if (own < MOST_OF_ONE_KEY && fetching.length < MOST_AT_ONCE) return
    const [count, whose] = own < MOST_OF_ONE_KEY ? [fetching.length, ''] : [own, ' for this key']
    throw new AppError('rate_limited', 'queue_full', `${count} addresses of training data are being fetched${whose}`, {
      hint: 'ask again later, or upload the data with POST /v1/files',
      details: { retry_after_seconds: 5 },
    })
  }

  async function* open(key: string, { field, url }: RemoteAddress): AsyncGenerator<Uint8Array> {
    assertPlace(key)
    fetching.push(key)
    try {
      const rules = createAddressRules(options.allowedHosts, refusalOf(field), options.lookUp)
      yield* read(await follow(rules, key, { field, url }), field)
    } catch (cause) {
      if (cause instanceof AppError) throw cause
      const reason = cause instanceof Error ? cause.message || String(Reflect.get(cause, 'code')) : String(cause)
      throw unreachable(field, reason, cause)
    } finally {
      fetching.splice(fetching.indexOf(key), 1)
    }
  }

  async function follow(rules: AddressRules, key: string, { field, url }: RemoteAddress): Promise<IncomingMessage> {
    let next = rules.check(url)
    for (let count = 0; count <= MAX_REDIRECTS; count += 1) {
      const answer = await get(next, await rules.resolve(next, key, closing.signal))
      const { location } = answer.headers
      const status = answer.statusCode ?? 0
      if ([301, 302, 303, 307, 308].includes(status) && location !== undefined) {
        answer.destroy()
        next = rules.check(URL.canParse(location, next.href) ? new URL(location, next).href : location)
        continue
      }
      if (status === 200) return answer
      answer.destroy()
      throw unreachable(field, `${next.host} answered ${status}`)
    }
    throw unreachable(field, `more than ${MAX_REDIRECTS} redirects`)
  }

  function get(url: URL, address: string): Promise<IncomingMessage> {
    const family = isIP(address)
    const settings: RequestOptions & { ca?: string } = {
      headers: { 'user-agent': options.userAgent, 'accept-encoding': 'identity', accept: '*/*' },
      // the address that was checked, whatever the name says by now
      lookup: (_host, wanted, done) => {
        if (wanted.all === true) done(null, [{ address, family }])
        else done(null, address, family)
      },
      agent: false,
      timeout: silenceMs,
      signal: closing.signal,
      ...(options.ca === undefined ? {} : { ca: options.ca }),
    }
    return new Promise((resolve, reject) => {
      const request = (url.protocol === 'https:' ? secureRequest : plainRequest)(url, settings, (answer) => {
        // from here on only the wait for a piece counts, not the time we take to store it
        request.setTimeout(0)
        resolve(answer)
      })
      request.on('timeout', () => request.destroy(silence()))
      request.on('error', reject)
      request.end()
    })
  }

  const silence = (): Error => new Error(`nothing came for ${silenceMs / 1000} s`)

  /** The body, bounded in size and pace; a connection that breaks off is an error, never a short file. */
  async function* read(answer: IncomingMessage, field: string): AsyncGenerator<Uint8Array> {
    if (Number(answer.headers['content-length'] ?? 0) > maxBytes) {
      answer.destroy()
      throw tooLarge(field, maxBytes)
    }
    let totalBytes = 0
    let waitedMs = 0
    const pieces = answer[Symbol.asyncIterator]()
    try {
      for (;;) {
        const sinceMs = performance.now()
        const timer = setTimeout(() => answer.destroy(silence()), silenceMs)
        const next = await pieces.next().finally(() => clearTimeout(timer))
        if (next.done === true) break
        waitedMs += Math.min(performance.now() - sinceMs, silenceMs)
        const bytes = next.value as Buffer
        totalBytes += bytes.length
        if (totalBytes > maxBytes) throw tooLarge(field, maxBytes)
        if (waitedMs > silenceMs && totalBytes * 1000 < waitedMs * minBytesPerSecond) {
          throw unreachable(field, `it came slower than ${minBytesPerSecond} bytes per second`)
        }
        yield bytes
      }
      if (!answer.complete) throw unreachable(field, 'the connection ended before the file did')
    } finally {
      answer.destroy()
    }
  }

  return { open, stop: () => closing.abort() }
}

function refusalOf(field: string): Refusal {
  return {
    code: 'training_data_refused',
    param: null,
    subject: field,
    flag: '--training-data-host',
    instead: 'upload the data with POST /v1/files',
  }
}

/** Without `param`, which would make it a 422: the hosted service answers 400 here. */
function unreachable(field: string, reason: string, cause?: unknown): InvalidRequestError {
  return new InvalidRequestError('training_data_unreachable', `${field} cannot be fetched: ${reason.slice(0, 300)}`, {
    hint: 'check that the address can be read without signing in, or upload the data with POST /v1/files',
    cause,
  })
}

function tooLarge(field: string, maxBytes: number): AppError {
  return new AppError('too_large', 'request_too_large', `${field} names more than ${maxBytes} bytes`, {
    details: { max_bytes: maxBytes },
  })
}
