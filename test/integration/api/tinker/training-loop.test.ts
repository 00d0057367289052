/**
 * Training loops over the Tinker API with real workers: order, repeats, results that stay, lost workers, saved weights.
 */
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import { openSqlite } from '#service/storage/sqlite.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'
import {
  encodeLossCall,
  openTinker,
  plainRows,
  type TestRun,
  type TinkerTestClient,
} from '../../../support/tinker/tinker-client.js'
import { until } from '../../../support/until.js'

const ROWS = plainRows([
  [1, 20, 30, 40, 50, 60],
  [2, 21, 31, 41],
])
const TRAIN = { loss: 'cross_entropy', data: ROWS }
const STEP = { adam_params: { learning_rate: 0.01 } }

let service: TestService
let tinker: TinkerTestClient
let log = ''
beforeAll(async () => {
  const write = (line: string): void => {
    log += line
  }
  service = await createTestService({
    scripted: false,
    logger: createLogger({ destination: { write }, level: 'debug' }),
    resumeIntervalMs: 86_400_000,
  })
  tinker = await openTinker(service)
})
afterAll(() => service.dispose())

/** Sends so many pipelined steps; results are read when all were sent. */
async function steps(run: TestRun, count: number): Promise<number[]> {
  const ids: string[] = []
  for (let i = 0; i < count; i++) {
    ids.push(await run.send(TRAIN))
    await run.post('optim_step', STEP)
  }
  const losses: number[] = []
  for (const id of ids) losses.push((await tinker.loss(id)).loss)
  return losses
}

/** Sends so many steps the last request first, so that all wait when the first comes. @returns ids of gradients and update of each */
async function stepsAtOnce(run: TestRun, count: number): Promise<readonly (readonly [string, string])[]> {
  const seqs = Array.from({ length: count }, () => [run.nextSeq(), run.nextSeq()] as const)
  const ids: (readonly [string, string])[] = []
  for (const [gradients, update] of seqs.reverse()) {
    const second = await run.post('optim_step', STEP, update)
    ids.unshift([await run.send(TRAIN, gradients), second])
  }
  return ids
}

/** Kills the worker that holds a run, once it has one. */
async function killWorker(run: TestRun): Promise<void> {
  const pid = await until(() => {
    const line = log.split('\n').findLast((each) => each.includes('session.started') && each.includes(run.id))
    return line === undefined ? null : (JSON.parse(line) as { worker_pid?: number }).worker_pid
  }, `worker of ${run.id}`)
  process.kill(pid, 'SIGKILL')
}

