/**
 * One request to an engine node: sent, read chunk by chunk, cut off. Knows HTTP and server-sent events, not what chunks mean.
 */
import { type ClientRequest, Agent as HttpAgent, type IncomingMessage, request as requestHttp } from 'node:http'
import { Agent as HttpsAgent, request as requestHttps } from 'node:https'
import type { GenerateChunk, GenerateWhole } from '#contract/processes/token-wire.js'

export interface NodeAddress {
  readonly url: string
  readonly token: string
}

/** Called in order, `ended` once and last. */
export interface NodeListener {
  /** One event of the stream. */
  chunk(chunk: GenerateChunk): void
  /** The answer in one piece. */
  whole(answer: GenerateWhole): void
  /** @param failure null: the stream came to its end */
  ended(failure: NodeFailure | null): void
}

/** Why there is no answer, or no more of it. */
export type NodeFailure =
  /** The node was not reached, or is gone. @param reason as the end of a sentence about it */
  | { readonly kind: 'lost'; readonly reason: string }
  /** It answered with an error. */
  | { readonly kind: 'refused'; readonly status: number; readonly body: string }

export interface NodeRequest {
  /** Gives the answer up: nothing is heard any more, and the node stops computing it. */
  cut(): void
  /** The same, told as a failure: the node counts as gone. */
  lose(reason: string): void
}

/** Connections stay open for the next request. A place is no scarce thing here: the node itself says who waits. */
const AGENT_OPTIONS = { keepAlive: true, maxSockets: Number.POSITIVE_INFINITY, maxFreeSockets: 64 }
const agents = { http: new HttpAgent(AGENT_OPTIONS), https: new HttpsAgent(AGENT_OPTIONS) }
/** Largest error that is read. */
const MAX_ERROR_CHARACTERS = 100_000
const END_OF_EVENT = '\n\n'

/** @param adapter digest the node has to hold; null: none */
export function sendToNode(
  { url, token }: NodeAddress,
  { body, adapter }: { readonly body: string; readonly adapter: string | null },
  listener: NodeListener,
): NodeRequest {
  let isOver = false
  const end = (failure: NodeFailure | null): void => {
    if (isOver) return
    isOver = true
    listener.ended(failure)
  }
  const request = open(url, token, { body, adapter })
  request.once('error', (error) => end({ kind: 'lost', reason: `was not reached: ${error.message}` }))
  request.once('response', (response) => {
    response.setEncoding('utf8')
    response.once('error', (error) => end({ kind: 'lost', reason: `broke off: ${error.message}` }))
    response.once('close', () => end({ kind: 'lost', reason: 'broke off' }))
    if (response.statusCode !== 200)
      readAll(response, (text) => end({ kind: 'refused', status: response.statusCode ?? 0, body: text }))
    else if ((response.headers['content-type'] ?? '').startsWith('text/event-stream'))
      readEvents(response, { listener, end, isOver: () => isOver })
    else
      readAll(response, (text) => {
        if (isOver) return
        listener.whole(JSON.parse(text) as GenerateWhole)
        end(null)
      })
  })
  request.end(body)
  const drop = (): void => {
    request.destroy()
  }
  return {
    cut: () => {
      isOver = true
      drop()
    },
    lose: (reason) => {
      end({ kind: 'lost', reason })
      drop()
    },
  }
}

function open(
  url: string,
  token: string,
  sent: { readonly body: string; readonly adapter: string | null },
): ClientRequest {
  const address = new URL('/inference/v1/generate', url)
  const isSecure = address.protocol === 'https:'
  const send = isSecure ? requestHttps : requestHttp
  return send(address, {
    method: 'POST',
    agent: isSecure ? agents.https : agents.http,
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(sent.body),
      ...(sent.adapter === null ? {} : { 'x-trainyard-adapter': sent.adapter }),
    },
  })
}

function readAll(response: IncomingMessage, done: (text: string) => void): void {
  const parts: string[] = []
  let length = 0
  const isError = response.statusCode !== 200
  response.on('data', (part: string) => {
    length += part.length
    if (!isError || length <= MAX_ERROR_CHARACTERS) parts.push(part)
  })
  response.once('end', () => done(parts.join('')))
}

function readEvents(
  response: IncomingMessage,
  {
    listener,
    end,
    isOver,
  }: {
    readonly listener: NodeListener
    readonly end: (failure: NodeFailure | null) => void
    readonly isOver: () => boolean
  },
): void {
  let unread = ''
  response.on('data', (part: string) => {
    unread += part
    for (;;) {
      const at = unread.indexOf(END_OF_EVENT)
      if (at < 0 || isOver()) return
      const event = unread.slice(0, at)
      unread = unread.slice(at + END_OF_EVENT.length)
      if (!event.startsWith('data: ')) continue
      const data = event.slice('data: '.length)
      if (data === '[DONE]') end(null)
      else listener.chunk(JSON.parse(data) as GenerateChunk)
    }
  })
}
