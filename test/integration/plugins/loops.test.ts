/**
 * Loops on a real server with real children: to their end, killed and paused on their way, with limits, for others' keys, and
 * with what teaches nothing. The same seed makes the same adapter, whatever happened meanwhile.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Loop, LoopAnswers, LoopEventBody, LoopMetrics } from '#plugins/loops/wire.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'
import { until } from '../../support/until.js'

const LOOPS = '/v1/preview/loops'
/** Nothing listens there. */
const NOBODY = 'http://127.0.0.1:1/'
/** Some answers of the random model hold it, some do not. */
const HOLDS = {
  type: 'string_check',
  name: 'holds',
  input: '{{sample.output_text}}',
  reference: '{{item.part}}',
  operation: 'ilike',
}
const ROWS = ['e', 'a', 'i', 'o', 't', 'n'].map((part, i) => ({
  messages: [{ role: 'user', content: `Say ${part}, ${i}.` }],
  part,
}))
/** Small enough to end soon. */
const SMALL = {
  grader: HOLDS,
  steps: 2,
  prompts_per_step: 3,
  answers_per_prompt: 6,
  held_out_rows: 2,
  evaluate_every: 1,
  seed: 11,
  sampling: { max_completion_tokens: 12 },
  config: { learning_rate: 1e-3, seed: 3 },
}

/** Grades by whether the answer holds the row's part; holds back what comes after the first few, if it is told to. */
interface Judge {
  readonly url: string
  /** Answers that got a grade, as often as they did. */
  readonly graded: string[]
  /** Lets those go on that are held back, and all that come. */
  release(): void
  close(): void
}

