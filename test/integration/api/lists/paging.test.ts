/**
 * Every list that pages, while others add to it and delete from it: what was there at the first page and still is comes exactly once,
 * in order; a cursor that was deleted, belongs to another list, or never was is refused by name.
 *
 * The lists are those of the API's own description, so that none is forgotten.
 */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { TrainingEvent } from '#contract/wire/training-jobs.js'
import { createTestService, sampleGroup, type TestService } from '../../../support/service/create-test-service.js'
import { until } from '../../../support/until.js'

const RL = '/v1/preview/training-jobs'
const TUNING = '/v1/fine_tuning/jobs'

interface Page {
  readonly data: readonly { readonly id: string }[]
  readonly has_more: boolean
}

interface PagedList {
  /** Filled in, without `after` and `limit`. */
  readonly path: string
  readonly isNewestFirst?: boolean
  /** Adds one item. @returns its id */
  add(): Promise<string>
  /** Null for what this test still needs. */
  remove?(id: string): Promise<unknown>
  /** A cursor that is good in another list of the same kind. */
  foreign(): Promise<string>
}

let service: TestService
let receiver: Server
/** A key of another tenant. */
let other: { readonly authorization: string }
let count = 0
/** The model whose checkpoints are paged both ways. */
let trained: string | null = null
beforeAll(async () => {
  receiver = createServer((_, response) => response.end())
  await new Promise<void>((done) => receiver.listen(0, '127.0.0.1', done))
  service = await createTestService({
    webhookHosts: [host()],
    gatewayHosts: [host()],
    tuning: { plugins: { webhooks: { pollMs: 20 } } },
  })
  other = { authorization: `Bearer ${(await service.createKey({ entity: 'others' })).key}` }
})
afterAll(async () => {
  await service.dispose()
  receiver.closeAllConnections()
  await new Promise((done) => receiver.close(done))
})

const host = () => `127.0.0.1:${(receiver.address() as AddressInfo).port}`

async function ok<T = { id: string }>(path: string, init?: Parameters<TestService['json']>[1]): Promise<T> {
  const { status, body } = await service.json<T>(path, init)
  expect(status, `${path}: ${JSON.stringify(body)}`).toBe(200)
  return body
}
const post = async (path: string, json: object, headers = {}) => (await ok(path, { json, headers })).id
const remove = (path: string) => (id: string) => ok(`${path}/${id}`, { method: 'DELETE' })
const addEval = (headers = {}) => {
  const check = { type: 'string_check', name: 'x', operation: 'eq', input: '{{sample.output_text}}', reference: 'x' }
  const json = { name: 'paged', data_source_config: { type: 'custom' }, testing_criteria: [check] }
  return post('/v1/evals', json, headers)
}
const addEvalRun = (path: string) => {
  const content = [{ item: {}, sample: 'x' }]
  return post(path, { data_source: { type: 'jsonl', source: { type: 'file_content', content } } })
}
const firstOf = async (path: string) => (await ok<Page>(path)).data[0]?.id ?? ''

const addModel = (headers = {}) =>
  post('/v1/preview/models', { project: 'tests', name: `m${++count}`, base_model: 'trainyard/tiny-random' }, headers)
/** Each with another reward: the same job twice is one job. */
const addJob = (modelId: string, headers = {}) =>
  post(RL, { model_id: modelId, trajectory_groups: [sampleGroup([++count, 0])] }, headers)
async function train(modelId: string): Promise<string> {
  const id = await addJob(modelId)
  await service.waitForJob(id)
  return id
}

async function addFile(headers = {}): Promise<string> {
  const row = { messages: ['user', 'assistant'].map((role) => ({ role, content: `${++count}` })) }
  const form = new FormData()
  form.set('purpose', 'fine-tune')
  form.set('file', new Blob([JSON.stringify(row)]), 'rows.jsonl')
  return (await ok<{ id: string }>('/v1/files', { method: 'POST', body: form, headers })).id
}

