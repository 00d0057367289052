/** Stands for a server of the OpenEnv kind: its wire as recorded from openenv 0.10, and the failures that a test asks for. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type WebSocket, WebSocketServer } from 'ws'

export type Fault = 'capacity' | 'hang' | 'drop' | 'garbage' | 'refuse' | 'factory' | 'text_reward'

export interface FakeOpenEnv {
  readonly url: string
  /** Most sessions that were open at a time, and resets so far. */
  readonly seen: { mostOpen: number; resets: number }
  close(): Promise<void>
}

const TEXT = {
  type: 'object',
  properties: { text: { type: 'string' }, metadata: { type: 'object' } },
  required: ['text'],
}
export const FORM = {
  type: 'object',
  properties: { number: { type: 'integer' }, metadata: { type: 'object' } },
  required: ['number'],
}
const TOOL = {
  type: 'object',
  properties: { tool_name: { type: 'string' }, arguments: { type: 'object' } },
  required: ['tool_name'],
}
const SCHEMAS = { text: TEXT, form: FORM, tools: TOOL }

/** Asks for a number made of the seed; the episode ends after the second right answer. */
export async function startFakeOpenEnv(
  kind: keyof typeof SCHEMAS,
  fault: Fault | null = null,
  most = 1,
): Promise<FakeOpenEnv> {
  const seen = { mostOpen: 0, resets: 0 }
  const http: Server = createServer((request, response) => {
    response.setHeader('content-type', 'application/json')
    if (request.url === '/schema')
      return response.end(JSON.stringify({ action: SCHEMAS[kind], observation: {}, state: {} }))
    if (request.url === '/metadata') return response.end('{"name":"Numbers","version":"2.0"}')
    response.writeHead(404).end('{}')
  })
  const sockets = new WebSocketServer({ server: http, path: '/ws' })
  let open = 0
  sockets.on('connection', (socket) => {
    const fails = (code: string, extra: object = {}) =>
      say(socket, 'error', { message: `it says ${code}`, code, ...extra })
    if (fault === 'factory') {
      fails('FACTORY_ERROR', { factory_name: 'Numbers' })
      return socket.close()
    }
    if (open >= most) {
      fails('CAPACITY_REACHED', { active_sessions: open, max_sessions: most })
      return socket.close()
    }
    open += 1
    seen.mostOpen = Math.max(seen.mostOpen, open)
    socket.on('close', () => {
      open -= 1
    })
    let [wanted, left] = [0, 2]
    socket.on('message', (raw) => {
      const { type, data } = JSON.parse(String(raw)) as {
        readonly type: string
        readonly data: Record<string, unknown>
      }
      if (type === 'close') return socket.close()
      if (type === 'reset') {
        seen.resets += 1
        wanted = Number(data['seed']) % 3
        return say(socket, 'observation', { observation: { prompt: `say ${wanted}` }, reward: null, done: false })
      }
      if (data['type'] === 'list_tools') {
        const tools = [{ name: 'guess', description: 'a number', input_schema: FORM }]
        return say(socket, 'observation', { observation: { tools }, reward: null, done: false })
      }
      if (fault === 'hang') return
      if (fault === 'drop') return socket.terminate()
      if (fault === 'garbage') return socket.send('[1')
      if (fault === 'refuse') return fails('VALIDATION_ERROR', { errors: [{ msg: 'a number is wanted' }] })
      const inside = (data['arguments'] ?? {}) as Record<string, unknown>
      const isRight = String(data['text'] ?? data['number'] ?? inside['number']) === String(wanted)
      if (isRight) left -= 1
      const reward = fault === 'text_reward' ? 'much' : isRight
      const observation = {
        prompt: isRight ? `again ${wanted}` : `no, ${wanted}`,
        ...(kind === 'tools' ? { result: isRight ? 'yes' : 'no' } : {}),
      }
      say(socket, 'observation', { observation, reward, done: left === 0 })
    })
  })
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  const { port } = http.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    seen,
    async close() {
      for (const socket of sockets.clients) socket.terminate()
      sockets.close()
      await new Promise((resolve) => http.close(resolve))
    },
  }
}

function say(socket: WebSocket, type: string, data: object): void {
  socket.send(JSON.stringify({ type, data }))
}
