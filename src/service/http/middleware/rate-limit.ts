/**
 * What one key may ask of the server: requests at once, and requests a minute. Beyond it 429 with `Retry-After`; with a limit by
 * minute every answer carries the `x-ratelimit-*-requests` headers of OpenAI's API.
 *
 * A minute's allowance is a bucket that fills evenly: a burst may use all of it, and then one request every few moments.
 */
import type { MiddlewareHandler } from 'hono'
import { AppError } from '#base/errors/errors.js'
import type { Clock } from '#base/util/clock.js'
import type { AppEnvironment, AppOptions, RequestContext } from '../environment.js'
import { connectionOf } from '../event-stream.js'

interface Bucket {
  tokens: number
  filledAtMs: number
}

/** The allowance of many keys, each with a bucket of its own. */
export interface RateLimiter {
  /** Takes one request. @returns what is left, and the time until the next one (0: now) and until the bucket is full */
  take(key: string): {
    readonly isAllowed: boolean
    readonly remaining: number
    readonly retryMs: number
    readonly fullMs: number
  }
}

/** Buckets are looked through when there are more than this: full ones say nothing. */
const MANY_BUCKETS = 1000

/** @param countServers of several servers each allows its part: a request takes more of a bucket that fills as fast. Default 1 */
export function createRateLimiter(
  perMinute: number,
  clock: Pick<Clock, 'monotonicMs'>,
  countServers: () => number = () => 1,
): RateLimiter {
  const buckets = new Map<string, Bucket>()
  const msPerToken = 60_000 / perMinute

  function dropFull(nowMs: number): void {
    if (buckets.size < MANY_BUCKETS) return
    for (const [key, { tokens, filledAtMs }] of buckets) {
      if (tokens + (nowMs - filledAtMs) / msPerToken >= perMinute) buckets.delete(key)
    }
  }

  return {
    take: (key) => {
      const nowMs = clock.monotonicMs()
      dropFull(nowMs)
      const bucket = buckets.get(key) ?? { tokens: perMinute, filledAtMs: nowMs }
      bucket.tokens = Math.min(perMinute, bucket.tokens + (nowMs - bucket.filledAtMs) / msPerToken)
      bucket.filledAtMs = nowMs
      // the part of each is one request at least
      const price = Math.min(perMinute, countServers())
      const isAllowed = bucket.tokens >= price
      if (isAllowed) bucket.tokens -= price
      buckets.set(key, bucket)
      return {
        isAllowed,
        remaining: Math.floor(bucket.tokens / price),
        retryMs: isAllowed ? 0 : Math.ceil((price - bucket.tokens) * msPerToken),
        fullMs: Math.ceil((perMinute - bucket.tokens) * msPerToken),
      }
    },
  }
}

/** Behind `bearerAuth`; requests without a key are not counted. */
export function limitRequests(
  options: Pick<AppOptions, 'limits' | 'clock' | 'countServers'>,
): MiddlewareHandler<AppEnvironment> {
  const { maxConcurrentRequests, requestsPerMinute } = options.limits
  const limiter =
    requestsPerMinute === null ? null : createRateLimiter(requestsPerMinute, options.clock, options.countServers)
  const running = new Map<string, number>()

  function release(key: string): void {
    const left = (running.get(key) ?? 1) - 1
    if (left === 0) running.delete(key)
    else running.set(key, left)
  }

  return async function limit(c, next) {
    const principal = c.get('principal') as AppEnvironment['Variables']['principal'] | undefined
    if (principal === undefined) return next()
    const { keyId } = principal
    if (limiter !== null) allow(c, limiter.take(keyId), requestsPerMinute ?? 0)
    const count = running.get(keyId) ?? 0
    if (count >= maxConcurrentRequests) {
      // the hosted service's words
      throw new AppError('rate_limited', 'concurrency_limit_reached', 'Concurrency limit reached for requests', {
        hint: `at most ${maxConcurrentRequests} requests of one API key run at once`,
        details: { max_concurrent_requests: maxConcurrentRequests, retry_after_seconds: 1 },
      })
    }
    running.set(keyId, count + 1)
    let isReleased = false
    const end = (): void => {
      if (!isReleased) release(keyId)
      isReleased = true
    }
    const connection = connectionOf(c)
    connection?.once('close', end)
    try {
      await next()
    } finally {
      // a stream runs on until its connection is done with it
      if (connection === null) end()
    }
  }
}

function allow(c: RequestContext, taken: ReturnType<RateLimiter['take']>, perMinute: number): void {
  c.header('x-ratelimit-limit-requests', String(perMinute))
  c.header('x-ratelimit-remaining-requests', String(taken.remaining))
  c.header('x-ratelimit-reset-requests', formatSeconds(taken.fullMs))
  if (taken.isAllowed) return
  c.header('retry-after-ms', String(taken.retryMs))
  throw new AppError(
    'rate_limited',
    'rate_limit_exceeded',
    `Rate limit reached for requests: ${perMinute} per minute for this API key`,
    {
      hint: `try again in ${formatSeconds(taken.retryMs)}`,
      details: { requests_per_minute: perMinute, retry_after_seconds: Math.max(1, Math.ceil(taken.retryMs / 1000)) },
    },
  )
}

/** As OpenAI writes them: `350ms`, `12s`, `1m0s`. */
function formatSeconds(timeMs: number): string {
  if (timeMs < 1000) return `${timeMs}ms`
  const seconds = Math.ceil(timeMs / 1000)
  return seconds < 60 ? `${seconds}s` : `${Math.floor(seconds / 60)}m${seconds % 60}s`
}
