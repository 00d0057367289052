/**
 * Training jobs through the API with a stand-in worker: life, events, pages, streams, repeated creates, cancels, SFT files.
 */
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import { trainingJobSchema } from '#contract/wire/training-jobs.js'
import { createTestService, sampleGroup, type TestService } from '../../support/service/create-test-service.js'
import { until } from '../../support/until.js'

let service: TestService
let model: string
let dataRoot: string
let log = ''
beforeAll(async () => {
  dataRoot = await mkdtemp(join(tmpdir(), 'trainyard-data-'))
  const write = (line: string): void => {
    log += line
  }
  const logger = createLogger({ destination: { write } })
  service = await createTestService({ logger, trainingDataRoot: dataRoot, trainWorkers: 2 })
  model = await service.createModel('m')
})
afterAll(async () => {
  await service.dispose()
  await rm(dataRoot, { recursive: true, force: true, maxRetries: 20 })
})

const RL = '/v1/preview/training-jobs'
const SFT = '/v1/preview/sft-training-jobs'
const ROW = '{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}\n'
let seed = 0

/** Submits a job whose payload no other job has. */
async function submit(standIn: object = {}, modelId = model): Promise<string> {
  seed += 1
  const { status, body } = await service.json<{ id: string }>(RL, {
    json: {
      model_id: modelId,
      trajectory_groups: [sampleGroup([seed, 0])],
      experimental_config: { stand_in: standIn, learning_rate: null },
    },
  })
  expect(status, JSON.stringify(body)).toBe(200)
  return body.id
}

async function upload(text: string, query = '?filename=train.jsonl'): Promise<{ id: string; status: number }> {
  const { status, body } = await service.json<{ id: string }>(`/v1/files${query}`, { method: 'POST', body: text })
  return { id: body.id, status }
}

describe('token ids', () => {
  it('that the model has not are refused with their path once its engine is loaded; logs keep what they are given', async () => {
    const chat = { model: 'm', messages: [{ role: 'user', content: 'a' }], max_tokens: 2 }
    expect((await service.json('/v1/chat/completions', { json: chat })).status).toBe(200)
    const withId = (id: number) => {
      const token = { token: `token_id:${id}`, logprob: -0.5, bytes: null, top_logprobs: [] }
      const choice = { finish_reason: 'stop', index: 0, message: { role: 'assistant', content: 'x' } }
      const items = [
        { role: 'user', content: 'a' },
        { ...choice, logprobs: { content: [{ ...token, token: 'token_id:9' }, token] } },
      ]
      return { trajectories: [0, 1].map((reward) => ({ reward, messages_and_choices: items })) }
    }
    // the stand-in's tokens are code points
    const last = 0x110000 - 1
    const json = (id: number) => ({ model_id: model, trajectory_groups: [sampleGroup([90, 0]), withId(id)] })
    const path = 'trajectory_groups[1].trajectories[0].messages_and_choices[1].logprobs.content[1].token'
    const refused = await service.json<{ error: { message: string; param: string } }>(RL, { json: json(last + 1) })
    expect(refused.status).toBe(422)
    expect(refused.body.error).toMatchObject({ code: 'invalid_token_id', param: path })
    expect(refused.body.error.message).toContain(`from 0 to ${last}, got ${last + 1}`)
    const accepted = await service.json<{ id: string }>(RL, { json: json(last) })
    expect(accepted.status).toBe(200)
    await service.waitForJob(accepted.body.id)
    const log = { split: 'val', trajectory_groups: [withId(last + 1)] }
    expect((await service.json(`/v1/preview/models/${model}/log`, { json: log })).status).toBe(200)
  })
})

