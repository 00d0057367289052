/**
 * `fetch` over `node:http`. The platform's own gives an answer up after 300 seconds without its head, and takes no setting: an
 * answer of a busy CPU may take longer. It also takes 120 ms of processor time before its first request on Node 20 (it
 * compiles its HTTP parser); this takes 10, and half of all command lines are a single request.
 *
 * Bodies that are neither text nor bytes (uploads) go to the platform's `fetch`. As our client asks of it, redirects are an error: a
 * service has none.
 */
import { type IncomingMessage, request as requestHttp } from 'node:http'
import { Readable } from 'node:stream'
import type { ReadableStream as NodeReadableStream } from 'node:stream/web'

/** The part of `fetch` that is used; tests and in-process servers pass their own. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>

/** Sends a request; rejects with a `TypeError` whose cause is the network's error, as `fetch` does. */
export const lightFetch: Fetch = async (url, init) => {
  const { body = null } = init
  if (body !== null && typeof body !== 'string' && !(body instanceof Uint8Array)) return await fetch(url, init)
  const answer = await send(url, { ...init, body })
  const status = answer.statusCode ?? 0
  if (status >= 300 && status < 400 && status !== 304) {
    answer.destroy()
    throw new TypeError('fetch failed', {
      cause: new Error(`unexpected redirect to ${answer.headers.location ?? '?'}`),
    })
  }
  const headers = new Headers()
  for (const [name, value] of Object.entries(answer.headersDistinct)) {
    for (const each of value ?? []) headers.append(name, each)
  }
  const isEmpty = status === 204 || status === 304
  if (isEmpty) answer.resume()
  const stream = isEmpty ? null : toWebStream(answer)
  return new Response(stream, { status, statusText: answer.statusMessage ?? '', headers })
}

/** The JSON a URL answers with, whatever its status; for commands that need no more than that. */
export async function getJson(url: string, signal: AbortSignal): Promise<unknown> {
  const answer = await send(url, { method: 'GET', headers: { accept: 'application/json' }, signal, body: null })
  const pieces: Buffer[] = []
  for await (const piece of answer) pieces.push(piece as Buffer)
  return JSON.parse(Buffer.concat(pieces).toString('utf8'))
}

async function send(
  url: string,
  init: RequestInit & { readonly body: string | Uint8Array | null },
): Promise<IncomingMessage> {
  const request = url.startsWith('https:') ? (await import('node:https')).request : requestHttp
  // the class costs as much as all else here, and our client passes a plain object
  const given = init.headers ?? {}
  const headers: Record<string, string> = Object.fromEntries(Symbol.iterator in given ? given : Object.entries(given))
  if (init.body !== null) headers['content-length'] = String(Buffer.byteLength(init.body))
  return await new Promise((resolve, reject) => {
    const outgoing = request(url, {
      method: init.method ?? 'GET',
      headers,
      ...(init.signal === null || init.signal === undefined ? {} : { signal: init.signal }),
    })
    outgoing.on('response', resolve)
    outgoing.on('error', (cause) => {
      reject(init.signal?.aborted === true ? init.signal.reason : new TypeError('fetch failed', { cause }))
    })
    outgoing.end(init.body ?? undefined)
  })
}

/** Node's and the platform's stream types name the same class. */
function toWebStream(answer: IncomingMessage): ReadableStream<Uint8Array> {
  const stream: NodeReadableStream<Uint8Array> = Readable.toWeb(answer)
  return stream as ReadableStream<Uint8Array>
}
