/**
 * A loop of the server whose process, server and worker are killed with `kill -9` in its phases: it ends with the adapter of
 * an undisturbed one, a job a step, and its judge was asked once an answer, but for what it was answering when somebody was
 * killed.
 *
 * `SERVER_LOOP_KILLS=30 SERVER_LOOP_SEED=2` kills more often, at other moments; both are said when the test fails.
 */
import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createRng } from '#base/util/rng.js'
import type { Loop } from '#plugins/loops/wire.js'
import {
  childrenOf,
  commandOf,
  type KillableServer,
  startKillableServer,
} from '../../support/service/killable-server.js'
import { until } from '../../support/until.js'

const KILLS = Number(process.env['SERVER_LOOP_KILLS'] ?? 3)
const SEED = process.env['SERVER_LOOP_SEED'] ?? '1'
const KILLS_A_STEP = 3
const STEPS = Math.max(1, Math.ceil(KILLS / KILLS_A_STEP))
const LOOPS = '/v1/preview/loops'
const PHASES = ['sampling', 'grading', 'training', 'evaluating']
/** Answers that a process has graded side by side. */
const AT_ONCE = 16
/** Between reaching a phase and the kill, at most. */
const MOST_DELAY_MS = 400

/** Who is killed in which phases, in the order of a step. */
const VICTIMS = [
  { entry: 'loops/process/main.js', phases: ['sampling', 'grading'] },
  { entry: 'training/worker/main.js', phases: ['training'] },
  { entry: null, phases: ['training', 'evaluating'] },
] as const

let directory: string
let server: KillableServer
let judge: Server
let judgeHost: string
/** What was graded, by the judge's address: `row answer`, as often as it was. */
const graded = new Map<string, string[]>()
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-server-loop-'))
  judge = createServer((request, response) => {
    let text = ''
    request.setEncoding('utf8').on('data', (part: string) => {
      text += part
    })
    request.on('end', () => {
      const { sample, item } = JSON.parse(text) as { sample: { output_text: string }; item: { part: string } }
      const of = graded.get(request.url ?? '') ?? []
      graded.set(request.url ?? '', of)
      of.push(`${item.part} ${sample.output_text}`)
      const score = sample.output_text.toLowerCase().includes(item.part) ? 1 : 0
      response.setHeader('content-type', 'application/json').end(JSON.stringify({ score }))
    })
  })
  await new Promise<void>((done) => judge.listen(0, '127.0.0.1', done))
  judgeHost = `127.0.0.1:${(judge.address() as AddressInfo).port}`
  await startServer()
})
afterAll(async () => {
  await server.kill('SIGKILL')
  judge.closeAllConnections()
  judge.close()
  await rm(directory, { recursive: true, force: true, maxRetries: 20 })
})

let apiKey = ''
async function startServer(): Promise<void> {
  server = await startKillableServer({
    dataDir: join(directory, 'data'),
    threads: 1,
    trainWorkers: 1,
    pluginSettings: { 'grader-hosts': [judgeHost] },
    tuning: { plugins: { loops: { pollMs: 20, retryMs: 10 } } },
    ...(apiKey === '' ? {} : { apiKey }),
  })
  apiKey = server.apiKey
}

async function createLoop(name: string): Promise<string> {
  const rows = ['e', 'a', 'i', 'o', 't', 'n'].map((part) => ({
    messages: [{ role: 'user', content: `Say ${part}.` }],
    part,
  }))
  const upload = await fetch(`${server.url}/v1/files?filename=rows.jsonl`, {
    method: 'POST',
    headers: { authorization: `Bearer ${apiKey}` },
    body: rows.map((row) => JSON.stringify(row)).join('\n'),
  })
  const { id: file } = (await upload.json()) as { id: string }
  const loop = await server.call<Loop>(LOOPS, {
    model_id: await server.createModel(name),
    prompts_file: file,
    // an address of its own, so that no grade is known before
    grader: { type: 'endpoint', name: 'judge', url: `http://${judgeHost}/${name}` },
    steps: STEPS,
    ...{ prompts_per_step: 3, answers_per_prompt: 6, held_out_rows: 2, evaluate_every: 1, seed: 11 },
    sampling: { max_completion_tokens: 12 },
    config: { learning_rate: 1e-3, seed: 3 },
  })
  return loop.id
}

