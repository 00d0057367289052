/**
 * Reads large files directly from where the server stores them, for example a bucket. The client says in a header that it can; the
 * server then answers 302 with the address and the digest, and the client reads there.
 *
 * No header of the request is sent along, above all not the API key, and the bytes are checked against the digest. Where the address
 * cannot be reached, the server is asked again and sends the bytes itself.
 */
import { createHash } from 'node:crypto'
import { systemClock } from './clock.js'

/** Whoever sends it follows a 302 by itself. */
export const DIRECT_HEADER = 'x-trainyard-direct'

/** Whether an answer's bytes are compared with their digest only while they are read: the last of them says whether the first were right. */
export function isDirectAnswer(response: Response): boolean {
  return response.headers.has(DIRECT_HEADER)
}

export interface DirectReads {
  /** For a request that may be answered with an address. */
  headers(): Readonly<Record<string, string>>
  /**
   * @param response any answer of the server; one that is no 302 comes back as it is
   * @returns the bytes; null: not to be had there, so the server is to be asked again, without {@link headers}
   */
  follow(response: Response): Promise<Response | null>
}

/** A place that does not begin to answer is not reached. */
const ANSWER_MS = 10_000
const SHA256 = /^[0-9a-f]{64}$/
/** After which it is tried again. */
const PAUSE_MS = 10 * 60_000

/** @param onTrouble told the first time that a place is not reached, with why */
export function createDirectReads(onTrouble: (reason: string) => void): DirectReads {
  let pausedUntilMs = Number.NEGATIVE_INFINITY
  let isTold = false

  function trouble(origin: string, reason: string): null {
    pausedUntilMs = systemClock.monotonicMs() + PAUSE_MS
    if (!isTold) onTrouble(`${origin} ${reason}: the server is asked for the bytes instead`)
    isTold = true
    return null
  }

  return {
    headers: () => (systemClock.monotonicMs() < pausedUntilMs ? {} : { [DIRECT_HEADER]: '1' }),
    follow: async (response) => {
      if (response.status !== 302) return response
      const location = response.headers.get('location') ?? ''
      const sha256 = response.headers.get('x-content-sha256') ?? ''
      await response.body?.cancel()
      if (!URL.canParse(location)) return trouble('the server', 'named no address')
      if (!SHA256.test(sha256)) return trouble('the server', 'named no digest')
      const { origin } = new URL(location)
      const gone = new AbortController()
      const timer = setTimeout(() => gone.abort(new Error(`no answer within ${ANSWER_MS / 1000} s`)), ANSWER_MS)
      try {
        const answer = await fetch(location, { signal: gone.signal, redirect: 'error' })
        if (answer.ok && answer.body !== null) {
          const headers = { 'x-content-sha256': sha256, [DIRECT_HEADER]: '1' }
          const bytes = checked(answer.body, sha256, (reason) => trouble(origin, reason))
          return new Response(ReadableStream.from(bytes), { headers })
        }
        await answer.body?.cancel()
        return trouble(origin, `answers ${answer.status}`)
      } catch (error) {
        return trouble(origin, `is not reached (${reasonOf(error)})`)
      } finally {
        clearTimeout(timer)
      }
    },
  }
}

/**
 * Fails before the last of the bytes when they are not those of the digest, so that nobody takes them for whole; with a plain error, as a
 * connection that breaks, for both may go well in another try.
 */
async function* checked(
  body: AsyncIterable<Uint8Array>,
  sha256: string,
  onTrouble: (reason: string) => void,
): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256')
  let last: Uint8Array | null = null
  try {
    for await (const chunk of body) {
      if (last !== null) yield last
      hash.update(chunk)
      last = chunk
    }
  } catch (error) {
    onTrouble(`breaks off (${reasonOf(error)})`)
    throw error
  }
  if (hash.digest('hex') !== sha256) {
    const reason = `gives other bytes than those of blob ${sha256.slice(0, 12)}`
    onTrouble(reason)
    throw new Error(`where the server keeps its files, one ${reason}`)
  }
  if (last !== null) yield last
}

function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  return cause instanceof Error ? cause.message : String(cause)
}