async function addBatch(headers = {}): Promise<string> {
  const line = { custom_id: `${++count}`, method: 'POST', url: '/v1/completions', body: { prompt: 'x', max_tokens: 1 } }
  const init = { method: 'POST', body: JSON.stringify(line), headers }
  const { id } = await ok('/v1/files?purpose=batch', init)
  return post('/v1/batches', { input_file_id: id, endpoint: line.url, completion_window: '24h' }, headers)
}

async function tune(headers = {}): Promise<string> {
  return post(TUNING, { model: 'trainyard/tiny-random', training_file: await addFile(headers) }, headers)
}
const tuned = async (id: string) => {
  await until(
    async () => (await ok<{ status: string }>(`${TUNING}/${id}`)).status === 'succeeded',
    'a fine-tuned model',
  )
  return id
}

async function addRun(display: string): Promise<string> {
  const input = { entityName: 'local', modelName: 'tests', name: `run-${++count}`, displayName: display }
  const query = `mutation M($input: I!) { upsertBucket(input: $input) { bucket { id } } }`
  const answer = await ok<{ data: { upsertBucket: { bucket: { id: string } } } }>('/graphql', {
    json: { query, variables: { input } },
  })
  return answer.data.upsertBucket.bucket.id
}

async function modelNamed(): Promise<{ readonly id: string; readonly name: string }> {
  const id = await addModel()
  return { id, name: `m${count}` }
}

