/**
 * Size, pace and numbers: big bodies, slow bodies, torn bodies, floods, and deletes of what is in use. Stand-in children.
 */
import { readdir, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { createTestService, sampleGroup, type TestService } from '../../../support/service/create-test-service.js'
import { until } from '../../../support/until.js'

let service: TestService
let model: string
beforeAll(async () => {
  service = await createTestService({ maxPendingRequests: 4, tuning: { bodies: { idleMs: 2000 } } })
  model = await service.createModel('m')
})
afterAll(() => service.dispose())

const CHAT = '/v1/chat/completions'
const RL = '/v1/preview/training-jobs'
const say = (content: string, more: object = {}) => ({ messages: [{ role: 'user', content }], ...more })

/** Sends raw bytes and returns what comes back until the server closes, or until `waitMs` after the last byte sent. */
async function sendRaw(
  parts: readonly string[],
  { pauseMs, waitMs }: { pauseMs: number; waitMs: number },
): Promise<string> {
  const { hostname, port } = new URL(service.url)
  const socket = connect(Number(port), hostname)
  let answer = ''
  socket.on('data', (data) => {
    answer += data.toString()
  })
  const closed = new Promise<void>((resolve) => {
    socket.once('close', () => resolve())
    socket.once('error', () => resolve())
  })
  for (const part of parts) {
    socket.write(part)
    await sleep(pauseMs)
  }
  await Promise.race([closed, sleep(waitMs)])
  socket.destroy()
  return answer
}

const head = (path: string, length: number) =>
  `POST ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${service.apiKey}\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`

describe('big chats', () => {
  it('a hundred thousand messages are refused for their number, a ten-megabyte string for its length', async () => {
    const messages = Array.from({ length: 100_000 }, () => ({ role: 'user', content: 'x' }))
    const many = await service.json(CHAT, { json: { messages } })
    expect([many.status, JSON.stringify(many.body)]).toEqual([413, expect.stringContaining('nested values')])
    const long = await service.json(CHAT, { json: say('x'.repeat(10 * 1024 ** 2)) })
    expect([long.status, JSON.stringify(long.body)]).toEqual([
      400,
      expect.stringContaining('maximum context length is'),
    ])
    expect((await service.json(CHAT, { json: say('hi') })).status).toBe(200)
  })

  it('a list of millions of stop ids is refused', async () => {
    const { status } = await service.json(CHAT, { json: say('hi', { stop_token_ids: Array(100_000).fill(1) }) })
    expect(status).toBe(400)
  })
})

describe('bodies that do not come', () => {
  it('slow ones are given up, without a word to other requests', async () => {
    const slow = sendRaw([head(CHAT, 1000), '{"mess'], { pauseMs: 50, waitMs: 90_000 })
    expect((await service.json(CHAT, { json: say('hi') })).status).toBe(200)
    expect(await slow).toContain('408')
  })

  it('torn ones leave nothing behind', async () => {
    await sendRaw(
      [head(RL, 100_000), `{"model_id":"${model}","trajectory_groups":[${JSON.stringify(sampleGroup())},`],
      { pauseMs: 50, waitMs: 200 },
    )
    const left = async () => readdir(join(service.dataDir, 'blobs/incoming'))
    await until(async () => (await left()).length === 0, 'an empty folder of half-written blobs')
    const { body } = await service.json<{ data: TrainingJob[] }>(`${RL}?model_id=${model}`)
    expect(body.data).toEqual([])
  })

  it('longer than announced are refused: what follows is no request', async () => {
    const text = JSON.stringify(say('hi'))
    expect(
      await sendRaw([`${head(CHAT, text.length)}${text}}}}} garbage\r\n\r\n`], { pauseMs: 50, waitMs: 90_000 }),
    ).toMatch(/HTTP\/1\.1 400 /)
    expect((await service.json(CHAT, { json: say('hi') })).status).toBe(200)
  })
})

describe('floods', () => {
  it('beyond the limit get 429 with Retry-After, and those within it are served', async () => {
    const gone = new AbortController()
    const held = Array.from({ length: 4 }, () =>
      service.fetch(CHAT, { json: say('FOREVER', { stream: true }), signal: gone.signal }),
    )
    for (const response of await Promise.all(held)) expect(response.status).toBe(200)
    const refused = await service.fetch(CHAT, { json: say('hi') })
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1'])
    expect(await refused.json()).toMatchObject({ error: { type: 'RateLimitError', code: 429 } })
    gone.abort()
    const statuses = new Set<number>()
    await until(async () => {
      const response = await service.fetch(CHAT, { json: say('hi') })
      await response.text()
      statuses.add(response.status)
      return response.status !== 429
    }, 'room again')
    expect([...statuses].filter((status) => status !== 429)).toEqual([200])
  })
})

describe('deleting what is in use', () => {
  it('a checkpoint that is answering: the answer finishes, new requests get 404', async () => {
    const own = await service.createModel('served')
    const { body: job } = await service.json<TrainingJob>(RL, {
      json: { model_id: own, trajectory_groups: [sampleGroup()] },
    })
    await service.waitForJob(job.id)
    const response = await service.fetch(CHAT, {
      json: say('SLOW and some text to take a while', { model: 'served:step1', stream: true }),
    })
    const reader = response.body?.getReader()
    await reader?.read()
    const removed = await service.json(`/v1/preview/models/${own}/checkpoints`, {
      method: 'DELETE',
      json: { steps: [1] },
    })
    expect(removed.body).toEqual({ deleted_count: 1, not_found_steps: [], in_use_steps: [] })
    let text = ''
    for (let next = await reader?.read(); next?.done === false; next = await reader?.read()) {
      text += new TextDecoder().decode(next.value)
    }
    expect(text).toContain('"finish_reason":"stop"')
    expect(text).not.toContain('"error"')
    expect((await service.json(CHAT, { json: say('x', { model: 'served:step1' }) })).status).toBe(404)
    const fallback = await service.fetch(CHAT, { json: say('x', { model: 'served' }) })
    expect(fallback.headers.get('x-trainyard-checkpoint')).toContain(':step0:')
    await fallback.text()
  })

  it('the parent of a running job is refused', async () => {
    const own = await service.createModel('parent')
    const submit = async (standIn: object, reward: number) =>
      (
        await service.json<TrainingJob>(RL, {
          json: {
            model_id: own,
            trajectory_groups: [sampleGroup([reward, 0])],
            experimental_config: { stand_in: standIn },
          },
        })
      ).body.id
    await service.waitForJob(await submit({ steps: 1 }, 3))
    const running = await submit({ steps: 100_000, delay_ms: 10 }, 4)
    while ((await service.json<TrainingJob>(`${RL}/${running}`)).body.status === 'queued') await sleep(10)
    const refused = await service.json(`/v1/preview/models/${own}/checkpoints`, {
      method: 'DELETE',
      json: { steps: [1] },
    })
    expect([refused.status, JSON.stringify(refused.body)]).toEqual([409, expect.stringContaining('checkpoint_in_use')])
    await service.json(`${RL}/${running}/cancel`, { method: 'POST' })
    await service.waitForJob(running)
    const allowed = await service.json(`/v1/preview/models/${own}/checkpoints`, {
      method: 'DELETE',
      json: { steps: [1] },
    })
    expect(allowed.status).toBe(200)
  })
})

describe('downloads', () => {
  it('whose file is gone or whose client leaves do not disturb the server', async () => {
    const own = await service.createModel('downloaded')
    const { body: job } = await service.json<TrainingJob>(RL, {
      json: { model_id: own, trajectory_groups: [sampleGroup([7, 0])] },
    })
    await service.waitForJob(job.id)
    const root = `/v1/preview/models/${own}/checkpoints/1/files`
    const { body } = await service.json<{ files: { name: string; sha256: string }[] }>(root)
    const left = await service.fetch(`${root}/adapter_model.safetensors`)
    await left.body?.cancel()
    const { sha256 } = body.files[0] ?? { sha256: '' }
    await rm(join(service.dataDir, 'blobs/sha256', sha256.slice(0, 2), sha256.slice(2)))
    const gone = await service.json(`${root}/adapter_config.json`)
    expect([gone.status, JSON.stringify(gone.body)]).toEqual([500, expect.stringContaining('checkpoint_corrupt')])
    expect(JSON.stringify(gone.body)).not.toContain(service.dataDir)
    expect((await service.json('/v1/health')).status).toBe(200)
  })
})

describe('groups a trainer cannot use', () => {
  it.each([
    ['no group', []],
    ['a group of none', [{ trajectories: [] }]],
    ['a group of one', [sampleGroup([1])]],
    ['equal rewards', [sampleGroup([1, 1])]],
    ['no trainable turn', [{ trajectories: [{ messages_and_choices: [{ role: 'user', content: 'x' }], reward: 1 }] }]],
  ])('%s is accepted, for the step must advance', async (name, groups) => {
    const { status, body } = await service.json<TrainingJob>(RL, {
      json: { model_id: model, trajectory_groups: groups },
      headers: { 'idempotency-key': name },
    })
    expect(status, JSON.stringify(body)).toBe(200)
    expect((await service.waitForJob(body.id)).status).toBe('completed')
  })
})
