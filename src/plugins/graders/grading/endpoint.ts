/**
 * `endpoint`: a server elsewhere scores an answer. It is sent `{sample, item, trace_id}` and answers `{score}`.
 *
 * Bodies are at most 1 MB, a try ends after ten minutes, and what is busy, broken or away is tried three times more.
 * `${NAME}` in a header is a variable that whoever runs the grader allows. `rate_limit` is read as calls begun in a
 * second: its publisher does not say.
 */
import { request as plainRequest } from 'node:http'
import { request as secureRequest } from 'node:https'
import { setTimeout as sleep } from 'node:timers/promises'
import { stringifyExact } from '#base/json/exact-json.js'
import { type Clock, systemClock } from '#base/util/clock.js'
import { systemIds } from '#base/util/ids.js'
import { requestOptionsAt } from '#base/util/public-address.js'
import { GradingError } from './grade-errors.js'
import type { EndpointGrader } from './spec.js'
import type { Namespaces } from './template.js'

/** What an endpoint is reached by. */
export interface EndpointAccess {
  /** The address to connect to; null: as its name is resolved. What it throws refuses the endpoint. */
  address(url: string, signal: AbortSignal): Promise<string | null>
  /** The value of a variable that headers may name; undefined: none may. */
  variable(name: string): string | undefined
  readonly pacer: Pacer
  /** Tests shorten them. */
  readonly times?: { readonly timeoutMs: number; readonly retryMs: number }
}

/** Keeps calls of one endpoint apart. */
interface Pacer {
  /** Resolves when it is this call's turn. */
  turn(url: string, perSecond: number, signal: AbortSignal | undefined): Promise<void>
}

const MOST_BYTES = 1_000_000
const RETRIES = 3
const TIMES = { timeoutMs: 600_000, retryMs: 1000 }
/** Endpoints whose last call is remembered. */
const MOST_PACED = 1000

export function createPacer(clock: Pick<Clock, 'monotonicMs'> = systemClock): Pacer {
  const next = new Map<string, number>()
  return {
    async turn(url, perSecond, signal) {
      const nowMs = clock.monotonicMs()
      const atMs = Math.max(nowMs, next.get(url) ?? 0)
      next.delete(url)
      next.set(url, atMs + 1000 / perSecond)
      const [oldest] = next.keys()
      if (next.size > MOST_PACED && oldest !== undefined) next.delete(oldest)
      if (atMs > nowMs) await sleep(atMs - nowMs, undefined, { ...(signal === undefined ? {} : { signal }) })
    },
  }
}

/** @throws {GradingError} `unresponsive_reward_error` where no answer came, `other_error` for one that is no score */
export async function gradeByEndpoint(
  grader: EndpointGrader,
  { item, sample }: Namespaces,
  { access, signal }: { readonly access: EndpointAccess; readonly signal?: AbortSignal | undefined },
): Promise<number> {
  const { timeoutMs, retryMs } = access.times ?? TIMES
  const body = stringifyExact({ sample, item, trace_id: systemIds.uuid() })
  if (Buffer.byteLength(body) > MOST_BYTES)
    throw new GradingError('other_error', `row and answer have more than ${MOST_BYTES} bytes`)
  const headers = Object.fromEntries(
    Object.entries(grader.headers).map(([name, value]) => [name, fillIn(value, access)] as const),
  )
  for (let tried = 0; ; tried += 1) {
    if (grader.perSecond !== null) await access.pacer.turn(grader.url, grader.perSecond, signal)
    const ending = AbortSignal.timeout(timeoutMs)
    const both = signal === undefined ? ending : AbortSignal.any([signal, ending])
    const answer = await postJson(grader.url, {
      address: await access.address(grader.url, both),
      headers,
      body,
      signal: both,
    }).catch((error: unknown) => (ending.aborted ? `no answer within ${timeoutMs} ms` : sayOf(error)))
    signal?.throwIfAborted()
    if (typeof answer !== 'string') {
      if (answer.status >= 200 && answer.status < 300) return readScore(answer.text)
      if (answer.status < 500 && answer.status !== 429) {
        throw new GradingError('other_error', `the endpoint answered ${answer.status}: ${answer.text.slice(0, 200)}`)
      }
    }
    if (tried >= RETRIES) {
      const why = typeof answer === 'string' ? answer : `it answered ${answer.status}`
      throw new GradingError('unresponsive_reward_error', `the endpoint gave no score in ${tried + 1} tries: ${why}`)
    }
    await sleep(retryMs * 2 ** tried, undefined, { ...(signal === undefined ? {} : { signal }) })
  }
}

/** Also of errors that hold several, as of a host with two addresses. */
function sayOf(error: unknown): string {
  const { message, code } = error as { readonly message?: string; readonly code?: string }
  return message === undefined || message === '' ? (code ?? 'the connection broke') : message
}

function fillIn(value: string, access: EndpointAccess): string {
  return value.replaceAll(/\$\{(\w+)\}/g, (_, name: string) => {
    const variable = access.variable(name)
    if (variable !== undefined) return variable
    throw new GradingError('other_error', `a header names the variable ${name}, which is not set or not allowed`)
  })
}

function readScore(text: string): number {
  let score: unknown
  try {
    score = (JSON.parse(text) as { readonly score?: unknown } | null)?.score
  } catch {
    score = undefined
  }
  if (typeof score === 'number' && Number.isFinite(score)) return score
  throw new GradingError(
    'other_error',
    `the endpoint must answer {"score": …} with a number, got ${text.slice(0, 200)}`,
  )
}

/** Posts JSON to an address that was checked. Redirects are not followed, and the answer is bounded. */
export function postJson(
  text: string,
  options: {
    readonly address: string | null
    readonly headers: Readonly<Record<string, string>>
    readonly body: string
    readonly signal: AbortSignal
  },
): Promise<{ readonly status: number; readonly text: string }> {
  const url = new URL(text)
  const { address, headers, body, signal } = options
  const { headers: host, ...place } = requestOptionsAt(url, address)
  return new Promise((resolve, reject) => {
    const send = url.protocol === 'https:' ? secureRequest : plainRequest
    const all = {
      'content-type': 'application/json',
      ...headers,
      ...host,
      'content-length': String(Buffer.byteLength(body)),
    }
    const request = send({ ...place, method: 'POST', headers: all, agent: false, signal }, (response) => {
      const pieces: Buffer[] = []
      let size = 0
      response.on('data', (piece: Buffer) => {
        size += piece.length
        pieces.push(piece)
        if (size > MOST_BYTES) response.destroy(new Error(`it answered more than ${MOST_BYTES} bytes`))
      })
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, text: Buffer.concat(pieces).toString('utf8') }),
      )
      response.on('error', reject)
    })
    request.on('error', reject)
    request.end(body)
  })
}
