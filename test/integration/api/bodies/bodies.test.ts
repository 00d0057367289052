/**
 * Request bodies that would cost others: slow, huge, full of wrong elements, torn. Stand-in children.
 */
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import { createTestService, sampleGroup, type TestService } from '../../../support/service/create-test-service.js'
import { startRawRequest } from '../../../support/service/raw-request.js'
import { loopTurns, until } from '../../../support/until.js'

const CHAT = '/v1/chat/completions'
const RL = '/v1/preview/training-jobs'
const MB = 1024 ** 2
const say = (content: string, more: object = {}) => ({ messages: [{ role: 'user', content }], ...more })
const log: string[] = []

let service: TestService
let model: string
beforeAll(async () => {
  service = await createTestService({
    tuning: { bodies: { unfinishedBytes: 24 * MB, groupBytes: 2 * MB, idleMs: 5000, minBytesPerSecond: 100_000 } },
    logger: createLogger({ level: 'info', destination: { write: (line) => void log.push(line) } }),
  })
  model = await service.createModel('m')
})
afterAll(() => service.dispose())

const leftovers = () => readdir(join(service.dataDir, 'blobs/incoming'))
const sizeOfLeftovers = async () => {
  const names = await leftovers()
  const files = await Promise.all(names.map((name) => stat(join(service.dataDir, 'blobs/incoming', name))))
  return files.reduce((sum, file) => sum + file.size, 0)
}

describe('memory', () => {
  it('unfinished bodies share one budget: 503 with Retry-After beyond it, and room again when they are gone', async () => {
    const text = `{"model_id":"${model}","trajectory_groups":[${JSON.stringify(sampleGroup())},"${'x'.repeat(20 * MB)}`
    const slow = startRawRequest(service, RL, 400 * MB)
    await slow.send(text)
    await until(async () => (await sizeOfLeftovers()) > 19 * MB, 'the first body on disk')
    // a body that is silent for too long would make room
    const alive = setInterval(() => void slow.send('x'), 50)
    const refused = await service.fetch(RL, { json: { model_id: model, padding: 'x'.repeat(8 * MB) } })
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '5'])
    expect(JSON.stringify(await refused.json())).toContain('too_many_bodies')
    clearInterval(alive)
    expect((await service.json(CHAT, { json: say('hi') })).status).toBe(200)
    slow.socket.destroy()
    await until(async () => (await leftovers()).length === 0, 'its file gone')
    const { status } = await service.json(RL, { json: { model_id: model, padding: 'x'.repeat(8 * MB) } })
    expect(status).toBe(422)
  })

  it('several unfinished bodies of one key take half of the room: its next is 503, and another key has the rest', async () => {
    const { body: other } = await service.json<{ key: string }>('/v1/preview/keys', {
      json: { project: 'tests', scope: 'write' },
    })
    const text = `{"model_id":"${model}","padding":"${'x'.repeat(5 * MB)}`
    const slow = [startRawRequest(service, RL, 400 * MB), startRawRequest(service, RL, 400 * MB)]
    for (const body of slow) await body.send(text)
    await until(async () => (await sizeOfLeftovers()) > 9.5 * MB, 'two bodies on disk')
    const alive = setInterval(() => slow.forEach((body) => void body.send('x')), 50)
    const large = { json: { model_id: model, padding: 'x'.repeat(8 * MB) } }
    const refused = await service.json(RL, large)
    expect([refused.status, JSON.stringify(refused.body)]).toEqual([
      503,
      expect.stringMatching(/this key holds \d+ bytes in 3 unfinished request bodies already, of 12582912/),
    ])
    const taken = await service.json(RL, { ...large, headers: { authorization: `Bearer ${other.key}` } })
    expect(taken.status).toBe(422)
    clearInterval(alive)
    for (const { socket } of slow) socket.destroy()
    await until(async () => (await leftovers()).length === 0, 'their files gone')
  })

  it('a group that is too large is 413 and names the group and the limit', async () => {
    const big = { ...sampleGroup(), metadata: { text: 'x'.repeat(3 * MB) } }
    const { status, body } = await service.json(RL, {
      json: { model_id: model, trajectory_groups: [sampleGroup(), big] },
    })
    expect([status, JSON.stringify(body)]).toEqual([
      413,
      expect.stringContaining(`trajectory_groups[1] is larger than ${2 * MB} bytes`),
    ])
    await until(async () => (await leftovers()).length === 0, 'its file gone')
  })

  it('a body is given up when it is too slow on average, though it is never silent', async () => {
    const slow = startRawRequest(service, CHAT, 100_000)
    let isAnswered = false
    void slow.answer.then(() => {
      isAnswered = true
    })
    while (!isAnswered) {
      await slow.send(' ')
      await sleep(100)
    }
    expect(await slow.answer).toMatch(/ 408 [\s\S]*bytes per second/)
    slow.socket.destroy()
  })

  it('the model of a log is looked up before its body is there', async () => {
    const upload = startRawRequest(service, '/v1/preview/models/00000000-0000-7000-8000-000000000000/log', 400 * MB)
    expect(await upload.answer).toContain('model_not_found')
    upload.socket.destroy()
  })
})

