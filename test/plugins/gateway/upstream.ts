/**
 * A stand-in for OpenAI and Anthropic on a port of its own: whole answers and streams, tools, refusals, compression, slow parts, an answer
 * that breaks off. What a call gets is told by its model's name; what came is kept for the test to look at.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import { createDeferred } from '#base/util/deferred.js'

export interface SeenCall {
  readonly method: string
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: Buffer
  /** The connection ended before the answer did. */
  readonly left: Promise<boolean>
}

export interface FakeUpstream {
  readonly host: string
  readonly url: string
  readonly calls: SeenCall[]
  /** Answers of `slow` models go on when it is called. */
  goOn(): void
  close(): Promise<void>
}

type Body = Record<string, unknown>

const event = (data: unknown, name?: string): string =>
  `${name === undefined ? '' : `event: ${name}\n`}data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`

/** Text in parts that cut words, and characters of several bytes, in two. */
function partsOf(text: string): string[] {
  const letters = [...text]
  return Array.from({ length: Math.ceil(letters.length / 3) }, (_, i) => letters.slice(i * 3, i * 3 + 3).join(''))
}

/** What each model says: `echo: …` repeats what was asked last. */
function saidTo(body: Body): string {
  const messages = (body['messages'] ?? body['input']) as unknown
  const last = Array.isArray(messages) ? (messages.at(-1) as { content: unknown }).content : messages
  const text = typeof last === 'string' ? last : JSON.stringify(last)
  return body['model'] === 'echo' ? `echo: ${text}` : 'Grüße, 世界 🌍!'
}

const CALL = { name: 'count', arguments: '{"text":"tree"}' }
const USAGE = { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18, prompt_tokens_details: { cached_tokens: 4 } }

function chatWhole(body: Body): Body {
  const wantsTool = Array.isArray(body['tools'])
  const message = wantsTool
    ? { role: 'assistant', content: null, tool_calls: [{ id: 'call_1', type: 'function', function: CALL }] }
    : { role: 'assistant', content: saidTo(body), refusal: null }
  const choice = { index: 0, message, logprobs: null, finish_reason: wantsTool ? 'tool_calls' : 'stop' }
  return {
    id: 'c1',
    object: 'chat.completion',
    created: 1,
    model: `${body['model']}-2026`,
    choices: [choice],
    usage: USAGE,
  }
}

function chatEvents(body: Body): string[] {
  const chunk = (delta: object, finish_reason: string | null = null) =>
    event({
      id: 'c1',
      object: 'chat.completion.chunk',
      created: 1,
      model: `${body['model']}-2026`,
      choices: [{ index: 0, delta, finish_reason }],
    })
  const usage = event({
    id: 'c1',
    object: 'chat.completion.chunk',
    created: 1,
    model: `${body['model']}-2026`,
    choices: [],
    usage: USAGE,
  })
  const first = chunk({ role: 'assistant', content: '' })
  if (!Array.isArray(body['tools'])) {
    const parts = partsOf(saidTo(body)).map((content) => chunk({ content }))
    return [first, ...parts, chunk({}, 'stop'), usage, event('[DONE]')]
  }
  const begin = chunk({
    tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: { name: 'count', arguments: '' } }],
  })
  const parts = partsOf(CALL.arguments).map((part) =>
    chunk({ tool_calls: [{ index: 0, function: { arguments: part } }] }),
  )
  return [first, begin, ...parts, chunk({}, 'tool_calls'), usage, event('[DONE]')]
}

function messageWhole(body: Body): Body {
  const wantsTool = Array.isArray(body['tools'])
  const content = wantsTool
    ? [{ type: 'tool_use', id: 'toolu_1', name: 'count', input: { text: 'tree' } }]
    : [{ type: 'text', text: saidTo(body) }]
  const usage = { input_tokens: 5, cache_read_input_tokens: 4, cache_creation_input_tokens: 2, output_tokens: 7 }
  return {
    ...{ id: 'm1', type: 'message', role: 'assistant', model: `${body['model']}-2026`, content },
    ...{ stop_reason: wantsTool ? 'tool_use' : 'end_turn', stop_sequence: null, usage },
  }
}

function messageEvents(body: Body): string[] {
  const whole = messageWhole(body)
  const [block] = whole['content'] as Body[]
  const usage = whole['usage'] as Body
  const message = { ...whole, content: [], stop_reason: null, usage: { ...usage, output_tokens: 1 } }
  const isTool = block?.['type'] === 'tool_use'
  const empty = isTool ? { ...block, input: {} } : { type: 'text', text: '' }
  const deltas = partsOf(isTool ? CALL.arguments : saidTo(body)).map((part) =>
    isTool ? { type: 'input_json_delta', partial_json: part } : { type: 'text_delta', text: part },
  )
  const named = (data: Body): string => event(data, String(data['type']))
  return [
    named({ type: 'message_start', message }),
    named({ type: 'ping' }),
    named({ type: 'content_block_start', index: 0, content_block: empty }),
    ...deltas.map((delta) => named({ type: 'content_block_delta', index: 0, delta })),
    named({ type: 'content_block_stop', index: 0 }),
    named({
      type: 'message_delta',
      delta: { stop_reason: whole['stop_reason'], stop_sequence: null },
      usage: { output_tokens: 7 },
    }),
    named({ type: 'message_stop' }),
  ]
}

