/**
 * One request to an engine node: sent, read chunk by chunk, cut off. Knows HTTP and server-sent events, not what chunks mean.
 */
import { type ClientRequest, Agent as HttpAgent, type IncomingMessage, request as requestHttp } from 'node:http'
import { Agent as HttpsAgent, request as requestHttps } from 'node:https'
import { requestOptionsAt } from '#base/util/public-address.js'
import {
  type GenerateChunk,
  type GenerateWhole,
  generateChunkSchema,
  generateWholeSchema,
} from '#contract/processes/token-wire.js'
import type { AnswerLimits } from './answer-limits.js'

export interface NodeAddress {
  readonly url: string
  readonly token: string
  /** See `EngineNode`. */
  readonly address: string | null
}

/** Called in order, `ended` once and last. What it throws at `chunk` and `whole` says that the answer is none. */
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
  /** The node was not reached, or is gone. @param reason as the end of a sentence about it; @param detail what the system says of it */
  | { readonly kind: 'lost'; readonly reason: string; readonly detail?: string }
  /** It answered with an error. */
  | { readonly kind: 'refused'; readonly status: number; readonly body: string }

export interface NodeRequest {
  /** Gives the answer up: nothing is heard any more, and the node stops computing it. */
  cut(): void
  /** All that is wanted has come: nothing is heard any more, and the connection stays for the next request. */
  leave(): void
  /** The same, told as a failure: the node counts as gone. */
  lose(reason: string): void
}

/** Connections stay open for the next request. A place is no scarce thing here: the node itself says who waits. */
const AGENT_OPTIONS = { keepAlive: true, maxSockets: Number.POSITIVE_INFINITY, maxFreeSockets: 64 }
const agents = { http: new HttpAgent(AGENT_OPTIONS), https: new HttpsAgent(AGENT_OPTIONS) }
/** Largest error that is read. */
const MAX_ERROR_CHARACTERS = 16_384
const END_OF_EVENT = '\n\n'
/** How long an answer that is complete may take to say so; then its connection is given up. */
const LEAVE_MS = 1000

export interface SentRequest {
  readonly body: string
  /** Digest of what the node has to hold; null: nothing. */
  readonly adapter: string | null
  /** More than that ends the request. */
  readonly limits: Pick<AnswerLimits, 'eventCharacters' | 'answerCharacters' | 'pieceCharacters'>
}

export function sendToNode(node: NodeAddress, sent: SentRequest, listener: NodeListener): NodeRequest {
  let isOver = false
  const end = (failure: NodeFailure | null): void => {
    if (isOver) return
    isOver = true
    listener.ended(failure)
  }
  const { limits } = sent
  const request = open(node, sent)
  /** Nothing that a node sends may end more than the request: what it computes for others goes on. */
  const deliver = (take: () => void): void => {
    if (isOver) return
    try {
      take()
    } catch {
      end({ kind: 'lost', reason: 'answered with what is no answer' })
      request.destroy()
    }
  }
  request.once('error', ({ message }) => end({ kind: 'lost', reason: 'was not reached', detail: message }))
  request.once('response', (response) => {
    response.setEncoding('utf8')
    response.once('error', ({ message }) => end({ kind: 'lost', reason: 'broke off', detail: message }))
    response.once('close', () => end({ kind: 'lost', reason: 'broke off' }))
    if (response.statusCode !== 200) {
      const refused = (text: string): void => end({ kind: 'refused', status: response.statusCode ?? 0, body: text })
      readAll(response, { deliver, maxCharacters: MAX_ERROR_CHARACTERS }, refused)
    } else if ((response.headers['content-type'] ?? '').startsWith('text/event-stream'))
      readEvents(response, { listener, end, deliver, limits, isOver: () => isOver })
    else
      readAll(response, { deliver, maxCharacters: limits.pieceCharacters }, (text) => {
        listener.whole(generateWholeSchema.parse(JSON.parse(text)))
        end(null)
      })
  })
  request.end(sent.body)
  const drop = (): void => {
    request.destroy()
  }
  return {
    cut: () => {
      isOver = true
      drop()
    },
    leave: () => {
      isOver = true
      const timer = setTimeout(drop, LEAVE_MS)
      request.once('close', () => clearTimeout(timer))
    },
    lose: (reason) => {
      end({ kind: 'lost', reason })
      drop()
    },
  }
}

function open({ url, token, address }: NodeAddress, sent: SentRequest): ClientRequest {
  const target = new URL('/inference/v1/generate', url)
  const isSecure = target.protocol === 'https:'
  const send = isSecure ? requestHttps : requestHttp
  const options = requestOptionsAt(target, address)
  return send({
    ...options,
    method: 'POST',
    agent: isSecure ? agents.https : agents.http,
    headers: {
      ...options.headers,
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(sent.body),
      ...(sent.adapter === null ? {} : { 'x-trainyard-adapter': sent.adapter }),
    },
  })
}

/** Runs what reads a part of the answer, and ends the request where it throws. */
type Deliver = (take: () => void) => void

function readAll(
  response: IncomingMessage,
  { deliver, maxCharacters }: { readonly deliver: Deliver; readonly maxCharacters: number },
  done: (text: string) => void,
): void {
  const parts: string[] = []
  let length = 0
  response.on('data', (part: string) => {
    length += part.length
    if (length <= maxCharacters) parts.push(part)
    deliver(() => assertBounded(length, maxCharacters))
  })
  response.once('end', () => deliver(() => done(parts.join(''))))
}

function readEvents(
  response: IncomingMessage,
  {
    listener,
    end,
    deliver,
    limits,
    isOver,
  }: {
    readonly listener: NodeListener
    readonly end: (failure: NodeFailure | null) => void
    readonly deliver: Deliver
    readonly limits: SentRequest['limits']
    readonly isOver: () => boolean
  },
): void {
  // an event in many parts is put together once
  let parts: string[] = []
  let length = 0
  let answerLength = 0
  response.on('data', (part: string) => {
    if (isOver()) return
    answerLength += part.length
    deliver(() => assertBounded(answerLength, limits.answerCharacters))
    if (isOver()) return
    const last = parts.at(-1)?.at(-1) ?? ''
    parts.push(part)
    length += part.length
    if (!(last + part).includes(END_OF_EVENT)) {
      deliver(() => assertBounded(length, limits.eventCharacters))
      return
    }
    let unread = parts.join('')
    for (;;) {
      const at = unread.indexOf(END_OF_EVENT)
      if (at < 0 || isOver()) break
      const event = unread.slice(0, at)
      unread = unread.slice(at + END_OF_EVENT.length)
      if (!event.startsWith('data: ')) continue
      const data = event.slice('data: '.length)
      if (data === '[DONE]') end(null)
      else
        deliver(() => {
          assertBounded(data.length, limits.eventCharacters)
          listener.chunk(generateChunkSchema.parse(JSON.parse(data)))
        })
    }
    parts = [unread]
    length = unread.length
  })
}

function assertBounded(length: number, most: number): void {
  if (length > most) throw new RangeError(`an answer of more than ${most} characters`)
}
