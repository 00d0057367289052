/**
 * Requests of absurd sizes, counts and grammars, sent one after the other beside streams of a real engine: each is refused by name or
 * served, every stream is whole, others are answered meanwhile, and neither process grows by what was refused.
 */
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type KillableServer, startKillableServer } from '../../support/service/killable-server.js'
import { until } from '../../support/until.js'

const CHAT = '/v1/chat/completions'
const TEXT = '/v1/completions'
const MODEL = { model: 'trainyard/tiny-random' }
const SAYING = { ...MODEL, messages: [{ role: 'user', content: 'Count.' }] }
const HUGE = 'x'.repeat(10 * 2 ** 20)
const LENGTH = 400
/** Refused requests of ten megabytes that stayed would show as twice as much at least. */
const REPEATED = 15
const MOST_MORE_MB = 75
const MOST_ROUNDS = 8

let dataDir: string
let server: KillableServer
let engine: number
let isOver = false
let streams: Promise<number[]>
let restarts = 0
beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'trainyard-hostile-'))
  server = await startKillableServer({ dataDir, threads: 1 })
  engine = await server.enginePid()
  streams = Promise.all([keepStreaming(), keepStreaming()])
  // looked at when all is over
  streams.catch(() => undefined)
  await until(() => restarts > 1, 'the first streams')
})
afterAll(async () => {
  isOver = true
  await server.kill('SIGKILL')
  await rm(dataDir, { recursive: true, force: true, maxRetries: 20 })
})

/** Streams one after the other, each of which must be whole. @returns how many there were */
async function keepStreaming(): Promise<number> {
  const body = { ...SAYING, ignore_eos: true, max_tokens: LENGTH, stream: true, return_token_ids: true }
  for (let count = 1; ; count += 1) {
    const response = await server.fetch(CHAT, body)
    const text = await response.text()
    restarts += 1
    const tokens = [...text.matchAll(/"token_ids":\[([\d,]+)\]/g)].reduce(
      (sum, [, ids]) => sum + (ids ?? '').split(',').length,
      0,
    )
    const end = /"finish_reason":"(\w+)"/.exec(text)?.[1]
    if (tokens < LENGTH || end !== 'length' || text.includes('"error"')) {
      throw new Error(`a stream was not whole, ${response.status} with ${tokens} tokens: ${text.slice(-300)}`)
    }
    if (isOver) return count
  }
}

const rssMb = (pid: number) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024
const list = <T>(count: number, item: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => item(i))
const chat = (more: object) => [CHAT, { ...SAYING, max_tokens: 4, ...more }] as const
const held = (structured_outputs: object) => chat({ structured_outputs })
/** Held so that an answer can come to each bound; those that no answer can come to are none. */
const reached = (regex: string) => chat({ structured_outputs: { regex }, max_tokens: 1000 })
const said = (content: unknown) => chat({ messages: [{ role: 'user', content }] })
const nested = (depth: number) =>
  list(depth, (i) => i).reduce<object>((a) => ({ type: 'object', properties: { a }, required: ['a'] }), {
    type: 'null',
  })