describe('a training loop', () => {
  it('lowers the loss, answers every row, and the same seed gives the same losses', async () => {
    const losses = await steps(await tinker.createRun({ seed: 7 }), 4)
    expect(losses[3]).toBeLessThan((losses[0] as number) * 0.9)
    expect(await steps(await tinker.createRun({ seed: 7 }), 4)).toEqual(losses)
    const run = await tinker.createRun()
    const answer = await tinker.loss(await run.send(TRAIN))
    expect(answer.logprobs.map((row) => row.length)).toEqual([5, 3])
    const sum = answer.logprobs.flat().reduce((total, logp) => total - logp, 0)
    expect(answer.loss).toBeCloseTo(sum, 5)
  })

  it('carries requests out by their numbers, whatever the order they come in; a repeated one is the same', async () => {
    const run = await tinker.createRun()
    const second = await run.post('optim_step', STEP, 2)
    const third = await run.send({ ...TRAIN, isForwardOnly: true }, 3)
    const first = await run.send(TRAIN, 1)
    expect(await run.send({ ...TRAIN, data: [] }, 1)).toBe(first)
    const before = await tinker.loss(first)
    expect(await tinker.result(second)).toMatchObject({ json: { metrics: { 'grad_norm:mean': expect.any(Number) } } })
    expect((await tinker.loss(third)).loss).toBeLessThan(before.loss)
    // read once more: the answer may have been lost
    expect(await tinker.loss(first)).toEqual(before)
  })

  it('takes one turn of the worker a step where the update waits behind its gradients', async () => {
    const run = await tinker.createRun({ seed: 5 })
    await steps(run, 1)
    const turns = (): number =>
      log
        .split('\n')
        .filter((line) => line.includes('http.request') && line.includes('/turn"') && line.includes(run.id)).length
    const before = turns()
    const count = 8
    const ids = await stepsAtOnce(run, count)
    for (const [, update] of ids) await tinker.result(update)
    // a turn that waited for nothing may be among them
    expect(turns() - before).toBeLessThanOrEqual(count + 2)
  })

  it('adds gradients up over calls: two calls are one with both rows', async () => {
    const apart = await tinker.createRun({ seed: 3 })
    const together = await tinker.createRun({ seed: 3 })
    for (const row of ROWS) await apart.send({ ...TRAIN, data: [row] })
    await together.send(TRAIN)
    const norms: unknown[] = []
    for (const run of [apart, together]) norms.push(await tinker.result(await run.post('optim_step', STEP)))
    const [a, b] = norms.map(
      (each) => (each as { json: { metrics: Record<string, number> } }).json.metrics['grad_norm:mean'],
    )
    expect(Math.abs((a as number) / (b as number) - 1)).toBeLessThan(1e-4)
    const after = { ...TRAIN, isForwardOnly: true }
    const [x, y] = [await tinker.loss(await apart.send(after)), await tinker.loss(await together.send(after))]
    expect(x.loss).toBeCloseTo(y.loss, 3)
  })

  it('refuses by name what is not served, and goes on', async () => {
    const run = await tinker.createRun()
    const refused = await run.send({ loss: 'stable_reinforce', data: ROWS })
    const malformed = await run.send({ loss: 'ppo', data: ROWS })
    const early = await run.post('optim_step', STEP)
    const other = await run.post('optim_step', { optimizer_params: { type: 'dimuon' } })
    const negative = await run.post('optim_step', { adam_params: { learning_rate: -1 } })
    const nameless = await run.post('save_weights', { path: '../x', ttl_seconds: 'long' })
    const good = await run.send(TRAIN)
    const error = async (id: string) => (await tinker.result(id)) as { json: { error: string; category: string } }
    expect((await error(refused)).json).toMatchObject({
      error: expect.stringContaining('got "stable_reinforce"'),
      category: 'user',
    })
    expect((await error(malformed)).json).toMatchObject({
      error: expect.stringContaining('has "weights"'),
      category: 'user',
    })
    expect((await error(early)).json).toMatchObject({
      error: expect.stringContaining('no gradients'),
      category: 'user',
    })
    expect((await error(other)).json).toMatchObject({ error: expect.stringContaining('"dimuon"'), category: 'user' })
    expect((await error(negative)).json).toMatchObject({
      error: expect.stringContaining('learning_rate'),
      category: 'user',
    })
    expect((await error(nameless)).json).toMatchObject({
      error: expect.stringContaining('ttl_seconds'),
      category: 'user',
    })
    expect((await tinker.loss(good)).loss).toBeGreaterThan(0)
  })

  it('reads large rows in a thread, where one is refused under its number, too', async () => {
    const run = await tinker.createRun()
    const data = Array.from({ length: 200 }, () => ROWS).flat()
    expect(encodeLossCall(run.id, 1, { ...TRAIN, data }).length).toBeGreaterThan(16 * 1024)
    const refused = await run.send({ loss: 'stable_reinforce', data })
    const good = await run.send({ ...TRAIN, data, isForwardOnly: true })
    expect(await tinker.result(refused)).toMatchObject({
      json: { error: expect.stringContaining('got "stable_reinforce"'), category: 'user' },
    })
    expect((await tinker.loss(good)).logprobs).toHaveLength(data.length)
  })
})

