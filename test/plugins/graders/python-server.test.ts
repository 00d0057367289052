/**
 * Python graders of a server: refused unless they are allowed, run by the stock client where they are, and no harm to
 * whoever else asks the server meanwhile; a loop whose reward is one.
 */
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Loop, LoopEventBody } from '#plugins/loops/wire.js'
import { noWalls, PYTHON } from '../../support/python-walls.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'
import { until } from '../../support/until.js'

const RUN = '/v1/fine_tuning/alpha/graders/run'
const VALIDATE = '/v1/fine_tuning/alpha/graders/validate'
const LOOPS = '/v1/preview/loops'
const SOURCE = 'def grade(sample, item):\n  return 1.0 if item["part"] in sample["output_text"].lower() else 0.0\n'
const GRADER = { type: 'python' as const, name: 'holds', source: SOURCE, image_tag: '2025-05-08' }
const wall = await noWalls()
const TUNED = {
  scripted: false,
  threads: 1,
  python: PYTHON,
  tuning: { plugins: { loops: { pollMs: 20, retryMs: 10 }, graders: { seconds: 3 } } },
} as const
type Refusal = { readonly error: { readonly code: string; readonly param: string; readonly hint: string } }

async function upload(service: TestService): Promise<string> {
  const rows = [...'eaiotn'].map((part) =>
    JSON.stringify({ messages: [{ role: 'user', content: `Say ${part}.` }], part }),
  )
  const body = rows.join('\n')
  return (await service.json<{ id: string }>('/v1/files?filename=prompts.jsonl', { method: 'POST', body })).body.id
}

describe('where nobody has allowed them', () => {
  it('they are refused, by who may allow them, also where a loop or a job begins', async () => {
    const service = await createTestService()
    try {
      const file = await upload(service)
      const refused = async (path: string, json: object) => {
        const { status, body } = await service.json<Refusal>(path, { json })
        expect(body.error.hint).toContain('--allow-python-graders')
        return [status, body.error.code, body.error.param]
      }
      const code = 'python_graders_disabled'
      expect(await refused(RUN, { grader: GRADER, model_sample: '' })).toEqual([403, code, 'grader.source'])
      expect(await refused(VALIDATE, { grader: GRADER })).toEqual([403, code, 'grader.source'])
      const parts = { type: 'multi', graders: { holds: GRADER }, calculate_output: 'holds' }
      const loop = { model_id: await service.createModel(), prompts_file: file, grader: parts }
      expect(await refused(LOOPS, loop)).toEqual([403, code, 'grader.graders.holds.source'])
      const method = { type: 'reinforcement', reinforcement: { grader: GRADER } }
      const job = { model: 'trainyard/tiny-random', training_file: file, method }
      const param = 'method.reinforcement.grader.source'
      expect(await refused('/v1/fine_tuning/jobs', job)).toEqual([403, code, param])
      expect((await service.json<{ data: unknown[] }>(LOOPS)).body.data).toEqual([])
    } finally {
      await service.dispose()
    }
  })

  it.skipIf(wall === null)('and where the system gives no walls', async () => {
    const service = await createTestService({ pluginSettings: { 'allow-python-graders': 'true' } })
    try {
      const { status, body } = await service.json<Refusal>(VALIDATE, { json: { grader: GRADER } })
      expect([status, body.error.code]).toEqual([403, 'python_graders_disabled'])
      expect(body.error.hint).toContain('unconfined')
    } finally {
      await service.dispose()
    }
  })
})