/** What is sent, the status expected, and what the answer must name. */
const CASES: Readonly<Record<string, readonly [request: readonly [string, object], status: number, names: string]>> = {
  'a string of ten megabytes': [said(HUGE), 400, 'maximum context length'],
  'the same as a raw prompt': [[TEXT, { ...MODEL, prompt: HUGE }], 400, 'maximum context length'],
  'the same as input of a response': [['/v1/responses', { ...MODEL, input: HUGE }], 400, 'maximum context length'],
  'the same to tokenize': [['/tokenize', { ...MODEL, prompt: HUGE }], 400, '"param":"prompt"'],
  'the same in messages to tokenize': [['/tokenize', { ...MODEL, ...said(HUGE)[1] }], 400, '"param":"messages"'],
  'the same as a role': [chat({ messages: [{ role: HUGE, content: 'x' }] }), 400, 'at most 1000 characters'],
  'the same as a model': [chat({ model: HUGE }), 400, '"param":"model"'],
  'the same as a stop': [chat({ stop: [HUGE] }), 400, '"param":"stop'],
  'the same as bad words': [chat({ bad_words: [HUGE] }), 400, '"param":"bad_words[0]"'],
  'the same as a seed': [chat({ seed: '9'.repeat(10 ** 7) }), 400, '"param":"seed"'],
  'the same as a salt': [chat({ cache_salt: HUGE }), 400, '"param":"cache_salt"'],
  'the same as a description of a tool': [
    chat({ tools: [{ type: 'function', function: { name: 'a', description: HUGE } }] }),
    400,
    'maximum context length',
  ],
  'the same as a regular expression': [held({ regex: HUGE }), 400, '"param":"structured_outputs"'],
  'the same as a choice': [held({ choice: [HUGE] }), 400, '"param":"structured_outputs"'],
  'a hundred thousand messages': [chat({ messages: list(100_000, () => SAYING.messages[0]) }), 413, 'nested values'],
  'a hundred thousand parts': [said(list(100_000, () => ({ type: 'text', text: 'x' }))), 413, 'nested values'],
  'as many messages as a body may have': [
    chat({ messages: list(9000, () => SAYING.messages[0]) }),
    400,
    'context length',
  ],
  'a million tokens': [[TEXT, { ...MODEL, prompt: list(1_000_000, () => 65) }], 400, 'maximum context length'],
  'a million tokens to read': [
    ['/detokenize', { ...MODEL, tokens: list(1_000_000, () => 65) }],
    400,
    '"param":"tokens"',
  ],
  'ten thousand prompts': [[TEXT, { ...MODEL, prompt: list(10_000, () => 'a') }], 400, '"param":"prompt"'],
  'thirty thousand stop strings': [chat({ stop: list(30_000, (i) => `a${i}`) }), 400, '"param":"stop"'],
  'a hundred thousand biases': [
    chat({ logit_bias: Object.fromEntries(list(100_000, (i) => [i, 1])) }),
    413,
    'keys in one object',
  ],
  'a million choices': [chat({ n: 1_000_000 }), 400, '"param":"n"'],
  'choices beyond 2^53': [chat({ n: 1e308 }), 400, '"param":"n"'],
  'a million beams': [[TEXT, { ...MODEL, prompt: 'a', use_beam_search: true, n: 1e6 }], 400, '"param":"best_of"'],
  'more tokens than there are atoms': [chat({ max_tokens: 1e300 }), 400, '"param":"max_tokens"'],
  'a billion log-probabilities': [chat({ logprobs: true, top_logprobs: 1e9 }), 400, '"param":"top_logprobs"'],
  'a billion of the prompt': [chat({ prompt_logprobs: 1e9 }), 400, '"param":"prompt_logprobs"'],
  'a temperature near infinity': [chat({ temperature: 1e308 }), 200, '"choices"'],
  'a bias near infinity': [chat({ logit_bias: { 65: 1e308 } }), 200, '"choices"'],
  'a regular expression that explodes': [reached('((a{1,200}){1,200}){1,200}'), 400, '"param":"structured_outputs"'],
  'a regular expression of twenty thousand groups': [
    held({ regex: `${'('.repeat(20_000)}a${')'.repeat(20_000)}` }),
    400,
    '"param":"structured_outputs"',
  ],
  'a regular expression that backtracks elsewhere': [held({ regex: '(a+)+b' }), 200, '"choices"'],
  'a grammar of itself': [held({ grammar: 'root ::= root' }), 400, '"param":"structured_outputs"'],
  'a grammar that may be anything': [held({ grammar: 'root ::= "" | root root | "a"' }), 200, '"choices"'],
  'a schema a thousand deep': [held({ json: JSON.stringify(nested(1000)) }), 400, '"param":"structured_outputs"'],
  'a schema of nine thousand patterns': [
    held({ json: { properties: Object.fromEntries(list(9000, (i) => [`p${i}`, { pattern: '^[a-z]{1,30}$' }])) } }),
    400,
    '"param":"structured_outputs"',
  ],
  'a schema of rings': [
    held({ json: { $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } } } }),
    400,
    '"param":"structured_outputs"',
  ],
}

describe('beside streams', { timeout: 280_000 }, () => {
  it.each(Object.entries(CASES))('%s', async (_, [[path, json], status, names]) => {
    const answer = await server.fetch(path, json)
    const text = await answer.text()
    expect([answer.status, text], text.slice(0, 500)).toEqual([status, expect.stringContaining(names)])
    if (status !== 200) expect(text.length).toBeLessThan(20_000)
  })

  it('a grammar that is compiled for long lets others be answered meanwhile', async () => {
    let count = 0
    // a busy machine may hold the other one up: not every time
    await until(async () => {
      let isCompiled = false
      // each another one, or the refusal of the last would be its own
      const regex = `((a{1,200}){1,200}){1,${200 + count++}}`
      const bomb = server.fetch(...reached(regex)).then((answer) => {
        isCompiled = true
        return answer
      })
      expect((await server.fetch(...chat({ max_tokens: 1 }))).status).toBe(200)
      const isFirst = !isCompiled
      expect((await bomb).status).toBe(400)
      return isFirst
    }, 'an answer while a grammar is compiled')
  })

  it('a string of ten megabytes again and again leaves nothing behind', async () => {
    const [request] = CASES['a string of ten megabytes'] ?? []
    if (request === undefined) throw new Error('the case is gone')
    const send = async () => {
      for (let i = 0; i < REPEATED; i += 1) expect((await server.fetch(...request)).status).toBe(400)
      return { server: rssMb(server.pid), engine: rssMb(engine) }
    }
    // heaps grow to what they need before they are tidied up; what stays grows every time
    const rounds = [await send()]
    const isFlat = (of: 'server' | 'engine') => (rounds.at(-1)?.[of] ?? 0) - (rounds.at(-2)?.[of] ?? 0) < MOST_MORE_MB
    do rounds.push(await send())
    while (!(isFlat('server') && isFlat('engine')) && rounds.length < MOST_ROUNDS)
    const sizes = rounds.map((round) => `${Math.round(round.server)} and ${Math.round(round.engine)}`).join(', ')
    console.log(`server and engine after each ${REPEATED} requests: ${sizes} MB`)
    expect([isFlat('server'), isFlat('engine')], sizes).toEqual([true, true])
  })

  it('every stream was whole, and the engine is the one it was', async () => {
    isOver = true
    const counts = await streams
    console.log(`${counts.join(' and ')} streams`)
    for (const count of counts) expect(count).toBeGreaterThan(3)
    expect(await server.enginePid()).toBe(engine)
  })
})