describe('what was acknowledged is not lost', () => {
  it('a worker that is killed is replaced, with the same losses as undisturbed', async () => {
    const undisturbed = await steps(await tinker.createRun({ seed: 11 }), 6)
    const run = await tinker.createRun({ seed: 11 })
    const losses = await steps(run, 3)
    await killWorker(run)
    losses.push(...(await steps(run, 3)))
    expect(losses).toEqual(undisturbed)
  })

  it('so is a server that is stopped in the middle of a pipelined loop', async () => {
    const undisturbed = await steps(await tinker.createRun({ seed: 12 }), 5)
    const run = await tinker.createRun({ seed: 12 })
    const ids: string[] = []
    for (let i = 0; i < 5; i++) {
      ids.push(await run.send(TRAIN))
      await run.post('optim_step', STEP)
    }
    const first = await tinker.loss(ids[0] as string)
    service = await service.restart()
    const again = await openTinker(service)
    const losses: number[] = []
    for (const id of ids) losses.push((await again.loss(id)).loss)
    expect(losses).toEqual(undisturbed)
    expect(losses[0]).toBe(first.loss)
    tinker = again
  })
})

describe('a fault of the server itself', () => {
  /** What the server does with a row of this kind, with what it throws. */
  async function withFault<T>(table: string, when: string, action: () => Promise<T>): Promise<T> {
    const sqlite = openSqlite(join(service.dataDir, 'trainyard.sqlite3'))
    try {
      sqlite.exec(
        `CREATE TRIGGER refused BEFORE ${table} WHEN ${when} BEGIN SELECT RAISE(ABORT, 'refused by the test'); END`,
      )
      return await action()
    } finally {
      sqlite.exec('DROP TRIGGER IF EXISTS refused')
      sqlite.close()
    }
  }
  const errorOf = async (id: string) => ((await tinker.result(id)) as { json: Readonly<Record<string, unknown>> }).json
  const losses = (): number => log.split('session.worker_lost').length

  it('fails the request it meets and costs no worker; gradients that were not acknowledged are not there', async () => {
    const undisturbed = await steps(await tinker.createRun({ seed: 21 }), 4)
    const run = await tinker.createRun({ seed: 21 })
    const first = await steps(run, 2)
    const lostBefore = losses()
    const refused = await withFault(
      'UPDATE ON session_requests',
      `NEW.session_id = '${run.id}' AND NEW.output IS NOT NULL`,
      async () => errorOf(await run.send(TRAIN)),
    )
    expect(refused).toEqual({
      error: expect.stringContaining('could not be carried out by the server'),
      category: 'server',
    })
    expect([...first, ...(await steps(run, 2))]).toEqual(undisturbed)
    expect(losses()).toBe(lostBefore)
  })

  it('fails of a step that is one order what it meets: gradients, and the update that had none, or the update alone', async () => {
    const undisturbed = await steps(await tinker.createRun({ seed: 23 }), 4)
    const run = await tinker.createRun({ seed: 23 })
    const first = await steps(run, 2)
    const [lostGradients, emptyUpdate] = await withFault(
      'UPDATE ON session_requests',
      `NEW.session_id = '${run.id}' AND NEW.kind = 'forward_backward' AND NEW.output IS NOT NULL`,
      async () => {
        const [ids] = await stepsAtOnce(run, 1)
        return Promise.all((ids ?? []).map(errorOf))
      },
    )
    expect(lostGradients).toEqual({
      error: expect.stringContaining('could not be carried out by the server'),
      category: 'server',
    })
    expect(emptyUpdate).toEqual({ error: expect.stringContaining('no gradients'), category: 'user' })
    const [gradients, lostUpdate] = await withFault(
      'UPDATE ON session_requests',
      `NEW.session_id = '${run.id}' AND NEW.kind = 'optim_step' AND NEW.result IS NOT NULL`,
      async () => {
        const [[first, second] = ['', '']] = await stepsAtOnce(run, 1)
        return [await tinker.loss(first), await errorOf(second)] as const
      },
    )
    expect(gradients.loss).toBe(undisturbed[2])
    expect(lostUpdate).toMatchObject({ category: 'server' })
    // its gradients were acknowledged, and are there
    expect(await errorOf(await run.post('optim_step', STEP))).toMatchObject({ type: 'optim_step' })
    expect([...first, gradients.loss, ...(await steps(run, 1))]).toEqual(undisturbed)
  })

  it('so does one at a save, behind which the worker goes on', async () => {
    const run = await tinker.createRun({ seed: 22 })
    await steps(run, 1)
    const lostBefore = losses()
    const saved = await withFault('INSERT ON session_weights', "NEW.name = 'bad'", async () =>
      errorOf(await run.post('save_weights', { path: 'bad' })),
    )
    expect(saved).toMatchObject({ category: 'server' })
    expect(await errorOf(await run.post('save_weights', { path: 'good' }))).toMatchObject({
      path: `tinker://${run.id}/weights/good`,
    })
    expect(losses()).toBe(lostBefore)
  })
})