describe('a job', () => {
  it('runs to a checkpoint that is listed when the end is seen', async () => {
    const before = (await service.json<{ step: number }>(`/v1/preview/models/${model}`)).body.step
    const id = await submit({ steps: 3 })
    const job = await service.waitForJob(id)
    expect(trainingJobSchema.parse(job)).toEqual(job)
    expect(job).toMatchObject({ status: 'completed', kind: 'rl', attempt: 1, num_sequences: 3, num_gradient_steps: 3 })
    expect(job.step).toBe(before + 1)
    expect(job.config).not.toHaveProperty('learning_rate')
    const events = await service.allEvents(id)
    expect(events.map((event) => event.type)).toEqual([
      'training_started',
      'gradient_step',
      'gradient_step',
      'gradient_step',
      'training_ended',
    ])
    for (const event of events) {
      if (event.type !== 'gradient_step') continue
      for (const value of Object.values(event.data)) expect(typeof value).toBe('number')
    }
    const { body } = await service.json<{ data: { step: number; metrics: object }[] }>(
      `/v1/preview/models/${model}/checkpoints?limit=1&order=desc`,
    )
    expect(body.data[0]).toMatchObject({ step: before + 1, metrics: { 'loss/train': 0.5 } })
  })

  it('that fails says why in its record and in its one terminal event, and leaves the model as it was', async () => {
    const before = (await service.json(`/v1/preview/models/${model}`)).body
    const id = await submit({ fail_at: 1 })
    expect(await service.waitForJob(id)).toMatchObject({
      status: 'failed',
      error_code: 'non_finite_loss',
      error_message: 'the loss became NaN at gradient step 1',
      attempt: 1,
    })
    const events = await service.allEvents(id)
    expect(events.at(-1)).toMatchObject({
      type: 'training_failed',
      data: { error_message: 'the loss became NaN at gradient step 1' },
    })
    expect((await service.json(`/v1/preview/models/${model}`)).body).toEqual(before)
  })

  it('whose worker sends an incomplete checkpoint never completes', async () => {
    const id = await submit({ is_empty_checkpoint: true })
    expect(await service.waitForJob(id)).toMatchObject({ status: 'failed', error_code: 'worker_lost', attempt: 3 })
    expect((await service.allEvents(id)).filter((event) => event.type.startsWith('training_'))).toHaveLength(2)
  })

  it('waits for the one before it on the same model, and not for other models', async () => {
    const other = await service.createModel('other')
    const before = (await service.json<{ step: number }>(`/v1/preview/models/${model}`)).body.step
    const first = await submit({ steps: 100_000, delay_ms: 20 })
    const second = await submit({ delay_ms: 1 })
    const ofOther = await service.waitForJob(await submit({ delay_ms: 1 }, other))
    expect(ofOther).toMatchObject({ status: 'completed', step: 1 })
    const statusOf = async (id: string) => (await service.json<{ status: string }>(`${RL}/${id}`)).body.status
    expect([await statusOf(first), await statusOf(second)]).toEqual(['running', 'queued'])
    await service.json(`${RL}/${first}/cancel`, { method: 'POST' })
    const [a, b] = [await service.waitForJob(first), await service.waitForJob(second)]
    expect(Date.parse(b.training_start ?? '')).toBeGreaterThanOrEqual(Date.parse(a.training_end ?? ''))
    expect([a.step, b.step]).toEqual([null, before + 1])
  })

  it('can be stopped while it runs: it ends soon, with the checkpoint of what it has learned', async () => {
    const id = await submit({ steps: 400, delay_ms: 20 })
    const stop = () => service.json<{ is_stop_requested: boolean }>(`${RL}/${id}/stop`, { method: 'POST' })
    await until(async () => {
      const { body } = await service.json<{ num_gradient_steps: number }>(`${RL}/${id}`)
      return body.num_gradient_steps > 0 || null
    }, 'a gradient step')
    const stopped = await stop()
    expect([stopped.status, stopped.body.is_stop_requested]).toEqual([200, true])
    const job = await service.waitForJob(id)
    expect(job).toMatchObject({ status: 'completed', is_stop_requested: true, is_cancel_requested: false })
    expect(job.step).toBeGreaterThan(0)
    expect(job.num_gradient_steps).toBeLessThan(400)
    expect((await stop()).status).toBe(409)
  })

  it('that waits has nothing to keep: it is not stopped but cancelled', async () => {
    const first = await submit({ steps: 400, delay_ms: 20 })
    const second = await submit({ steps: 1 })
    const refused = await service.json<{ error: { code: string; hint: string } }>(`${RL}/${second}/stop`, {
      method: 'POST',
    })
    expect(refused).toMatchObject({ status: 409, body: { error: { code: 'job_not_running' } } })
    expect(refused.body.error.hint).toContain('jobs cancel')
    for (const id of [second, first]) await service.json(`${RL}/${id}/cancel`, { method: 'POST' })
    for (const id of [second, first]) await service.waitForJob(id)
  })

  it('can be cancelled while it runs: it ends soon, with one event', async () => {
    const id = await submit({ steps: 100_000, delay_ms: 10 })
    const stream = await service.fetch(`${RL}/${id}/events`, { headers: { accept: 'text/event-stream' } })
    const reader = stream.body?.getReader()
    await reader?.read()
    const cancelled = await service.json<{ is_cancel_requested: boolean }>(`${RL}/${id}/cancel`, { method: 'POST' })
    expect([cancelled.status, cancelled.body.is_cancel_requested]).toEqual([200, true])
    await reader?.cancel()
    expect(await service.waitForJob(id)).toMatchObject({ status: 'cancelled', error_code: 'cancelled' })
    expect((await service.allEvents(id)).filter((event) => event.type === 'training_failed')).toHaveLength(1)
    expect((await service.json(`${RL}/${id}/cancel`, { method: 'POST' })).status).toBe(200)
    // what was asked for is no warning; the log follows what clients see
    const said = () =>
      log
        .split('\n')
        .filter((line) => line.includes(`"job_id":"${id}"`) && !line.includes('http.request'))
        .map((line) => JSON.parse(line))
    await until(() => said().length > 1, 'the end of the job in the log')
    expect(said().map(({ level, event }) => [level, event])).toEqual([
      [30, 'job.started'],
      [30, 'job.cancelled'],
    ])
  })
})