const LISTS: Readonly<Record<string, () => Promise<PagedList>>> = {
  '/v1/preview/models': async () => ({
    path: '/v1/preview/models?project=tests',
    add: addModel,
    remove: remove('/v1/preview/models'),
    foreign: () => addModel(other),
  }),
  ...Object.fromEntries(
    (['asc', 'desc'] as const).map((order) => [
      `/v1/preview/models/{model_id}/checkpoints ${order}`,
      async () => {
        trained ??= await addModel()
        const model = trained
        const path = `/v1/preview/models/${model}/checkpoints`
        return {
          path: `${path}?order=${order}`,
          isNewestFirst: order === 'desc',
          add: async () => {
            await train(model)
            return firstOf(`${path}?order=desc&limit=1`)
          },
          remove: async (id: string) => {
            const { data } = await ok<{ data: { id: string; step: number }[] }>(`${path}?limit=100`)
            const steps = data.filter((checkpoint) => checkpoint.id === id).map(({ step }) => step)
            return ok(path, { method: 'DELETE', json: { steps } })
          },
          foreign: async () => {
            const another = await addModel()
            await train(another)
            return firstOf(`/v1/preview/models/${another}/checkpoints`)
          },
        }
      },
    ]),
  ),
  '/v1/preview/models/{model_id}/runs': async () => {
    const { id, name } = await modelNamed()
    return { path: `/v1/preview/models/${id}/runs?`, add: () => addRun(name), foreign: () => addRun('another') }
  },
  '/v1/preview/models/{model_id}/runs/{run_id}/history': async () => {
    const { id, name } = await modelNamed()
    const run = await addRun(name)
    const stream = `/files/local/tests/run-${count}/file_stream`
    let line = 0
    return {
      path: `/v1/preview/models/${id}/runs/${run}/history?`,
      add: async () => {
        const history = { offset: line, content: [JSON.stringify({ x: line })] }
        await ok(stream, { json: { files: { 'wandb-history.jsonl': history } } })
        return String(line++)
      },
      // a line's id is its place
      foreign: async () => '99',
    }
  },
  '/v1/preview/models/{model_id}/log': async () => {
    const path = `/v1/preview/models/${await addModel()}/log`
    const log = async (to: string) => {
      await ok(to, { json: { split: 'val', trajectory_groups: [sampleGroup([++count])] } })
      return firstOf(`${to}?limit=1`)
    }
    return {
      path: `${path}?`,
      isNewestFirst: true,
      add: () => log(path),
      foreign: async () => log(`/v1/preview/models/${await addModel()}/log`),
    }
  },
  '/v1/preview/models/{model_id}/probes': async () => {
    const pathOf = async () => `/v1/preview/models/${await addModel()}/probes`
    const path = await pathOf()
    const add = (to: string) => post(to, { messages: [{ role: 'user', content: `${++count}` }] })
    return { path: `${path}?`, add: () => add(path), remove: remove(path), foreign: async () => add(await pathOf()) }
  },
  [RL]: async () => {
    const model = await addModel()
    return {
      path: `${RL}?model_id=${model}`,
      isNewestFirst: true,
      add: () => addJob(model),
      foreign: async () => addJob(await addModel(other), other),
    }
  },
  '/v1/preview/models/{model_id}/marks': async () => {
    const path = `/v1/preview/models/${await addModel()}/marks`
    const [asked, answer] = ['user', 'assistant'].map((role) => ({ role, content: role }))
    const add = (to: string) => post(to, { mark: 'good', messages: [asked], answer })
    return {
      path: `${path}?`,
      add: () => add(path),
      remove: remove(path),
      foreign: async () => add(`/v1/preview/models/${await addModel()}/marks`),
      isNewestFirst: true,
    }
  },
  '/v1/preview/loops': async () => {
    const grader = { type: 'string_check', input: '{{sample.output_text}}', reference: 'a', operation: 'eq' }
    const add = async (headers = {}) => {
      const json = { model_id: await addModel(headers), prompts_file: await addFile(headers), grader, steps: 1 }
      const id = await post('/v1/preview/loops', json, headers)
      // listed, and not run
      await ok(`/v1/preview/loops/${id}/cancel`, { method: 'POST', headers })
      return id
    }
    return { path: '/v1/preview/loops?', isNewestFirst: true, add, foreign: () => add(other) }
  },
  '/v1/preview/rollouts': async () => {
    const add = async (headers = {}) =>
      post('/v1/preview/rollouts', { model: 'trainyard/tiny-random', run: 'paged' }, headers)
    const path = '/v1/preview/rollouts'
    return { path: `${path}?`, isNewestFirst: true, add, remove: remove(path), foreign: () => add(other) }
  },
  '/v1/evals': async () => ({
    path: '/v1/evals?',
    add: addEval,
    remove: remove('/v1/evals'),
    foreign: () => addEval(other),
  }),
  '/v1/evals/{eval_id}/runs': async () => {
    const path = `/v1/evals/${await addEval()}/runs`
    return {
      path: `${path}?`,
      add: () => addEvalRun(path),
      remove: remove(path),
      foreign: async () => addEvalRun(`/v1/evals/${await addEval()}/runs`),
    }
  },
  '/v1/preview/gateway-routes': async () => {
    const path = '/v1/preview/gateway-routes'
    const add = (headers = {}) => post(path, { name: `r${++count}`, upstream: `http://${host()}/` }, headers)
    return { path: `${path}?`, isNewestFirst: true, add, remove: remove(path), foreign: () => add(other) }
  },
  '/v1/preview/webhooks': async () => {
    const add = (headers = {}) => post('/v1/preview/webhooks', { url: `http://${host()}/` }, headers)
    return {
      path: '/v1/preview/webhooks?',
      add,
      remove: remove('/v1/preview/webhooks'),
      foreign: () => add(other),
    }
  },
  '/v1/preview/webhooks/{webhook_id}/deliveries': async () => {
    const create = async () => {
      const events = ['training_job.completed']
      const path = `/v1/preview/webhooks/${await post('/v1/preview/webhooks', { url: `http://${host()}/`, events })}/deliveries`
      await train(await addModel())
      return { path, first: await until(async () => (await firstOf(path)) || null, 'a delivery') }
    }
    const { path, first } = await create()
    return {
      path: `${path}?`,
      isNewestFirst: true,
      add: () => ok(`${path}/${first}/redeliver`, { method: 'POST' }).then(({ id }) => id),
      foreign: async () => (await create()).first,
    }
  },
  ...Object.fromEntries(
    (['asc', 'desc'] as const).map((order) => [
      `/v1/files ${order}`,
      async () => ({
        path: `/v1/files?purpose=fine-tune&order=${order}`,
        isNewestFirst: order === 'desc',
        add: addFile,
        remove: remove('/v1/files'),
        foreign: () => addFile(other),
      }),
    ]),
  ),
  '/v1/batches': async () => ({
    path: '/v1/batches?',
    isNewestFirst: true,
    add: addBatch,
    foreign: () => addBatch(other),
  }),
  [TUNING]: async () => ({ path: `${TUNING}?`, isNewestFirst: true, add: tune, foreign: () => tune(other) }),
  '/v1/preview/sessions': async () => {
    const add = (headers = {}) => post('/v1/preview/sessions', {}, headers)
    return {
      path: '/v1/preview/sessions?',
      add,
      remove: remove('/v1/preview/sessions'),
      foreign: () => add(other),
    }
  },
  '/v1/preview/keys': async () => {
    const add = (headers = {}) => post('/v1/preview/keys', { scope: 'read', name: `k${++count}` }, headers)
    const { key_id: own } = await ok<{ key_id: string }>('/v1/whoami')
    return {
      path: '/v1/preview/keys?',
      add,
      remove: async (id) => (id === own ? null : remove('/v1/preview/keys')(id)),
      foreign: () => add(other),
    }
  },
}