describe('saved weights', () => {
  it('a state with its optimizer goes on with the same bits', async () => {
    const run = await tinker.createRun({ seed: 5 })
    await steps(run, 2)
    const saved = await tinker.result(await run.post('save_weights', { path: 'two' }))
    const path = `tinker://${run.id}/weights/two`
    expect(saved).toMatchObject({ json: { path } })
    const resumed = await tinker.resumeRun(path, true)
    expect(await steps(resumed, 2)).toEqual(await steps(run, 2))
    const repeated = await tinker.result(await run.post('save_weights', { path: 'two' }))
    expect(repeated).toMatchObject({ json: { error: expect.stringContaining('exists already'), category: 'user' } })
    const info = await tinker.json('weights_info', { tinker_path: path })
    expect(info.body).toMatchObject({ base_model: 'trainyard/tiny-random', lora_rank: 4, train_unembed: false })
  })

  it('weights for sampling are a checkpoint of a model here, and scores of it are the trainer’s own', async () => {
    const run = await tinker.createRun({ seed: 6 })
    await steps(run, 3)
    const trainer = await tinker.loss(await run.send({ ...TRAIN, isForwardOnly: true }))
    const path = `tinker://${run.id}/sampler_weights/final`
    expect(await tinker.result(await run.post('save_weights_for_sampler', { path: 'final' }))).toMatchObject({
      json: { path },
    })
    const { body: models } = await service.json<{ data: { name: string; id: string }[] }>(
      '/v1/preview/models?project=tinker',
    )
    const name = run.id.replaceAll(':', '-')
    expect(models.data.map((model) => model.name)).toContain(name)
    const { status, body } = await service.json<{ choices: unknown[] }>('/v1/chat/completions', {
      json: { model: `tinker/${name}`, messages: [{ role: 'user', content: 'a' }], max_tokens: 2 },
    })
    expect([status, body.choices.length]).toEqual([200, 1])
    // its step leads back to the loop that made it
    const id = models.data.find((model) => model.name === name)?.id
    const { body: curves } = await service.json(`/v1/preview/models/${id}/metrics`)
    expect(curves).toMatchObject({ steps: [1], job_ids: [null], session_ids: [run.id] })
    expect((await service.json(`/v1/preview/training-sessions/${run.id}`)).body).toMatchObject({
      id: run.id,
      model_id: id,
    })
    const { body: sampler } = await tinker.json<{ sampling_session_id: string }>('create_sampling_session', {
      session_id: tinker.sessionId,
      sampling_session_seq_id: 1,
      model_path: path,
    })
    const ids = [1, 20, 30, 40, 50, 60]
    const { body: future } = await tinker.json<{ request_id: string; sample_sequence_ids: string[] }>('asample', {
      sampling_session_id: sampler.sampling_session_id,
      seq_id: 1,
      num_samples: 2,
      prompt: { chunks: [{ type: 'encoded_text', tokens: ids }] },
      sampling_params: { max_tokens: 3 },
      prompt_logprobs: true,
    })
    expect(future.sample_sequence_ids).toHaveLength(2)
    const outcome = await tinker.result(future.request_id)
    if (!('bytes' in outcome)) throw new Error(JSON.stringify(outcome.json))
    const { readMessage } = await import('../../../support/protobuf-reader.js')
    const message = readMessage(outcome.bytes)
    expect(message.get(1)).toHaveLength(2)
    const scores = [...new Float32Array(new Uint8Array(message.get(2)?.[0] as Uint8Array).buffer)]
    expect(scores[0]).toBeNaN()
    trainer.logprobs[0]?.forEach((logp, i) => {
      expect(scores[i + 1]).toBeCloseTo(logp, 2)
    })
  })

  it('what samples cannot do is refused by name', async () => {
    const ask = async (more: object) =>
      (
        await tinker.json<{ detail: unknown }>('asample', {
          base_model: 'trainyard/tiny-random',
          prompt: { chunks: [{ type: 'encoded_text', tokens: [1] }] },
          sampling_params: { max_tokens: 1 },
          ...more,
        })
      ).body.detail
    expect(await ask({ record_stability_info: true })).toBe('record_stability_info is not served here')
    expect(await ask({ prompt_logprobs_last_n: 1 })).toBe('prompt_logprobs_last_n is not served here')
    expect(await ask({ prompt: { chunks: [{ type: 'image' }] } })).toContain('type "image" is not served here')
  })
})

