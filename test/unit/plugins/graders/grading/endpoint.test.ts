/**
 * Graders at an endpoint, against a local server: what it is sent, how its answer is read, what is tried again and what is not.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import { createPacer, type EndpointAccess } from '#plugins/graders/grading/endpoint.js'
import { grade } from '#plugins/graders/grading/grade.js'
import { gradeWith } from '#plugins/graders/grading/grade-with.js'
import { toSample } from '#plugins/graders/grading/sample.js'
import { readGrader } from '#plugins/graders/grading/spec.js'
import { Trajectory } from '#sdk/rl/trajectory.js'

let server: Server | null = null
afterEach(() => {
  server?.closeAllConnections()
  server?.close()
})

interface Seen {
  readonly headers: IncomingMessage['headers']
  readonly body: { readonly sample: JsonObject; readonly item: JsonObject; readonly trace_id: string }
}

/** @param answer what each call is answered, by its number */
async function serve(answer: (call: number, response: ServerResponse) => void) {
  const seen: Seen[] = []
  const own = createServer(async (request, response) => {
    let body = ''
    for await (const piece of request) body += String(piece)
    seen.push({ headers: request.headers, body: JSON.parse(body) })
    answer(seen.length, response)
  })
  server = own
  await new Promise<void>((resolve) => own.listen(0, '127.0.0.1', resolve))
  return { url: `http://localhost:${(own.address() as AddressInfo).port}/grade`, seen }
}

const access = (more: Partial<EndpointAccess> = {}): EndpointAccess => ({
  address: () => Promise.resolve('127.0.0.1'),
  variable: (name) => (name === 'KEY' ? 'secret' : undefined),
  pacer: createPacer(),
  times: { timeoutMs: 60_000, retryMs: 1 },
  ...more,
})
const run = (spec: JsonObject, more: Partial<EndpointAccess> = {}) =>
  grade(
    readGrader({ type: 'endpoint', name: 'far', ...spec }),
    { item: { n: 1 }, sample: toSample('hi') },
    { access: access(more) },
  )
const scores = (score: unknown) => (_: number, response: ServerResponse) => response.end(JSON.stringify({ score }))

describe('endpoint', () => {
  it('is sent sample, item and a trace id, at the address that was checked, with its headers filled in', async () => {
    const { url, seen } = await serve(scores(-2.5))
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a placeholder of graders
    const graded = await run({ url, headers: { Authorization: 'Bearer ${KEY}' }, pass_threshold: -3 })
    expect(graded).toMatchObject({ reward: -2.5, errors: [], passes: { far: true } })
    expect(seen[0]?.headers).toMatchObject({ authorization: 'Bearer secret', host: new URL(url).host })
    expect(seen[0]?.body).toMatchObject({
      item: { n: 1 },
      sample: { output_text: 'hi' },
      trace_id: expect.stringMatching(/^[\w-]{36}$/),
    })
  })

  it('that is busy or broken is asked three times more', async () => {
    const { url, seen } = await serve((call, response) => {
      if (call === 4) response.end('{"score":1}')
      else if (call === 3) response.destroy()
      else response.writeHead(call === 1 ? 429 : 503).end()
    })
    expect(await run({ url })).toMatchObject({ reward: 1, errors: [] })
    expect(seen).toHaveLength(4)
  })

  it('that never answers is unresponsive_reward_error, and the rollout fails', async () => {
    const { url, seen } = await serve((_, response) => response.writeHead(500).end())
    expect(await run({ url })).toMatchObject({
      reward: 0,
      errors: [{ flag: 'unresponsive_reward_error', grader: 'far' }],
    })
    expect(seen).toHaveLength(4)
    const slow = await serve(() => {})
    const { errors } = await run({ url: slow.url }, { times: { timeoutMs: 20, retryMs: 1 } })
    expect(errors[0]?.message).toContain('no answer within 20 ms')
  })

  it.each([
    [
      'a refusal',
      (_: number, response: ServerResponse) => response.writeHead(400).end('no such row'),
      /answered 400: no such row/,
    ],
    ['no number', scores('high'), /must answer \{"score": …\}/],
    ['no JSON', (_: number, response: ServerResponse) => response.end('1'), /must answer/],
    [
      'a redirect',
      (_: number, response: ServerResponse) => response.writeHead(302, { location: '/other' }).end(),
      /answered 302/,
    ],
  ])('that answers %s is other_error, and not asked again', async (_, answer, words) => {
    const { url, seen } = await serve(answer)
    const { reward, errors } = await run({ url })
    expect([reward, errors[0]?.flag, seen.length]).toEqual([0, 'other_error', 1])
    expect(errors[0]?.message).toMatch(words)
  })

  it('that answers more than 1 MB is cut off', async () => {
    const { url } = await serve((_, response) => response.end('1'.repeat(1_100_000)))
    expect((await run({ url })).errors[0]?.message).toMatch(/more than 1000000 bytes/)
  })

  it('whose headers name another variable is asked nothing', async () => {
    const { url, seen } = await serve(scores(1))
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a placeholder of graders
    const { errors } = await run({ url, headers: { 'x-key': '${PATH}' } })
    expect([errors[0]?.flag, seen.length]).toEqual(['other_error', 0])
  })

  it('with a rate_limit has its calls begun so far apart', async () => {
    let nowMs = 0
    const pacer = createPacer({ monotonicMs: () => nowMs })
    await pacer.turn('a', 100, undefined)
    await pacer.turn('b', 100, undefined)
    nowMs = 9
    const second = pacer.turn('a', 100, undefined)
    const ending = new AbortController()
    // the third would wait for an hour, did nobody give up
    const third = pacer.turn('a', 1 / 3600, ending.signal)
    await second
    const fourth = pacer.turn('a', 100, ending.signal)
    ending.abort()
    await expect(third).rejects.toThrow()
    await expect(fourth).rejects.toThrow()
  })

  it.each([
    [{ url: 'ftp://x' }, 'grader.url'],
    [{ url: 'http://x', rate_limit: 0 }, 'grader.rate_limit'],
    [{ url: 'http://x', headers: { 'a b': 'c' } }, 'grader.headers'],
    [{ url: 'http://x', headers: { a: 'b\nc' } }, 'grader.headers'],
  ])('%o is refused at %s', (spec, param) => {
    expect(() => readGrader({ type: 'endpoint', ...spec })).toThrow(expect.objectContaining({ param }))
  })

  it('as a reward: a score trains, none is no answer of 0', async () => {
    const trajectory = new Trajectory([{ role: 'user', content: 'x' }])
    const { url } = await serve(scores(3))
    expect(await gradeWith({ type: 'endpoint', url })(trajectory, {})).toBe(3)
    expect(trajectory.metrics).toEqual({ grader_errors: 0 })
  })
})