describe('events', () => {
  it('are paged strictly after the cursor, nothing twice, nothing skipped', async () => {
    const id = await submit({ steps: 7 })
    await service.waitForJob(id)
    const all = await service.allEvents(id)
    const seen: string[] = []
    let after = ''
    for (let page = 0; page < 20; page += 1) {
      const { body } = await service.json<{
        data: { id: string }[]
        has_more: boolean
        first_id: string
        last_id: string
      }>(`${RL}/${id}/events?limit=2${after}`)
      expect([body.first_id, body.last_id]).toEqual([body.data[0]?.id ?? '', body.data.at(-1)?.id ?? ''])
      seen.push(...body.data.map((event) => event.id))
      if (!body.has_more) break
      after = `&after=${body.last_id}`
    }
    expect(seen).toEqual(all.map((event) => event.id))
    const other = await submit({ steps: 1 })
    await service.waitForJob(other)
    const foreign = await service.json(`${RL}/${other}/events?after=${all[0]?.id}`)
    expect([foreign.status, JSON.stringify(foreign.body)]).toEqual([422, expect.stringContaining('invalid_cursor')])
  })

  it('stream as they happen, resume after the last one seen, and end with the job', async () => {
    const id = await submit({ steps: 4, delay_ms: 20 })
    const read = async (headers: Record<string, string> = {}) => {
      const response = await service.fetch(`${RL}/${id}/events`, {
        headers: { accept: 'text/event-stream', ...headers },
      })
      expect(response.headers.get('content-type')).toContain('text/event-stream')
      const blocks = (await response.text()).split('\n\n').filter((block) => block.startsWith('id:'))
      return blocks.map((block) => /^id: (.+)\nevent: (.+)\ndata: (.+)$/.exec(block)?.slice(1) ?? [])
    }
    const live = await read()
    const all = await service.allEvents(id)
    expect(live.map(([eventId, type]) => [eventId, type])).toEqual(all.map((event) => [event.id, event.type]))
    expect(JSON.parse(live[1]?.[2] ?? '')).toEqual(all[1])
    const resumed = await read({ 'last-event-id': all[2]?.id ?? '' })
    expect(resumed.map(([eventId]) => eventId)).toEqual(all.slice(3).map((event) => event.id))
    expect(await read({ 'last-event-id': all.at(-1)?.id ?? '' })).toEqual([])
  })
})