it('training time is counted for the base model of a run, then for the model it saves to', async () => {
  const seconds = async (model: string): Promise<number> => {
    const query = `project=tinker&model=${encodeURIComponent(model)}`
    const { body } = await service.json<{ total: { training_seconds: number } }>(`/v1/usage?${query}`)
    return body.total.training_seconds
  }
  const before = await seconds('trainyard/tiny-random')
  const run = await tinker.createRun()
  await steps(run, 2)
  expect(await seconds('trainyard/tiny-random')).toBeGreaterThan(before)
  await tinker.result(await run.post('save_weights_for_sampler', { path: 'counted' }))
  const own = `local/tinker/${run.id.replaceAll(':', '-')}`
  const saved = await seconds(own)
  await steps(run, 2)
  expect(await seconds(own)).toBeGreaterThan(saved)
})

it('sessions are listed with what they have done, and end when their owner says so', async () => {
  const run = await tinker.createRun()
  await steps(run, 2)
  await tinker.result(await run.post('save_weights', { path: 'kept' }))
  const path = '/v1/preview/training-sessions'
  const { body: list } = await service.json<{ data: { id: string }[] }>(`${path}?limit=100`)
  expect(list.data.find(({ id }) => id === run.id)).toMatchObject({
    status: 'running',
    project: 'tinker',
    base_model: 'trainyard/tiny-random',
    model_id: null,
    requests: 5,
    waiting_requests: 0,
    optimizer_steps: 2,
    error: null,
  })
  await tinker.createRun()
  const ids: string[] = []
  for (let cursor = ''; ; ) {
    const { body: page } = await service.json<{ data: { id: string }[]; has_more: boolean }>(`${path}?limit=1${cursor}`)
    ids.push(...page.data.map(({ id }) => id))
    if (!page.has_more) break
    cursor = `&after=${ids.at(-1)}`
  }
  const { body: whole } = await service.json<{ data: { id: string }[] }>(`${path}?limit=100`)
  expect(ids).toEqual(whole.data.map(({ id }) => id))
  expect(ids.indexOf(run.id)).toBeGreaterThan(0)
  expect((await service.json(`${path}?after=nope`)).status).toBe(422)
  const waits = await run.post('optim_step', STEP, 100)
  const end = () => service.json(`${path}/${run.id}/end`, { method: 'POST' })
  expect(await end()).toMatchObject({ status: 200, body: { id: run.id, status: 'stopped', requests: 5 } })
  const stopped = {
    json: { error: expect.stringContaining('after request 5: its owner ended it'), category: 'server' },
  }
  expect(await tinker.result(waits)).toMatchObject(stopped)
  expect(await tinker.result(await run.post('optim_step', STEP, 6))).toMatchObject(stopped)
  expect(await end()).toMatchObject({ status: 200, body: { status: 'stopped' } })
  const after = await tinker.resumeRun(`tinker://${run.id}/weights/kept`, true)
  expect(await steps(after, 1)).toHaveLength(1)
})

it('runs of others are not found', async () => {
  const run = await tinker.createRun()
  const { body } = await service.json<{ key: string }>('/v1/preview/keys', {
    json: { name: 'x', scope: 'write', project: 'other' },
  })
  const response = await fetch(`${service.url}/api/v1/training_runs/${run.id}`, {
    headers: { 'x-api-key': `tml-${body.key}` },
  })
  expect(response.status).toBe(404)
})
