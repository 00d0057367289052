/** Connections to an engine node: kept from one answer to the next, given up where the node would go on computing or never ends. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { createRoutedEngine, type RoutedEngine } from '#inference/remote/routed-engine.js'
import { GREEDY } from '../../../support/generation-rules.js'

const OWNER = { entity: 'local', project: null }
let server: Server
let engine: RoutedEngine
let connections: number
/** Answers as they were begun. */
let answers: ServerResponse[]
/** The same at the other end. */
let received: IncomingMessage[]
/** Of their only token. */
let finishReason: string | null

/** Published when the head of a response has come. */
const RESPONSES = 'http.client.response.finish'
function onResponse(message: unknown): void {
  received.push((message as { readonly response: IncomingMessage }).response)
}

beforeEach(async () => {
  connections = 0
  answers = []
  received = []
  subscribe(RESPONSES, onResponse)
  finishReason = 'length'
  server = createServer((request, response) => {
    request.resume().once('end', () => {
      answers.push(response)
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(`data: ${JSON.stringify({ choices: [{ ...TOKEN, finish_reason: finishReason }] })}\n\n`)
    })
  })
  server.on('connection', () => {
    connections += 1
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  engine = createRoutedEngine({
    ...{ baseModel: 'm', contextLength: 64, vocabularySize: 10, eosTokenIds: [2] },
    openLocal: null,
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const facts = { contextLength: 64, slots: 4, waiting: 0, isLeaving: false, reports: 1 }
  engine.setNodes([
    { id: 'a', name: 'a', url, token: 't', engine: 'onnx', owner: OWNER, address: null, isOperators: true, ...facts },
  ])
})
afterEach(async () => {
  unsubscribe(RESPONSES, onResponse)
  await engine.close()
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

const TOKEN = {
  index: 0,
  token_ids: [3],
  logprobs: { content: [{ token_id: 3, logprob: -1, top_logprobs: [] }] },
}

/** @param mayGoOn whether the answer's text goes on behind its token */
function ask(mayGoOn = true): Promise<void> {
  const request = { id: 'r', promptTokenIds: [1], rules: GREEDY, adapter: null, cacheSalt: null, owner: OWNER }
  return new Promise((resolve, reject) => {
    engine.submit(request, {
      onStarted: () => undefined,
      onToken: () => mayGoOn,
      onAborted: () => undefined,
      onFinished: resolve,
      onFailed: reject,
    })
  })
}

/** What a node says behind the last token. */
async function endAnswer(index: number): Promise<void> {
  const [response, other] = [answers[index], received[index]]
  if (response === undefined || other === undefined) throw new Error(`there is no answer ${index}`)
  if (!response.destroyed) {
    response.end('data: [DONE]\n\n')
    await once(response, 'close')
  }
  // one that was cut off closes with an error
  if (!other.closed) await new Promise((resolve) => other.once('close', resolve))
  // its connection is free in the next turn
  await turn()
}

it('serve the next answer when the node has ended the one before, however late it says so', async () => {
  for (let i = 0; i < 4; i++) {
    // the listener has all that it wants before the answer's end is written
    await ask()
    expect(answers[i]?.writableEnded).toBe(false)
    await endAnswer(i)
    expect(answers[i]?.writableFinished).toBe(true)
  }
  expect(connections).toBe(1)
})

it('are given up when a complete answer has no end', async () => {
  await ask()
  const [response] = answers
  if (response !== undefined && !response.destroyed) await once(response, 'close')
  expect(response?.writableEnded).toBe(false)
  await ask()
  expect(connections).toBe(2)
})

it('are given up when an answer was ended here: the node would go on with it', async () => {
  finishReason = null
  await ask(false)
  await endAnswer(0)
  await ask(false)
  expect(connections).toBe(2)
})