describe.skipIf(wall !== null)('where they are allowed', () => {
  let service: TestService
  let client: OpenAI
  beforeAll(async () => {
    service = await createTestService({ ...TUNED, pluginSettings: { 'allow-python-graders': 'true' } })
    client = new OpenAI({ apiKey: service.apiKey, baseURL: `${service.url}/v1`, maxRetries: 0 })
  })
  afterAll(() => service.dispose())

  it('the OpenAI client runs and validates one', async () => {
    const { graders } = client.fineTuning.alpha
    const run = await graders.run({ grader: GRADER, model_sample: 'Here', item: { part: 'e' } })
    expect(run).toMatchObject({ reward: 1, metadata: { name: 'holds', type: 'python', scores: { holds: 1 } } })
    expect(await graders.validate({ grader: GRADER })).toEqual({ grader: GRADER })
    const wrong = graders.validate({ grader: { ...GRADER, source: 'import nowhere\ndef grade(a, b): return 1' } })
    await expect(wrong).rejects.toMatchObject({ status: 400, code: 'invalid_grader', param: 'grader.source' })
  })

  it('an error is 200 with its flag and the end of the traceback; parts of others count', async () => {
    const broken = { ...GRADER, name: 'broken', source: 'def grade(sample, item):\n  return item["gone"]' }
    const graders = { holds: GRADER, broken }
    const grader = { type: 'multi', name: 'both', graders, calculate_output: 'holds + broken' }
    const run = await client.fineTuning.alpha.graders.run({
      grader: grader as never,
      model_sample: 'e',
      item: { part: 'e' },
    })
    expect(run).toMatchObject({ reward: 1, sub_rewards: { holds: 1, broken: 0 } })
    expect(run.metadata.errors).toMatchObject({
      python_grader_runtime_error: true,
      python_grader_runtime_error_details: expect.stringMatching(/line 2, in grade[\s\S]*KeyError: 'gone'$/),
      python_grader_server_error: false,
    })
  })

  it('a key that only reads runs none', async () => {
    const wanted = { name: 'reader', scope: 'read' }
    const made = await service.json<{ readonly key: string }>('/v1/preview/keys', { json: wanted })
    const headers = { authorization: `Bearer ${made.body.key}` }
    const { status } = await service.json(RUN, { json: { grader: GRADER, model_sample: '' }, headers })
    expect(status).toBe(403)
  })

  it('many that never end: others are answered, and each has its flag', async () => {
    const grader = { ...GRADER, source: 'def grade(sample, item):\n  while True: pass' }
    let ended = 0
    const grading = [1, 2, 3].map(async () => {
      const run = await client.fineTuning.alpha.graders.run({ grader, model_sample: 'x' })
      ended += 1
      return run.metadata.errors.python_grader_server_error
    })
    const { key } = await service.createKey({ entity: 'others' })
    const other = new OpenAI({ apiKey: key, baseURL: `${service.url}/v1`, maxRetries: 0 })
    const run = await other.fineTuning.alpha.graders.run({ grader: GRADER, model_sample: 'e', item: { part: 'e' } })
    expect(run.reward).toBe(1)
    for (let i = 0; i < 20; i += 1) expect((await service.fetch('/health')).status).toBe(200)
    expect(ended, 'of three of another key that were there first').toBeLessThan(3)
    expect(await Promise.all(grading)).toEqual([true, true, true])
  })

  it('is the reward of a loop, and what it said of an answer is remembered', async () => {
    const prompts = await upload(service)
    const wanted = {
      ...{ prompts_file: prompts, grader: GRADER, steps: 1, prompts_per_step: 3, answers_per_prompt: 6, seed: 11 },
      ...{ held_out_rows: 2, sampling: { max_completion_tokens: 12 }, config: { learning_rate: 1e-3, seed: 3 } },
    }
    const { status, body } = await service.json<Loop>(LOOPS, {
      json: { model_id: await service.createModel('py'), ...wanted },
    })
    expect(status, JSON.stringify(body)).toBe(200)
    const get = async () => (await service.json<Loop>(`${LOOPS}/${body.id}`)).body
    await until(async () => ['succeeded', 'failed'].includes((await get()).status), 'the loop has ended')
    const loop = await get()
    expect([loop.status, loop.error]).toEqual(['succeeded', null])
    expect(loop.evaluations).toHaveLength(2)
    const events = (await service.json<{ data: LoopEventBody[] }>(`${LOOPS}/${body.id}/events?limit=100`)).body.data
    const graded = events.flatMap(({ type, data }) => (type === 'metrics' ? [data] : []))
    expect(graded.at(-1)).toMatchObject({ scores: { graders: [{ name: 'holds', type: 'python' }] } })
    const rows = await service.openRows()
    try {
      const { grades } = await rows.db
        .withTables<{ loop_grades: { digest: string } }>()
        .selectFrom('loop_grades')
        .select(({ fn }) => fn.countAll<number>().as('grades'))
        .executeTakeFirstOrThrow()
      expect(Number(grades)).toBeGreaterThan(0)
    } finally {
      await rows.close()
    }
  })
})

describe.skipIf(wall !== null)('unconfined', () => {
  it('they run, and validate says how', async () => {
    const service = await createTestService({ ...TUNED, pluginSettings: { 'allow-python-graders': 'unconfined' } })
    try {
      const json = { grader: GRADER, model_sample: 'e', item: { part: 'e' } }
      expect((await service.json(RUN, { json })).body).toMatchObject({ reward: 1 })
      const { body } = await service.json<{ warnings: string[] }>(VALIDATE, { json: { grader: GRADER } })
      expect(body.warnings).toEqual([expect.stringContaining('without walls')])
    } finally {
      await service.dispose()
    }
  })
})