async function startJudge(before: number): Promise<Judge> {
  const graded: string[] = []
  let waiting: (() => void)[] = []
  let isOpen = false
  let count = 0
  const server: Server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk) => {
      body += String(chunk)
    })
    request.on('end', () => {
      const { sample, item } = JSON.parse(body) as { sample: { output_text: string }; item: { part: string } }
      const answer = () => {
        if (response.destroyed) return
        graded.push(`${item.part} ${sample.output_text}`)
        const score = sample.output_text.toLowerCase().includes(item.part) ? 1 : 0
        response.setHeader('content-type', 'application/json').end(JSON.stringify({ score }))
      }
      count += 1
      if (isOpen || count <= before) answer()
      else waiting.push(answer)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/grade`,
    graded,
    release: () => {
      isOpen = true
      for (const answer of waiting) answer()
      waiting = []
    },
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

const ANSWERED = 5
const OPTIONS = {
  scripted: false,
  threads: 1,
  tuning: { plugins: { loops: { pollMs: 20, retryMs: 10 } } },
} as const

let service: TestService
let judge: Judge
let promptsFile: string
beforeAll(async () => {
  judge = await startJudge(ANSWERED)
  service = await createTestService({
    ...OPTIONS,
    pluginSettings: { 'grader-hosts': [new URL(judge.url).host, new URL(NOBODY).host] },
  })
  promptsFile = await upload(ROWS)
}, 300_000)
afterAll(async () => {
  judge.close()
  await service.dispose()
})

async function upload(rows: readonly object[]): Promise<string> {
  const body = rows.map((row) => JSON.stringify(row)).join('\n')
  return (await service.json<{ id: string }>('/v1/files?filename=prompts.jsonl', { method: 'POST', body })).body.id
}

let models = 0
const newModel = (): Promise<string> => {
  models += 1
  return service.createModel(`loop-${models}`)
}

/** Begins a loop of a new model. */
async function create(changes: object = {}): Promise<Loop> {
  const { status, body } = await service.json<Loop>(LOOPS, {
    json: { model_id: await newModel(), prompts_file: promptsFile, ...SMALL, ...changes },
  })
  expect(status, JSON.stringify(body)).toBe(200)
  return body
}

const get = async (id: string): Promise<Loop> => (await service.json<Loop>(`${LOOPS}/${id}`)).body
const act = async (id: string, action: string) =>
  await service.json<Loop>(`${LOOPS}/${id}/${action}`, { method: 'POST' })
const events = async (id: string): Promise<readonly LoopEventBody[]> =>
  (await service.json<{ data: LoopEventBody[] }>(`${LOOPS}/${id}/events?limit=100`)).body.data
const metricsOf = async (id: string) =>
  (await events(id)).flatMap(({ type, data }) => (type === 'metrics' ? [data] : []))
const filesLeft = async (id: string): Promise<readonly unknown[]> => {
  const { body } = await service.json<{ data: { filename: string }[] }>('/v1/files?limit=100')
  return body.data.filter(({ filename }) => filename.includes(id))
}

async function untilStatus(id: string, ...wanted: readonly Loop['status'][]): Promise<Loop> {
  return await until(
    async () => {
      const loop = await get(id)
      if (wanted.includes(loop.status)) return loop
      if (['succeeded', 'failed', 'cancelled'].includes(loop.status)) {
        throw new Error(`loop is ${loop.status}: ${JSON.stringify(loop.error)}`)
      }
      return null
    },
    `loop ${wanted.join(' or ')}`,
    400_000,
  )
}

const PHASES = ['sampling', 'grading', 'training', 'evaluating']

/** Waits until the loop is in a phase of a step, or beyond; -1 is the evaluation before the first. */
async function reach(id: string, step: number, phase: string): Promise<Loop> {
  const place = (at: number, name: string | null): number => 4 * at + PHASES.indexOf(name ?? 'sampling')
  return await until(
    async () => {
      const loop = await get(id)
      const isFirst = loop.evaluations.length === 0 && loop.phase === 'evaluating'
      const at = isFirst ? place(-1, 'evaluating') : place(loop.step, loop.phase)
      const isThere = loop.phase !== null && at >= place(step, phase)
      return (isThere || !['queued', 'running'].includes(loop.status)) && loop
    },
    `${phase} of step ${step}`,
    400_000,
  )
}

async function adapterOf({ model_id: modelId }: Loop, step: number): Promise<string> {
  const path = `/v1/preview/models/${modelId}/checkpoints/${step}/files/adapter_model.safetensors`
  const response = await service.fetch(path)
  expect(response.status).toBe(200)
  return createHash('sha256')
    .update(Buffer.from(await response.arrayBuffer()))
    .digest('hex')
}

/** Processes of loops that this process has. */
function processes(): readonly number[] {
  const lines = execFileSync('ps', ['-eo', 'pid,ppid,args'], { encoding: 'utf8' }).split('\n')
  const own = lines.map((line) => line.trim().split(/\s+/)).filter(([, parent]) => parent === String(process.pid))
  return own.filter((words) => words.some((word) => word.includes('loops/process/main.js'))).map(([pid]) => Number(pid))
}

/** Kills the one loop's process. */
async function kill(): Promise<void> {
  const [pid] = await until(() => (processes().length > 0 ? processes() : null), 'the process of the loop')
  process.kill(pid ?? 0, 'SIGKILL')
  await until(() => !processes().includes(pid ?? 0), 'its end')
}

/** What a page shows of a loop is what its events say, and in lists it has one evaluation. */
async function expectShown(loop: Loop, metrics: readonly LoopEventBody['data'][]): Promise<void> {
  const { body: shown } = await service.json<LoopMetrics>(`${LOOPS}/${loop.id}/metrics`)
  expect(shown.steps).toEqual([0, 1, 2])
  expect(shown.checkpoint_steps).toEqual([0, 1, 2])
  expect(shown.series['train_reward']).toEqual(metrics.map((data) => data['train_mean_reward'] ?? null))
  expect(shown.series['valid_reward']).toEqual(loop.evaluations.map(({ valid_reward: reward }) => reward))
  expect(shown.series['completion_tokens']).toEqual(metrics.map((data) => data['completion_tokens_mean'] ?? null))
  expect(shown.totals['trained_tokens']).toBe(loop.used.trained_tokens)
  const { body: jobs } = await service.json<{ data: { id: string }[] }>(
    `/v1/preview/training-jobs?model_id=${loop.model_id}`,
  )
  expect(shown.job_ids).toEqual([null, ...jobs.data.map(({ id }) => id).reverse()])
  const { body: said } = await service.json<LoopAnswers>(`${LOOPS}/${loop.id}/answers`)
  expect(said).toMatchObject({ loop_id: loop.id, step: 2, checkpoint_step: 2 })
  const all = [...said.best, ...said.worst]
  expect(all).toHaveLength(SMALL.held_out_rows)
  const mean = all.reduce((sum, { reward }) => sum + reward, 0) / all.length
  expect(mean).toBeCloseTo(loop.evaluations.at(-1)?.valid_reward ?? Number.NaN, 9)
  for (const { prompt, answer, reward } of all) {
    const part = /^Say (.), /.exec(prompt)?.[1] ?? '?'
    expect(reward).toBe(answer.toLowerCase().includes(part) ? 1 : 0)
  }
  const { body: list } = await service.json<{ data: Loop[] }>(`${LOOPS}?model_id=${loop.model_id}`)
  expect(list.data[0]?.evaluations).toEqual(loop.evaluations.slice(-1))
  const { body: news } = await service.json<{ data: { data: { loop_id: string; phase: string | null } }[] }>(
    `/v1/preview/events?topics=loop&model_id=${loop.model_id}&limit=100`,
  )
  const phases = news.data.filter(({ data }) => data.loop_id === loop.id).map(({ data }) => data.phase)
  expect(new Set(phases)).toEqual(new Set([null, 'evaluating', 'sampling', 'grading', 'training']))
}

describe('a loop', () => {
  it('that is killed in its phases, paused, and left by its server ends as one that was left alone', async () => {
    expect(processes(), 'no process while no loop runs').toEqual([])
    const alone = await create()
    const undisturbed = await untilStatus(alone.id, 'succeeded')
    expect(undisturbed).toMatchObject({
      step: 2,
      phase: null,
      error: null,
      training_job_id: null,
      model_id: alone.model_id,
    })
    expect(undisturbed.evaluations.map(({ step, checkpoint_step: of }) => [step, of])).toEqual([
      [0, 0],
      [1, 1],
      [2, 2],
    ])
    const metrics = await metricsOf(alone.id)
    expect(metrics.map(({ step }) => step)).toEqual([0, 1, 2])
    expect(metrics.at(-1)).toMatchObject({
      step: 2,
      total_steps: 2,
      train_mean_reward: expect.any(Number),
      full_valid_mean_reward: expect.any(Number),
      completion_tokens_mean: expect.any(Number),
      scores: { graders: [{ name: 'holds', type: 'string_check', train_reward_mean: expect.any(Number) }] },
      errors: { graders: [{ name: 'holds', train_other_error_count: 0, valid_other_error_count: 0 }] },
      timing: {
        step: { sampling: expect.any(Number), training: expect.any(Number), full_iteration: expect.any(Number) },
      },
      checkpoint_step: 2,
      groups: 3,
    })
    await expectShown(undisturbed, metrics)
    expect(undisturbed.used).toMatchObject({ grader_tokens: 0, endpoint_calls: 0, trained_tokens: expect.any(Number) })
    expect(await filesLeft(alone.id)).toEqual([])

    const { id } = await create()
    for (const [step, phase] of [
      [-1, 'evaluating'],
      [0, 'sampling'],
      [0, 'training'],
      [0, 'evaluating'],
    ] as const) {
      if ((await reach(id, step, phase)).status === 'running') await kill()
    }
    await act(id, 'pause')
    const paused = await untilStatus(id, 'paused', 'succeeded')
    if (paused.status === 'paused') {
      await until(() => processes().length === 0, 'the end of its process')
      expect((await act(id, 'resume')).body.status).toBe('queued')
    }
    await reach(id, 1, 'training')
    service = await service.restart()
    const disturbed = await untilStatus(id, 'succeeded')
    expect(disturbed.evaluations).toEqual(undisturbed.evaluations)
    expect((await metricsOf(id)).map(({ step }) => step)).toEqual([0, 1, 2])
    const jobs = await service.json<{ data: unknown[] }>(`/v1/preview/training-jobs?model_id=${disturbed.model_id}`)
    expect(jobs.body.data, 'one job a step').toHaveLength(2)
    expect(await adapterOf(disturbed, 2)).toBe(await adapterOf(undisturbed, 2))
    expect(await filesLeft(id)).toEqual([])
    await until(() => processes().length === 0, 'the end of the last process')
  }, 900_000)

  it('asks a judge once an answer, also where its process is killed while it grades', async () => {
    const grader = { type: 'endpoint', name: 'judge', url: judge.url }
    const { id } = await create({ grader, steps: 1, held_out_rows: 0, answers_per_prompt: 8 })
    let before: readonly string[] = []
    const rows = await service.openRows()
    const remembered = async (): Promise<number> => {
      const { rows: found } = await sql<{ count: number }>`select count(*) as count from loop_grades`.execute(rows.db)
      return Number(found[0]?.count ?? 0)
    }
    try {
      await until(
        async () => (await remembered()) >= new Set(judge.graded).size && judge.graded.length >= ANSWERED,
        'some grades',
      )
      before = [...judge.graded]
      await kill()
    } finally {
      judge.release()
      await rows.close()
    }
    const loop = await untilStatus(id, 'succeeded')
    expect(before.length).toBeGreaterThanOrEqual(ANSWERED)
    // what was held back when it was killed may be asked again, and nothing else
    for (const answer of before) expect(judge.graded.filter((each) => each === answer)).toEqual([answer])
    expect(loop.used.endpoint_calls).toBeGreaterThan(0)
  }, 900_000)

  it('pauses at a limit, at most a step beyond it, and goes on when it is resumed', async () => {
    const grader = { type: 'endpoint', name: 'judge', url: judge.url }
    const { id } = await create({ grader, seed: 12, steps: 4, held_out_rows: 0, limits: { endpoint_calls: 1 } })
    const paused = await untilStatus(id, 'paused')
    expect(paused.step).toBeLessThanOrEqual(1)
    const ofStep = SMALL.prompts_per_step * SMALL.answers_per_prompt
    expect(paused.used.endpoint_calls).toBeLessThanOrEqual(ofStep)
    expect((await events(id)).map(({ data }) => data['code'])).toContain('limit_reached')
    await act(id, 'resume')
    const later = await untilStatus(id, 'paused')
    expect(later.used.endpoint_calls).toBeGreaterThan(paused.used.endpoint_calls)
    expect(later.used.endpoint_calls).toBeLessThanOrEqual(2 * ofStep)
    expect((await act(id, 'cancel')).body.status).toBe('cancelled')
    expect(
      (await service.json<{ error: { code: string } }>(`${LOOPS}/${id}/pause`, { method: 'POST' })).body.error.code,
    ).toBe('loop_ended')
  }, 900_000)

  it('that is cancelled ends its job and its process, and the model keeps its step', async () => {
    const { id, model_id: model } = await create({ steps: 50, held_out_rows: 0 })
    const loop = await until(async () => {
      const now = await get(id)
      return now.training_job_id !== null && now
    }, 'the job of a step')
    const cancelled = (await act(id, 'cancel')).body
    expect(cancelled.status).toBe('cancelled')
    const job = await service.waitForJob(loop.training_job_id ?? '')
    expect(['cancelled', 'completed']).toContain(job.status)
    await until(() => processes().length === 0, 'the end of its process')
    expect(await get(id)).toMatchObject({ status: 'cancelled', phase: null })
    expect((await service.fetch(`/v1/preview/models/${model}`)).status).toBe(200)
  }, 900_000)

  it('fails where nothing is left to train in three steps in a row, and says why', async () => {
    const grader = { ...HOLDS, operation: 'eq' }
    const { id, model_id: model } = await create({ grader, steps: 9, held_out_rows: 0, answers_per_prompt: 2 })
    const failed = await untilStatus(id, 'failed')
    expect(failed).toMatchObject({ step: 3, error: { code: 'no_learning_signal' } })
    expect(failed.error?.message).toContain('cut off at the length limit')
    const codes = (await events(id)).map(({ data }) => data['code'])
    expect(codes.filter((code) => code === 'nothing_to_train')).toHaveLength(3)
    expect((await service.json<{ step: number }>(`/v1/preview/models/${model}`)).body.step).toBe(0)
  }, 900_000)

  it('has succeeded before its last step where every answer of three earned the most that there is, and says so', async () => {
    const grader = { ...HOLDS, operation: 'ne', reference: 'nobody says this' }
    const { id } = await create({ grader, steps: 9, held_out_rows: 2, answers_per_prompt: 2, evaluate_every: 9 })
    const solved = await untilStatus(id, 'succeeded')
    expect(solved).toMatchObject({ step: 3, error: null })
    expect(solved.evaluations.map(({ step, valid_reward: reward }) => [step, reward])).toEqual([
      [0, 1],
      [3, 1],
    ])
    expect((await events(id)).map(({ data }) => data['code'])).toContain('solved')
  }, 900_000)

  it('fails where its grader does not answer', async () => {
    const { id } = await create({ grader: { type: 'endpoint', name: 'gone', url: NOBODY }, held_out_rows: 0 })
    expect((await untilStatus(id, 'failed')).error).toMatchObject({ code: 'grader_failed_too_often' })
  }, 900_000)

  it('is not made with a grader whose address or model is not to be had', async () => {
    const refused = async (grader: object) => {
      const json = { model_id: await newModel(), prompts_file: promptsFile, ...SMALL, grader }
      const { status, body } = await service.json<{ error: object }>(LOOPS, { json })
      return { status, ...body.error }
    }
    const gone = { type: 'endpoint', name: 'gone', url: 'http://127.0.0.1:2/' }
    expect(await refused(gone)).toMatchObject({ status: 422, code: 'grader_refused', param: 'grader.url' })
    const unclear = { ...HOLDS, type: 'score_model', model: 'nobody', input: [{ role: 'user', content: 'x' }] }
    const { reference: _, operation: __, ...grader } = unclear
    expect(await refused(grader)).toMatchObject({ code: 'grader_model_not_found', param: 'grader.model' })
  })
})

describe('a request for a loop', () => {
  it.each<[string, object, number, string]>([
    ['a file that is not there', { prompts_file: 'file-x' }, 404, 'file_not_found'],
    ['a model that is not there', { model_id: '019a0000-0000-7000-8000-000000000001' }, 404, 'model_not_found'],
    ['a grader of no kind', { grader: { type: 'x' } }, 422, 'grader.type'],
    ['a path that no row has', { grader: { ...HOLDS, reference: '{{item.gone}}' } }, 422, 'item.gone'],
    ['an option of no job', { config: { learning_rate: -1 } }, 422, 'learning_rate'],
    ['rows held out twice', { held_out_file: 'file-x' }, 422, 'held_out_rows'],
  ])('is refused for %s', async (_, changes, status, words) => {
    const json = { model_id: await newModel(), prompts_file: promptsFile, ...SMALL, ...changes }
    const response = await service.fetch(LOOPS, { json })
    expect(response.status).toBe(status)
    expect(await response.text()).toContain(words)
  })

  it('is refused for rows without messages, by their line', async () => {
    const file = await upload([{ messages: [{ role: 'user', content: 'x' }], part: 'a' }, { part: 'b' }])
    const json = { model_id: await newModel(), ...SMALL, prompts_file: file }
    const { body } = await service.json<{ error: { code: string; message: string } }>(LOOPS, { json })
    expect(body.error).toMatchObject({ code: 'invalid_prompts', message: expect.stringContaining('line 2') })
  })

  it('is refused for a row that is longer than any conversation, before it is held whole', async () => {
    const file = await upload([{ prompt: 'x'.repeat(5_000_000), part: 'a' }])
    const json = { model_id: await newModel(), ...SMALL, prompts_file: file }
    const { body } = await service.json<{ error: { code: string } }>(LOOPS, { json })
    expect(body.error.code).toBe('line_too_long')
  })
})