describe('lists', () => {
  it('of jobs are newest first, by model and status, and page exactly', async () => {
    const own = await service.createModel('listed')
    const ids: string[] = []
    for (let i = 0; i < 5; i += 1) {
      ids.push(await submit({ steps: 1 }, own))
    }
    await Promise.all(ids.map((id) => service.waitForJob(id)))
    const first = await service.json<{ data: { id: string }[]; has_more: boolean }>(`${RL}?model_id=${own}&limit=3`)
    const rest = await service.json<{ data: { id: string }[]; has_more: boolean }>(
      `${RL}?model_id=${own}&limit=3&after=${first.body.data.at(-1)?.id}&status=completed`,
    )
    expect([...first.body.data, ...rest.body.data].map((job) => job.id)).toEqual(ids.toReversed())
    expect([first.body.has_more, rest.body.has_more]).toEqual([true, false])
  })

  it('of checkpoints go both ways and survive inserts between pages', async () => {
    const own = await service.createModel('paged')
    const train = async () => service.waitForJob(await submit({ steps: 1 }, own))
    for (let i = 0; i < 3; i += 1) await train()
    const list = async (query: string) =>
      (
        await service.json<{ data: { id: string; step: number }[]; has_more: boolean }>(
          `/v1/preview/models/${own}/checkpoints?${query}`,
        )
      ).body
    const newest = await list('order=desc&limit=2')
    await train()
    const older = await list(`order=desc&limit=2&after=${newest.data[1]?.id}`)
    expect([...newest.data, ...older.data].map((c) => c.step)).toEqual([3, 2, 1])
    expect((await list('limit=2')).data.map((c) => c.step)).toEqual([1, 2])
    expect((await list(`after=${older.data[0]?.id}`)).data.map((c) => c.step)).toEqual([2, 3, 4])

    const removed = await service.json(`/v1/preview/models/${own}/checkpoints`, {
      method: 'DELETE',
      json: { steps: [2, 4, 9, 2] },
    })
    expect(removed.body).toEqual({ deleted_count: 2, not_found_steps: [9], in_use_steps: [] })
    const gone = await service.json(`/v1/preview/models/${own}/checkpoints?after=${newest.data[1]?.id}`)
    expect(gone.status).toBe(422)
    // the latest was deleted: "latest" falls back, step numbers go on
    const chat = await service.fetch('/v1/chat/completions', {
      json: { model: own, messages: [{ role: 'user', content: 'x' }] },
    })
    expect(chat.headers.get('x-trainyard-checkpoint')).toContain(':step3:')
    expect((await train()).step).toBe(5)
  })

  it('of checkpoints show repeated logs as one, and what the job recorded as it was', async () => {
    const own = await service.createModel('logged')
    await service.waitForJob(await submit({ steps: 1 }, own))
    const log = async (split: string, rewards: readonly number[]) => {
      const { trajectories } = sampleGroup(rewards) as { trajectories: object[] }
      const metrics = { 'loss/train': 99, turns: rewards.length }
      const groups = [{ trajectories: trajectories.map((trajectory) => ({ ...trajectory, metrics })) }]
      const request = { json: { split, trajectory_groups: groups } }
      expect((await service.json(`/v1/preview/models/${own}/log`, request)).status).toBe(200)
    }
    await log('val', [1])
    await log('val', [0, 0, 0])
    await log('train', [7])
    const { body } = await service.json<{ data: { metrics: object }[] }>(`/v1/preview/models/${own}/checkpoints`)
    expect(body.data.map((checkpoint) => checkpoint.metrics)).toEqual([
      expect.objectContaining({
        'loss/train': 0.5,
        'train/reward': 0.25,
        'val/reward': 0.25,
        'val/turns': 2.5,
        'val/data/step_num_trajectories': 4,
        'train/data/step_num_trajectories': 1,
      }),
    ])
    expect(Object.keys(body.data[0]?.metrics ?? {}).filter((name) => name.startsWith('data/'))).toEqual([])
  })

  it('of logged groups are newest first, by split and step, and lead to the groups as they were sent', async () => {
    const own = await service.createModel('read back')
    const path = `/v1/preview/models/${own}/log`
    const log = (split: string, rewards: readonly number[]) =>
      service.json(path, { json: { split, trajectory_groups: [sampleGroup(rewards), sampleGroup([5])] } })
    await log('val', [1, 0])
    await service.waitForJob(await submit({ steps: 1 }, own))
    await log('val', [1, 1, 1])
    await log('test', [0])
    type Page = { data: { id: string; split: string; step: number; trajectories: number }[]; has_more: boolean }
    const list = async (query: string) => (await service.json<Page>(`${path}?${query}`)).body
    const all = await list('')
    expect(all.data.map(({ split, step, trajectories }) => [split, step, trajectories])).toEqual([
      ['test', 1, 2],
      ['val', 1, 4],
      ['val', 0, 3],
    ])
    const [, second, third] = all.data
    expect((await list('split=val&step=0')).data).toEqual([third])
    const first = await list('limit=1&split=val')
    expect([first.data, first.has_more]).toEqual([[second], true])
    expect(await list(`limit=1&split=val&after=${second?.id}`)).toMatchObject({ data: [third], has_more: false })
    const groups = await (await service.fetch(`${path}/${second?.id}/groups`)).text()
    expect(
      groups
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line)),
    ).toEqual([sampleGroup([1, 1, 1]), sampleGroup([5])])
    expect((await service.json(`${path}/${model}/groups`)).status).toBe(404)
    expect((await service.json(`${path}?after=${model}`)).status).toBe(422)
  })

  it('of checkpoint files lead to bytes that match their digest', async () => {
    const { body } = await service.json<{ files: { name: string; size_bytes: number; sha256: string }[] }>(
      `/v1/preview/models/${model}/checkpoints/latest/files`,
    )
    expect(body.files.map((file) => file.name)).toEqual([
      'adapter_config.json',
      'adapter_model.safetensors',
      'manifest.json',
      'optimizer.safetensors',
    ])
    const { createHash } = await import('node:crypto')
    for (const file of body.files) {
      const response = await service.fetch(`/v1/preview/models/${model}/checkpoints/latest/files/${file.name}`)
      const bytes = new Uint8Array(await response.arrayBuffer())
      expect(response.headers.get('x-content-sha256')).toBe(file.sha256)
      expect(createHash('sha256').update(bytes).digest('hex')).toBe(file.sha256)
      expect(bytes.length).toBe(file.size_bytes)
    }
  })
})