/** Lists that nobody adds to from outside: below, or where what they list is tested. */
const OTHERS = [
  // test/integration/api/chat/protocol.test.ts
  '/v1/models',
  // test/integration/api/tinker/training-loop.test.ts, test/integration/api/training/rollouts.test.ts,
  // test/integration/api/models/probes.test.ts
  '/v1/preview/training-sessions',
  // test/integration/api/access/audit.test.ts: whatever is done adds to it
  '/v1/preview/audit',
  `${RL}/{training_job_id}/groups`,
  '/v1/preview/models/{model_id}/probes/{probe_id}/answers',
  `${RL}/{training_job_id}/events`,
  // test/integration/api/evals.test.ts
  '/v1/evals/{eval_id}/runs/{eval_run_id}/output_items',
  // test/integration/plugins/loops.test.ts
  '/v1/preview/loops/{loop_id}/events',
  `${TUNING}/{fine_tuning_job_id}/events`,
  `${TUNING}/{fine_tuning_job_id}/checkpoints`,
  '/v1/responses/{response_id}/input_items',
  '/v1/preview/events',
]

const page = (path: string, limit: number, after?: string) =>
  ok<Page>(`${path}${path.endsWith('?') ? '' : '&'}limit=${limit}${after === undefined ? '' : `&after=${after}`}`)

/** All ids, two to a page; `between` runs after every page. */
async function walk(path: string, between: (pages: number) => Promise<unknown>): Promise<string[]> {
  const ids: string[] = []
  for (let pages = 1; ; pages += 1) {
    const { data, has_more: hasMore } = await page(path, 2, ids.at(-1))
    ids.push(...data.map(({ id }) => id))
    if (!hasMore) return ids
    await between(pages)
  }
}

async function expectRefused(path: string, cursor: string): Promise<void> {
  const query = `${path}${/\?$|\?.*&$/.test(path) ? '' : path.includes('?') ? '&' : '?'}after=${cursor}`
  const { status, body } = await service.json<{ error?: { code?: string; param?: string } }>(query)
  expect([status >= 400 && status < 500, body.error], `${query}: ${status}`).toEqual([
    true,
    expect.objectContaining({ code: 'invalid_cursor', param: 'after' }),
  ])
}

it('knows every list of the API', async () => {
  const { paths } = await ok<{ paths: Record<string, { get?: { parameters?: { name: string }[] } }> }>('/openapi.json')
  const paged = Object.entries(paths).filter(([, { get }]) => get?.parameters?.some(({ name }) => name === 'after'))
  const known = new Set([...Object.keys(LISTS).map((name) => name.split(' ')[0]), ...OTHERS])
  expect(paged.map(([path]) => path).sort()).toEqual([...known].sort())
})