const get = (id: string): Promise<Loop> => server.call<Loop>(`${LOOPS}/${id}`)
const hasEnded = ({ status }: Loop): boolean => ['succeeded', 'failed', 'cancelled'].includes(status)

const untilEnded = (id: string): Promise<Loop> =>
  until(
    async () => {
      const loop = await get(id)
      return hasEnded(loop) && loop
    },
    `the end of loop ${id}`,
    900_000,
  )

/** Waits until the loop is in a phase of a step, or beyond. */
async function reach(id: string, step: number, phase: string): Promise<void> {
  const place = (at: number, name: string | null): number => PHASES.length * at + PHASES.indexOf(name ?? 'sampling')
  await until(
    async () => {
      const loop = await get(id)
      const isFirst = loop.evaluations.length === 0 && loop.phase === 'evaluating'
      return (loop.phase !== null && !isFirst && place(loop.step, loop.phase) >= place(step, phase)) || hasEnded(loop)
    },
    `${phase} of step ${step}`,
    600_000,
  )
}

/** @returns whether there was somebody to be killed */
async function kill(entry: string | null): Promise<boolean> {
  if (entry === null) {
    await server.kill('SIGKILL')
    await startServer()
    return true
  }
  const found = childrenOf(server.pid).filter((pid) => commandOf(pid).includes(entry))
  for (const pid of found) process.kill(pid, 'SIGKILL')
  return found.length > 0
}

async function digestOf(loop: Loop): Promise<string> {
  const path = `/v1/preview/models/${loop.model_id}/checkpoints/${String(loop.evaluations.at(-1)?.checkpoint_step)}/files/adapter_model.safetensors`
  const response = await server.fetch(path)
  expect(response.status).toBe(200)
  return createHash('sha256')
    .update(Buffer.from(await response.arrayBuffer()))
    .digest('hex')
}

it('a loop that is killed in its phases ends as one that was left alone', {
  timeout: 600_000 + KILLS * 60_000,
}, async () => {
  const said = `seed ${SEED}, ${KILLS} kills`
  const undisturbed = await untilEnded(await createLoop('undisturbed'))
  expect(undisturbed, JSON.stringify(undisturbed.error)).toMatchObject({ status: 'succeeded', step: STEPS })

  const rng = createRng(`killed server loop ${SEED}`)
  const id = await createLoop('disturbed')
  let kills = 0
  for (let i = 0; i < KILLS; i += 1) {
    const { entry, phases } = VICTIMS[i % KILLS_A_STEP] as (typeof VICTIMS)[number]
    await reach(id, Math.floor(i / KILLS_A_STEP), phases[rng.integer(phases.length)] as string)
    await sleep(rng.uniform() * MOST_DELAY_MS)
    if (await kill(entry)) kills += 1
  }
  const disturbed = await untilEnded(id)
  expect(disturbed, `${said}: ${JSON.stringify(disturbed.error)}`).toMatchObject({ status: 'succeeded', step: STEPS })
  expect(disturbed.evaluations, said).toEqual(undisturbed.evaluations)
  expect(await digestOf(disturbed), said).toBe(await digestOf(undisturbed))
  const jobs = await server.call<{ data: unknown[] }>(
    `/v1/preview/training-jobs?model_id=${disturbed.model_id}&limit=100`,
  )
  expect(jobs.data.length, said).toBeLessThanOrEqual(STEPS)
  expect(kills, said).toBeGreaterThanOrEqual(Math.ceil(KILLS / 2))

  const [alone = [], killed = []] = ['/undisturbed', '/disturbed'].map((url) => graded.get(url))
  expect(alone.length).toBe(new Set(alone).size)
  expect(new Set(killed)).toEqual(new Set(alone))
  const again = killed.length - new Set(killed).size
  console.log(`${said}: ${kills} killed, ${again} of ${killed.length} answers graded again`)
  expect(again, said).toBeLessThanOrEqual(AT_ONCE * kills)
})
