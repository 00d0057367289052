/**
 * Two servers on one PostgreSQL database and one bucket, each a process of its own with real workers: what one is told the other knows at once.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import type { TrainingEvent, TrainingJob } from '#contract/wire/training-jobs.js'
import { startKillableServer } from '../../support/service/killable-server.js'
import {
  type Group,
  NO_SEVERAL_SERVERS,
  type SharedParts,
  startGroup,
  startSharedParts,
} from '../../support/storage/several-servers.js'
import { until } from '../../support/until.js'

const IDLE = { trainWorkers: 0 }
const JOBS = '/v1/preview/training-jobs'

describe.skipIf(NO_SEVERAL_SERVERS !== null)(NO_SEVERAL_SERVERS ?? 'two servers', () => {
  let shared: SharedParts
  let group: Group | null = null
  beforeAll(async () => {
    shared = await startSharedParts()
  })
  afterAll(() => shared?.stop())
  afterEach(async () => {
    await group?.stop()
    group = null
  })

  it('a job that one is given is trained by the other, and its events are told by the first as they come', async () => {
    const parts = await shared.newGroup()
    group = await startGroup(parts, [{ trainWorkers: 0 }, { trainWorkers: 1 }])
    const [first, second] = [group.at(0), group.at(1)]
    const modelId = await first.createModel()
    const jobId = await first.submitRows(modelId, 6)
    const headers = { authorization: `Bearer ${first.apiKey}`, accept: 'text/event-stream' }
    const stream = await fetch(`${first.url}${JOBS}/${jobId}/events`, { headers })
    const told = (await stream.text())
      .split('\n')
      .filter((line) => line.startsWith('data: {'))
      .map((line) => JSON.parse(line.slice(6)) as TrainingEvent)
    expect(told.map(({ type }) => type)).toEqual([
      'training_started',
      ...Array.from({ length: 6 }, () => 'gradient_step'),
      'training_ended',
    ])
    const job = await first.call<TrainingJob>(`${JOBS}/${jobId}`)
    expect(job).toMatchObject({ status: 'completed', attempt: 1 })
    // the first answers with the checkpoint that it never had on its disk
    const chat = { model: 'm', messages: [{ role: 'user', content: 'Count.' }], max_tokens: 4, temperature: 0 }
    const answers = await Promise.all([first, second].map(({ url }) => ask(url, chat)))
    expect(answers[0]).toEqual(answers[1])

    async function ask(url: string, json: object): Promise<unknown> {
      const response = await fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${first.apiKey}`, 'content-type': 'application/json' },
        body: JSON.stringify(json),
      })
      expect(response.status).toBe(200)
      return ((await response.json()) as { choices: unknown }).choices
    }
  })

  it('a create that is sent to both at once is made once, by the key of either', async () => {
    group = await startGroup(await shared.newGroup(), [IDLE, IDLE])
    const model = { project: 'p', name: 'm', base_model: 'trainyard/tiny-random', return_existing: true }
    const models = await Promise.all(
      Array.from({ length: 8 }, () => group?.ask<{ id: string }>('/v1/preview/models', { json: model })),
    )
    expect(new Set(models.map((made) => made?.id)).size).toBe(1)
    const json = { model_id: models[0]?.id, trajectory_groups: [groupOf(1), groupOf(2)] }
    const jobs = await Promise.all(
      Array.from({ length: 40 }, (_, i) => group?.ask<{ id: string }>(JOBS, { json, key: `key ${i % 4}` })),
    )
    expect(new Set(jobs.map((job) => job?.id)).size).toBe(4)
  })

  it('a code that one made signs in at the other, a ticket of one fetches a file at the other, each once', async () => {
    group = await startGroup(await shared.newGroup(), [IDLE, IDLE])
    const [first, second] = [group.at(0), group.at(1)]
    const { code } = await first.call<{ code: string }>('/v1/preview/sessions/codes', {})
    const exchange = ({ url }: { url: string }) =>
      fetch(`${url}/v1/preview/sessions/exchange`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ code }),
      })
    const signedIn = await Promise.all([second, first, second].map(exchange))
    expect(signedIn.map(({ status }) => status).sort()).toEqual([200, 401, 401])
    const { id } = await group.ask<{ id: string }>('/v1/files?filename=rows', { body: '{"messages":[]}\n' })
    const made = await first.call<{ url: string }>('/v1/preview/downloads', { path: `/v1/files/${id}/content` })
    const { pathname, search } = new URL(made.url)
    const fetched = await Promise.all([second, first].map(({ url }) => fetch(url + pathname + search)))
    expect(fetched.map(({ status }) => status).sort()).toEqual([200, 401])
  })

  it('a response that one answered is gone on from, got and deleted at the other', async () => {
    // each row is there before its answer, on a busy machine too
    const patient = { ...IDLE, tuning: { plugins: { responses: { patienceMs: 30_000 } } } }
    group = await startGroup(await shared.newGroup(), [patient, patient])
    const servers = [group.at(0), group.at(1)] as const
    interface Kept {
      readonly id: string
      readonly output: unknown
      readonly usage: { readonly input_tokens: number }
    }
    let last: Kept | null = null
    // each at once behind the other's answer
    for (let i = 0; i < 12; i += 1) {
      const json = { input: 'Count.', max_output_tokens: 2, temperature: 0, previous_response_id: last?.id }
      const next: Kept = await at(i).call<Kept>('/v1/responses', json)
      expect(next.usage.input_tokens).toBeGreaterThan(last?.usage.input_tokens ?? 0)
      expect(await at(i + 1).call<Kept>(`/v1/responses/${next.id}`)).toEqual(next)
      last = next
    }
    const path = `/v1/responses/${last?.id}`
    expect(await statusOf(0, 'DELETE')).toBe(200)
    expect([await statusOf(0, 'GET'), await statusOf(1, 'GET'), await statusOf(1, 'DELETE')]).toEqual([404, 404, 404])

    function at(index: number) {
      return servers[index % 2] as (typeof servers)[0]
    }
    async function statusOf(index: number, method: string): Promise<number> {
      const headers = { authorization: `Bearer ${at(index).apiKey}` }
      return (await fetch(at(index).url + path, { method, headers })).status
    }
  })

  it('an event is told to a webhook once, whichever of them stored it', async () => {
    const heard: string[] = []
    const receiver = createServer((request, response) => {
      heard.push(String(request.headers['webhook-id']))
      request.resume().on('end', () => response.writeHead(204).end())
    })
    await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void receiver.close())
    const { port } = receiver.address() as AddressInfo
    const tuning = { plugins: { webhooks: { pollMs: 20 } } }
    const hosts = [`127.0.0.1:${port}`]
    group = await startGroup(
      await shared.newGroup(),
      [IDLE, IDLE].map((each) => ({ ...each, webhookHosts: hosts, tuning })),
    )
    await group.ask('/v1/preview/webhooks', {
      json: { url: `http://127.0.0.1:${port}/`, events: ['training_job.cancelled'] },
    })
    const modelId = await group.at(0).createModel()
    const ids: string[] = []
    for (let i = 0; i < 12; i += 1) {
      const json = { model_id: modelId, trajectory_groups: [groupOf(i)] }
      const { id } = await group.ask<{ id: string }>(JOBS, { json, key: `job ${i}` })
      await group.ask(`${JOBS}/${id}/cancel`, { json: {} })
      ids.push(id)
    }
    await until(() => new Set(heard).size >= ids.length, 'every cancel to be told')
    // nothing is due any more, so nothing can come
    const due =
      "select id from webhook_deliveries where status <> 'delivered' union all select event_id from webhook_events"
    await until(
      async () => (await shared.postgres.query(String(group?.database), due)).length === 0,
      'every delivery to end',
    )
    expect(heard.length).toBe(ids.length)
  })

  it('one that would be alone is refused beside them, and so are they beside it', async () => {
    const parts = await shared.newGroup()
    group = await startGroup(parts, [IDLE])
    const alone = { ...parts, singleServer: true, dataDir: `${group.places[0]?.dataDir}-alone` }
    await expect(startKillableServer(alone)).rejects.toThrow('database_in_use')
    await group.stop()
    const first = await startKillableServer(alone)
    onTestFinished(() => first.kill('SIGTERM'))
    await expect(startKillableServer({ ...parts, dataDir: `${alone.dataDir}-too` })).rejects.toThrow('database_in_use')
  })
})

function groupOf(seed: number): object {
  const trajectory = (reward: number) => ({
    messages_and_choices: [
      { role: 'user', content: `Say ${seed}.` },
      { role: 'assistant', content: 'yes' },
    ],
    reward,
  })
  return { trajectories: [trajectory(1), trajectory(0)] }
}