describe('repeated creates', () => {
  it('of a job make one job, of a model one model', async () => {
    const json = { model_id: model, trajectory_groups: [sampleGroup([0.125, 0])] }
    const jobs = await Promise.all(Array.from({ length: 20 }, () => service.json<{ id: string }>(RL, { json })))
    expect(new Set(jobs.map((job) => job.body.id)).size).toBe(1)
    const again = await service.json<{ id: string }>(RL, { json, headers: { 'idempotency-key': 'fresh' } })
    expect(again.body.id).not.toBe(jobs[0]?.body.id)
    const create = { project: 'tests', name: 'raced', base_model: 'trainyard/tiny-random', return_existing: true }
    const models = await Promise.all(
      Array.from({ length: 100 }, () => service.json<{ id: string }>('/v1/preview/models', { json: create })),
    )
    expect(models.every((result) => result.status === 200)).toBe(true)
    expect(new Set(models.map((result) => result.body.id)).size).toBe(1)
  })

  it('of a model with an Idempotency-Key answer with it instead of a conflict', async () => {
    const create = { project: 'tests', name: 'keyed', base_model: 'trainyard/tiny-random' }
    const headers = { 'idempotency-key': 'model-1' }
    const first = await service.json<{ id: string }>('/v1/preview/models', { json: create, headers })
    const second = await service.json<{ id: string }>('/v1/preview/models', { json: create, headers })
    expect([second.status, second.body.id]).toEqual([200, first.body.id])
    const other = await service.json('/v1/preview/models', { json: { ...create, name: 'other-name' }, headers })
    expect([other.status, JSON.stringify(other.body)]).toEqual([409, expect.stringContaining('idempotency_key_reused')])
  })
})