describe('CPU', () => {
  const many = (n: number, text: string) => `[${Array(n).fill(text).join(',')}]`
  it.each([
    ['a million empty messages', CHAT, `{"messages":${many(1_000_000, '{}')}}`, 413],
    ['forty thousand wrong messages', CHAT, `{"messages":${many(40_000, '{}')}}`, 400],
    [
      'two million logit_bias keys',
      CHAT,
      `{"messages":[],"logit_bias":{${Array.from({ length: 1_000_000 }, (_, i) => `"${i}":1`).join(',')}}}`,
      413,
    ],
    ['a million wrong steps', '/v1/preview/models/x/checkpoints', `{"steps":${many(1_000_000, '{}')}}`, 413],
    [
      'six hundred thousand wrong trajectories',
      RL,
      `{"trajectory_groups":[{"trajectories":${many(600_000, '{}')}}]}`,
      422,
    ],
  ])('%s are refused while others are answered', async (_, path, body, expected) => {
    let isDone = false
    const request = service
      .fetch(path, {
        method: path.endsWith('checkpoints') ? 'DELETE' : 'POST',
        body,
        headers: { 'content-type': 'application/json' },
      })
      .then(async (response) => {
        const text = await response.text()
        isDone = true
        return { status: response.status, text }
      })
    while (!isDone) expect((await service.json('/v1/health')).status).toBe(200)
    const { status, text } = await request
    expect([status, text.slice(0, 300)]).toEqual([expected, expect.any(String)])
    expect(text.length).toBeLessThan(50_000)
  })

  it('large requests are read outside of the event loop, with the same answers', async () => {
    const content = 'é"\\ 😀'.repeat(20_000)
    const { status, body } = await service.json<{ error: { message: string } }>(CHAT, {
      json: say(content, { seed: 1, max_tokens: 1 }),
    })
    expect([status, body.error.message]).toEqual([400, expect.stringContaining('maximum context length')])
    const broken = await service.json(CHAT, { json: say(content, { temperature: 'warm', n: {} }) })
    expect(broken.status).toBe(400)
    expect(JSON.stringify(broken.body)).toContain('float_parsing')
    const exact = `{"messages":[{"role":"user","content":"${'x'.repeat(30_000)}"}],"seed":9223372036854776001}`
    const seed = await service.json(CHAT, { json: exact })
    expect(JSON.stringify(seed.body)).toContain('9223372036854776000')
  })
})

describe('clients that leave', () => {
  it('during the upload are not our error: 499 in the log, nothing left on disk', async () => {
    log.length = 0
    for (const path of [CHAT, RL, '/v1/files?filename=x']) {
      const torn = startRawRequest(service, path, 3 * MB)
      await torn.send(`{"messages":"${'x'.repeat(2 * MB)}`)
      await loopTurns()
      torn.socket.destroy()
    }
    await until(() => log.filter((line) => line.includes('"status":499')).length === 3, '499 in the log')
    expect(log.filter((line) => JSON.parse(line).level >= 50)).toEqual([])
    await until(async () => (await leftovers()).length === 0, 'files gone')
  })
})
