/**
 * Tools of episodes against a real server: what it answers becomes what the model is shown, or the episode is dropped.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createToolCalls, createToolRules, type EpisodeTool, readEpisode } from '#plugins/loops/tools.js'
import { createNameService } from '#service/operations/address-rules.js'

let server: Server
let host: string
let answer: (body: Record<string, unknown>, response: ServerResponse, request: IncomingMessage) => void
let asked: Record<string, unknown>[]
beforeAll(async () => {
  server = createServer((request, response) => {
    let text = ''
    request.setEncoding('utf8').on('data', (part: string) => {
      text += part
    })
    request.on('end', () => {
      const body = JSON.parse(text) as Record<string, unknown>
      asked.push({ ...body, key: request.headers['x-key'] })
      answer(body, response, request)
    })
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  host = `127.0.0.1:${(server.address() as AddressInfo).port}`
})
beforeEach(() => {
  asked = []
})
afterAll(async () => {
  server.closeAllConnections()
  await new Promise((done) => server.close(done))
})

const rulesOf = (hosts: readonly string[]) => createToolRules(hosts, createNameService())
const tool = (): EpisodeTool => ({ name: 'find', serverUrl: `http://${host}/tools`, headers: { 'x-key': 'secret' } })
const CALL = { name: 'find', callId: 'call_1_0', arguments: '{"of":"x"}', traceId: 'trace_1' }
const call = (given = CALL, hosts = [host]) =>
  createToolCalls(rulesOf(hosts), { timeoutMs: 300, retryMs: 1 })(tool(), given, 'e')

describe('a call', () => {
  it('is a function_call with the headers of the tool, and its output is shown', async () => {
    answer = ({ call_id: id }, response) =>
      response.end(JSON.stringify({ type: 'function_call_output', call_id: id, output: 'seven' }))
    expect(await call()).toEqual({ output: 'seven', isError: false })
    expect(asked).toEqual([
      {
        ...{ type: 'function_call', id: 'fc_1_0', call_id: 'call_1_0', name: 'find', arguments: '{"of":"x"}' },
        ...{ trace_id: 'trace_1', key: 'secret' },
      },
    ])
  })

  it.each<[string, number, string, object]>([
    ['an output that is no text', 200, '{"output": {"a": [1]}}', { output: '{"a":[1]}', isError: false }],
    ['an answer without output', 200, 'plain', { output: 'plain', isError: false }],
    ['a 4xx with its output', 404, '{"output": "no such id"}', { output: 'no such id', isError: true }],
    ['a 4xx without', 400, '{"detail": "bad"}', { output: 'error 400: {"detail": "bad"}', isError: true }],
  ])('%s is shown', async (_, status, text, shown) => {
    answer = (__, response) => response.writeHead(status).end(text)
    expect(await call()).toEqual(shown)
    expect(asked).toHaveLength(1)
  })

  it.each([500, 503, 429])('%i is asked again three times, and then drops the episode', async (status) => {
    answer = (_, response) => response.writeHead(status).end()
    const said = await call()
    expect(said).toEqual({ dropped: `tool find gave no output in 4 tries: it answered ${status}` })
    expect(asked).toHaveLength(4)
  })

  it('a server that comes back within the tries is no error', async () => {
    let count = 0
    answer = (_, response) => response.writeHead(++count < 4 ? 502 : 200).end('{"output": "late"}')
    expect(await call()).toEqual({ output: 'late', isError: false })
  })

  it('silence and broken connections drop it, too', async () => {
    answer = () => undefined
    expect(await call()).toEqual({ dropped: 'tool find gave no output in 4 tries: no answer within 300 ms' })
    answer = (_, response) => response.destroy()
    expect(await call()).toMatchObject({ dropped: expect.stringContaining('in 4 tries') })
  })

  it('more than a megabyte is shown as a 413, whichever way it goes', async () => {
    answer = (_, response) => response.end(JSON.stringify({ output: 'x'.repeat(1_000_001) }))
    expect(await call()).toEqual({ output: 'error 413: the answer has more than 1000000 bytes', isError: true })
    asked = []
    const said = await call({ ...CALL, arguments: 'x'.repeat(1_000_001) })
    expect(said).toEqual({ output: 'error 413: the call has more than 1000000 bytes', isError: true })
    expect(asked).toEqual([])
  })

  it('of a private address that nobody allowed is never made', async () => {
    expect(await call(CALL, [])).toMatchObject({ dropped: expect.stringContaining('server_url') })
    expect(asked).toEqual([])
  })
})

describe('tools of a request', () => {
  const url = 'https://1.1.1.1/tools'
  it('are read, headers left out or given', () => {
    const rules = rulesOf([])
    expect(readEpisode({ tools: [{ name: 'a', server_url: url }] }, rules)).toEqual({
      tools: [{ name: 'a', serverUrl: url, headers: {} }],
      maxEpisodeSteps: 10,
    })
    expect(readEpisode({}, rules)).toEqual({})
    expect(() => readEpisode({ max_episode_steps: 3 }, rules)).toThrow('no effect without tools')
  })

  it.each<[string, unknown, string]>([
    ['no list', {}, 'tools'],
    ['no object', ['x'], 'tools[0]'],
    ['no name', [{ server_url: url }], 'tools[0].name'],
    [
      'a name twice',
      [
        { name: 'a', server_url: url },
        { name: 'a', server_url: url },
      ],
      'tools[1].name',
    ],
    ['no address', [{ name: 'a' }], 'tools[0].server_url'],
    ['a private address', [{ name: 'a', server_url: 'http://127.0.0.1/x' }], 'tools[0].server_url'],
    ['a field of no tool', [{ name: 'a', server_url: url, timeout: 3 }], 'tools[0].timeout'],
    ['a header with a line break', [{ name: 'a', server_url: url, headers: { a: 'x\ny: z' } }], 'tools[0].headers'],
    ['too many', Array.from({ length: 65 }, (_, i) => ({ name: `a${i}`, server_url: url })), 'tools'],
  ])('are refused for %s, by its path', (_, given, param) => {
    expect(() => readEpisode({ tools: given as never }, rulesOf([]), 'x.')).toThrow(
      expect.objectContaining({ param: `x.${param}` }),
    )
  })
})