describe('deleting a model in use', () => {
  it('ends its jobs with their event, frees its name, and answers 404 from then on', async () => {
    const own = await service.createModel('doomed')
    const running = await submit({ steps: 100_000, delay_ms: 10 }, own)
    const queued = await submit({}, own)
    while ((await service.json<{ status: string }>(`${RL}/${running}`)).body.status !== 'running') {
      // the dispatcher claims it within a sweep
    }
    const removed = await service.json(`/v1/preview/models/${own}`, { method: 'DELETE' })
    expect(removed.body).toEqual({ model_id: own, deleted_checkpoints: 0, deleted_run: true })
    for (const id of [running, queued]) {
      expect(await service.waitForJob(id)).toMatchObject({ status: 'cancelled', error_code: 'model_deleted' })
      expect((await service.allEvents(id)).filter((event) => event.type === 'training_failed')).toHaveLength(1)
    }
    expect((await service.json(`/v1/preview/models/${own}`)).status).toBe(404)
    expect(await service.createModel('doomed')).not.toBe(own)
  })
})

describe('SFT data', () => {
  const sft = (url: string, more: object = {}) =>
    service.json<{ id: string; detail: unknown }>(SFT, { json: { model_id: model, training_data_url: url, ...more } })

  it('uploaded raw becomes a job', async () => {
    const { id } = await upload(ROW.repeat(3) + ROW.trimEnd())
    const created = await sft(id, { config: { batch_size: 'auto', learning_rate: '1e-4', assistant_turns: 'last' } })
    expect(created.status).toBe(200)
    expect(await service.waitForJob(created.body.id)).toMatchObject({ kind: 'sft', status: 'completed' })
    const step = (await service.allEvents(created.body.id)).find((event) => event.type === 'gradient_step')
    expect(step?.data).toMatchObject({ num_rows: 4 })
  })

  it('uploaded as a form, with fields after the file, is found by its artifact name', async () => {
    const form = new FormData()
    form.append('file', new Blob([ROW]), 'train.jsonl')
    form.append('purpose', 'fine-tune')
    form.append('artifact', 'wandb-artifact:///local/tests/data:v0')
    const stored = await service.json<{ id: string; artifact: string }>('/v1/files', { method: 'POST', body: form })
    expect(stored).toMatchObject({
      status: 200,
      body: { artifact: 'local/tests/data:v0', filename: 'train.jsonl', bytes: ROW.length },
    })
    const first = await sft('wandb-artifact:///local/tests/data:v0')
    const second = await sft('wandb-artifact:///local/tests/data:v0')
    expect([first.status, second.body.id]).toEqual([200, first.body.id])
    const clash = await upload(`${ROW}${ROW}`, '?artifact=local/tests/data:v0')
    expect(clash.status).toBe(409)
  })

  it('from an address that is not here is refused with what to do', async () => {
    const missing = await sft('wandb-artifact:///local/tests/nope:v0')
    expect([missing.status, JSON.stringify(missing.body)]).toEqual([400, expect.stringContaining('POST /v1/files')])
    for (const url of [
      'http://169.254.169.254/latest',
      'https://10.1.2.3/x.jsonl',
      'ftp://x/y',
      'file-00000000-0000-0000-0000-000000000000',
      'file:///etc/passwd',
      'file://host/etc/passwd',
      'x',
    ]) {
      const refused = await sft(url)
      expect(refused.status, url).toBe(400)
      expect(JSON.stringify(refused.body)).not.toContain('root:')
    }
  })

  it('from a local file is read below the configured folder only, links included', async () => {
    await writeFile(join(dataRoot, 'ok.jsonl'), ROW)
    await symlink('/etc/passwd', join(dataRoot, 'link.jsonl'))
    expect((await sft(pathToFileURL(join(dataRoot, 'ok.jsonl')).href)).status).toBe(200)
    for (const name of ['link.jsonl', '../../../etc/passwd', 'missing.jsonl', '.']) {
      expect((await sft(`${pathToFileURL(dataRoot).href}/${name}`)).status, name).toBe(400)
    }
  })

  it.each([
    ['an empty file', '', 'no example'],
    ['a broken line', `${ROW}{"messages":\n${ROW}`, 'line 2'],
    ['a torn last line', `${ROW}{"messages":[{"ro`, 'line 2'],
    ['a wrong last role', `${ROW}{"messages":[{"role":"user","content":"x"}]}\n`, 'line 2'],
    ['no messages', '{"prompt":"x"}\n', 'line 1'],
  ])('with %s is refused with its line', async (_, text, message) => {
    const { id } = await upload(text)
    const refused = await sft(id)
    expect(refused.status).toBe(400)
    expect(String(refused.body.detail).toLowerCase()).toContain(message)
  })

  it('with a byte order mark and CRLF is read', async () => {
    const { id } = await upload(`\ufeff${ROW.trimEnd()}\r\n${ROW.trimEnd()}\r\n`)
    expect((await sft(id)).status).toBe(200)
  })

  it('with a learning rate per batch must have one value for each', async () => {
    const { id } = await upload(ROW.repeat(5))
    const wrong = await sft(id, { config: { batch_size: 2, learning_rate: [1e-4, 1e-4] } })
    expect([wrong.status, JSON.stringify(wrong.body)]).toEqual([422, expect.stringContaining('config.learning_rate')])
    const right = await sft(id, { config: { batch_size: 2, learning_rate: [1e-4, 1e-4, 1e-5] } })
    expect(right.status).toBe(200)
  })

  it('as a form that is torn is refused', async () => {
    const torn = await service.fetch('/v1/files', {
      method: 'POST',
      body: '--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\nabc',
      headers: { 'content-type': 'multipart/form-data; boundary=b' },
    })
    expect([torn.status, await torn.text()]).toEqual([400, expect.stringContaining('invalid_multipart')])
    const none = new FormData()
    none.append('purpose', 'x')
    expect((await service.fetch('/v1/files', { method: 'POST', body: none })).status).toBe(400)
  })
})