describe.each(Object.entries(LISTS))('%s', (_, create) => {
  it('loses and repeats nothing while it is paged, and knows its own cursors', async () => {
    const { path, add, remove, foreign, isNewestFirst = false } = await create()
    let there: string[] = []
    while (there.length < 6) {
      if (there.length > 0 || (await page(path, 1)).data.length === 0) await add()
      there = (await page(path, 100)).data.map(({ id }) => id)
    }
    const added: string[] = []
    const removed: string[] = []
    const seen = await walk(path, async (pages) => {
      if (pages > 2) return
      added.push(await add())
      // one that was seen, and is not the cursor; and one that comes later
      for (const id of [there[2 * pages - 2], there[there.length - pages]]) {
        if (remove === undefined || id === undefined) continue
        if ((await remove(id)) !== null) removed.push(id)
      }
    })
    const later = remove === undefined ? [] : [there[there.length - 1], there[there.length - 2]]
    expect(added).toHaveLength(2)
    expect(seen).toEqual([...there.filter((id) => !later.includes(id)), ...(isNewestFirst ? [] : added)])

    for (const cursor of [...removed, await foreign(), 'nope', '00000000-0000-7000-8000-000000000000']) {
      await expectRefused(path, cursor)
    }
  })
})

describe('what a job says', () => {
  it('is paged while it is said, nothing twice, nothing skipped', async () => {
    const model = await addModel()
    const json = {
      model_id: model,
      trajectory_groups: [sampleGroup()],
      // more than it will come to: it is cancelled
      experimental_config: { stand_in: { steps: 1_000_000, delay_ms: 10 } },
    }
    const id = await post(RL, json)
    const path = `${RL}/${id}/events`
    const seen: TrainingEvent[] = []
    const follow = (isThere: () => boolean, what: string) =>
      until(async () => {
        const { data } = await page(`${path}?`, 7, seen.at(-1)?.id)
        seen.push(...(data as TrainingEvent[]))
        return isThere()
      }, what)
    await follow(() => seen.length > 20, 'events of a job that runs')
    await ok(`${RL}/${id}/cancel`, { method: 'POST' })
    await follow(() => seen.at(-1)?.type === 'training_failed', 'the last event')
    expect(seen).toEqual(await service.allEvents(id))
    const another = await train(model)
    for (const cursor of [await firstOf(`${RL}/${another}/events`), 'nope']) {
      await expectRefused(path, cursor)
      const headers = { accept: 'text/event-stream', 'last-event-id': cursor }
      expect((await service.fetch(path, { headers })).status).toBe(422)
    }
  })

  it('is paged in OpenAI’s form too, as its checkpoint is', async () => {
    const [id, another] = [await tuned(await tune()), await tuned(await tune())]
    const events = `${TUNING}/${id}/events`
    const all = (await page(`${events}?`, 100)).data.map((event) => event.id)
    expect(all.length).toBeGreaterThan(3)
    expect(await walk(`${events}?`, async () => undefined)).toEqual(all)
    const checkpoints = `${TUNING}/${id}/checkpoints`
    const [checkpoint] = (await page(`${checkpoints}?`, 100)).data
    expect((await page(`${checkpoints}?`, 100, checkpoint?.id)).data).toEqual([])
    await expectRefused(events, await firstOf(`${TUNING}/${another}/events`))
    await expectRefused(checkpoints, await firstOf(`${TUNING}/${another}/checkpoints`))
    for (const path of [events, checkpoints]) await expectRefused(path, 'nope')
  })
})

it('what a response was made from is paged either way', async () => {
  const create = async () => {
    const input = ['user', 'assistant', 'user', 'assistant', 'user'].map((role) => ({ role, content: `${++count}` }))
    return `/v1/responses/${await post('/v1/responses', { model: 'trainyard/tiny-random', input })}/input_items`
  }
  const [path, another] = [await create(), await create()]
  const all = (await page(`${path}?order=asc`, 100)).data.map(({ id }) => id)
  expect(new Set(all).size).toBe(5)
  expect(await walk(`${path}?order=asc`, async () => undefined)).toEqual(all)
  expect(await walk(`${path}?`, async () => undefined)).toEqual(all.reverse())
  for (const cursor of [await firstOf(another), 'nope']) {
    // OpenAI's and vLLM's routes have the status as their code
    const { status, body } = await service.json<{ error: { param: string } }>(`${path}?after=${cursor}`)
    expect([status, body.error.param]).toEqual([400, 'after'])
  }
})