function responseWhole(body: Body): Body {
  const text = { type: 'output_text', text: saidTo(body), annotations: [] }
  const output = [{ type: 'message', id: 'msg_1', role: 'assistant', status: 'completed', content: [text] }]
  const usage = { input_tokens: 11, input_tokens_details: { cached_tokens: 4 }, output_tokens: 7, total_tokens: 18 }
  return {
    id: 'r1',
    object: 'response',
    created_at: 1,
    status: 'completed',
    model: `${body['model']}-2026`,
    output,
    usage,
    error: null,
  }
}

function responseEvents(body: Body): string[] {
  const response = responseWhole(body)
  const named = (type: string, data: Body): string => event({ type, ...data }, type)
  return [
    named('response.created', {
      response: { ...response, status: 'in_progress', output: [], usage: null },
      sequence_number: 0,
    }),
    ...partsOf(saidTo(body)).map((delta, i) =>
      named('response.output_text.delta', {
        item_id: 'msg_1',
        output_index: 0,
        content_index: 0,
        delta,
        sequence_number: i + 1,
        logprobs: [],
      }),
    ),
    named('response.completed', { response, sequence_number: 99 }),
  ]
}

const FORMS: Readonly<Record<string, { whole(body: Body): Body; events(body: Body): string[] }>> = {
  '/v1/chat/completions': { whole: chatWhole, events: chatEvents },
  '/v1/messages': { whole: messageWhole, events: messageEvents },
  '/v1/responses': { whole: responseWhole, events: responseEvents },
}

/** Models that refuse, by name. */
const REFUSALS: Readonly<Record<string, number>> = { limited: 429, broken: 500, overloaded: 529 }

export async function startUpstream(): Promise<FakeUpstream> {
  const calls: SeenCall[] = []
  let gate = createDeferred<void>()
  const server: Server = createServer((incoming, outgoing) => {
    void handle(incoming, outgoing, calls, () => gate.promise)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    host,
    url: `http://${host}`,
    calls,
    goOn: () => {
      gate.resolve()
      gate = createDeferred<void>()
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

async function handle(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  calls: SeenCall[],
  open: () => Promise<void>,
) {
  const parts: Buffer[] = []
  for await (const part of incoming as AsyncIterable<Buffer>) parts.push(part)
  const body = Buffer.concat(parts)
  const left = new Promise<boolean>((resolve) => outgoing.once('close', () => resolve(!outgoing.writableFinished)))
  calls.push({ method: incoming.method ?? '', path: incoming.url ?? '', headers: incoming.headers, body, left })
  const form = FORMS[(incoming.url ?? '').split('?')[0] ?? '']
  if (form === undefined) {
    outgoing.writeHead(200, {
      'content-type': 'application/json',
      'set-cookie': 'a=b',
      'access-control-allow-origin': '*',
    })
    outgoing.end(JSON.stringify({ object: 'list', data: [{ id: 'gpt', object: 'model', created: 1, owned_by: 'x' }] }))
    return
  }
  const asked = JSON.parse(body.toString()) as Body
  const model = String(asked['model'])
  const refusal = REFUSALS[model]
  const own = { 'x-request-id': 'req_upstream', 'request-id': 'req_upstream', 'x-ratelimit-remaining-requests': '41' }
  if (refusal !== undefined) {
    outgoing.writeHead(refusal, { ...own, 'content-type': 'application/json', 'retry-after': '7' })
    outgoing.end(JSON.stringify({ type: 'error', error: { type: 'rate_limit_error', message: `no, says ${model}` } }))
    return
  }
  if (asked['stream'] !== true) {
    const text = JSON.stringify(form.whole(asked))
    const isZipped = String(incoming.headers['accept-encoding'] ?? '').includes('gzip')
    outgoing.writeHead(200, {
      ...own,
      'content-type': 'application/json',
      ...(isZipped ? { 'content-encoding': 'gzip' } : {}),
    })
    outgoing.end(isZipped ? gzipSync(text) : text)
    return
  }
  outgoing.writeHead(200, { ...own, 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' })
  const events = form.events(asked)
  for (const [i, each] of events.entries()) {
    if (i === 3 && model === 'slow') await open()
    if (i === 4 && model === 'cut') return void outgoing.destroy()
    await new Promise<void>((sent) => outgoing.write(each, () => sent()))
  }
  outgoing.end()
}