describe('the KL reference of an RL job', () => {
  const post = (config: object) =>
    service.json<{ detail: { loc: string[]; msg: string }[] }>(RL, {
      json: {
        model_id: model,
        trajectory_groups: [sampleGroup([++seed, 0])],
        experimental_config: { kl_penalty_coef: 0.1, stand_in: { steps: 1 }, ...config },
      },
    })

  it('may be a checkpoint of this or of another model with the same base', async () => {
    const other = await service.createModel('reference')
    const made = await submit({ steps: 1 }, other)
    await service.waitForJob(made)
    await service.waitForJob(await submit({ steps: 1 }))
    for (const config of [
      { kl_penalty_reference_step: 1 },
      { kl_penalty_reference_step: 0 },
      { kl_penalty_step_lag: 100 },
      { kl_ref_adapter_path: 'wandb-artifact:///local/tests/reference:step1' },
    ]) {
      const { status, body } = await post(config)
      expect([status, JSON.stringify(body)]).toEqual([200, expect.anything()])
    }
  })

  it('is refused when it does not exist', async () => {
    for (const [config, message] of [
      [{ kl_penalty_reference_step: 999 }, 'no checkpoint at step 999'],
      [{ kl_ref_adapter_path: 'tests/nobody:step1' }, 'tests/nobody:step1'],
      [{ kl_ref_adapter_path: '/adapters/one' }, 'must be a checkpoint of this service'],
    ] as const) {
      const { status, body } = await post(config)
      expect([status, JSON.stringify(body)]).toEqual([422, expect.stringContaining(message)])
    }
  })
})
