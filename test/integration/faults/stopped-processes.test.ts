/**
 * Processes that are stopped as by a debugger or a sleeping machine, past the lease of the job they work on, and continued: nothing
 * is lost, nothing comes twice, and whoever lost the job can change nothing.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import {
  type KillableServer,
  type KillableServerOptions,
  startKillableServer,
} from '../../support/service/killable-server.js'
import { until } from '../../support/until.js'

const STEPS = 150
const WORKER = join(import.meta.dirname, '../../../dist/bundles/training/worker/main.js')
let dataDir: string
let server: KillableServer
let clone: ChildProcess | null = null

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'trainyard-stopped-'))
})
afterEach(async () => {
  clone?.kill('SIGKILL')
  clone = null
  await server.kill('SIGKILL')
  await rm(dataDir, { recursive: true, force: true, maxRetries: 20 })
})

async function startWith(tuning: KillableServerOptions['tuning']): Promise<string> {
  server = await startKillableServer({ dataDir, threads: 1, ...(tuning === undefined ? {} : { tuning }) })
  return server.createModel()
}

const stepsOf = async (jobId: string) =>
  (await server.eventsOf(jobId)).filter(({ type }) => type === 'gradient_step').length

/** The job's end, its events and checkpoints: one terminal event, each step once, one checkpoint of its own. */
async function checkedEnd(modelId: string, jobId: string) {
  const job = await server.untilEnd(jobId)
  const events = await server.eventsOf(jobId)
  expect(events.filter(({ type }) => type === 'training_ended' || type === 'training_failed')).toEqual([events.at(-1)])
  expect(events.filter(({ type }) => type === 'training_started')).toHaveLength(1)
  expect(events.filter(({ type }) => type === 'gradient_step')).toHaveLength(STEPS)
  const path = `/v1/preview/models/${modelId}/checkpoints`
  const checkpoints = (await server.call<{ data: { step: number }[] }>(path)).data
  expect(checkpoints.at(-1)?.step).toBe(job.step)
  expect(new Set(checkpoints.map(({ step }) => step)).size).toBe(checkpoints.length)
  return { job, events, checkpoints }
}

/**
 * A job whose worker is stopped, and a second process of the same attempt, stopped too after some steps of its own. It is no child
 * of the server: as on another machine, where nobody can kill it. A machine that holds this process up may let it end the job
 * before it is stopped; then the next one is tried.
 */
async function stoppedClone(modelId: string) {
  for (;;) {
    const { jobId, worker } = await server.stoppedJob(modelId, STEPS)
    const text = readFileSync(`/proc/${worker}/environ`, 'utf8')
    const environment = Object.fromEntries(
      text
        .split('\0')
        .filter((line) => line.includes('='))
        .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
    )
    const { NODE_CHANNEL_FD: _channel, TRAINYARD_WORKER_KEEP: _keep, ...env } = environment
    const seen = await stepsOf(jobId)
    const other = spawn(process.execPath, [WORKER], { env, stdio: ['ignore', 'ignore', 'pipe'] })
    clone = other
    let errors = ''
    other.stderr.on('data', (chunk: Buffer) => {
      errors += chunk.toString()
    })
    const ended = new Promise<number | null>((resolve) => other.once('close', resolve))
    // one more may have been on its way when the first process was stopped
    const hasEnded = () => other.exitCode !== null || other.signalCode !== null
    await until(async () => hasEnded() || (await stepsOf(jobId)) > seen + 1, 'steps of its own')
    other.kill('SIGSTOP')
    const steps = await stepsOf(jobId)
    if (!hasEnded() && steps < STEPS) return { jobId, worker, environment, other, errors: () => errors, ended }
    expect(steps, errors).toBe(STEPS)
    other.kill('SIGKILL')
    process.kill(worker, 'SIGKILL')
    await server.untilEnd(jobId)
  }
}

describe('a worker that is stopped', { timeout: 280_000 }, () => {
  it('past its lease is given up, and its job ends once in another attempt', async () => {
    const modelId = await startWith({ jobs: { leaseMs: 1000 } })
    const { jobId } = await server.stoppedJob(modelId, STEPS)
    const { job } = await checkedEnd(modelId, jobId)
    expect(job).toMatchObject({ status: 'completed', attempt: 2, num_gradient_steps: STEPS })
  })

  it('and continued after another attempt has ended the job, changes nothing', async () => {
    const modelId = await startWith({})
    const { jobId, worker, environment, other, errors, ended } = await stoppedClone(modelId)
    process.kill(worker, 'SIGKILL')
    const before = await checkedEnd(modelId, jobId)
    expect(before.job).toMatchObject({ status: 'completed', attempt: 2 })

    other.kill('SIGCONT')
    expect(await ended, errors()).not.toBe(0)
    expect(await checkedEnd(modelId, jobId)).toEqual(before)
    // and by hand with its own secret: every way to write is closed to it
    const root = `${server.url}/internal/worker/jobs/${jobId}`
    const headers = {
      authorization: `Bearer ${environment['TRAINYARD_WORKER_TOKEN']}`,
      'x-trainyard-attempt': '1',
      'content-type': 'application/json',
    }
    for (const [method, path, body] of [
      ['POST', '/heartbeat', '{}'],
      ['POST', '/events', JSON.stringify({ offset: 0, events: [{ type: 'gradient_step', data: { loss: 1 } }] })],
      ['POST', '/fail', JSON.stringify({ code: 'x', message: 'x' })],
      ['PUT', '/files/adapter_config.json', '{}'],
      ['POST', '/complete', JSON.stringify({ files: {}, metrics: {} })],
    ] as const) {
      const { status } = await fetch(root + path, { method, headers, body })
      expect([path, status]).toEqual([path, 409])
    }
    expect(await checkedEnd(modelId, jobId)).toEqual(before)
  })
})

describe('a server that is stopped', { timeout: 280_000 }, () => {
  it('past the lease of its job goes on with it: the attempt was not lost', async () => {
    const leaseMs = 2000
    const modelId = await startWith({ jobs: { leaseMs } })
    const jobId = await server.submitRows(modelId, STEPS)
    await until(async () => (await server.eventsOf(jobId)).length > 0, 'the start of the job')
    await server.kill('SIGSTOP')
    const asked = server.call<TrainingJob>(`/v1/preview/training-jobs/${jobId}`)
    await sleep(3 * leaseMs)
    await server.kill('SIGCONT')
    // what was asked meanwhile is answered
    expect((await asked).id).toBe(jobId)
    const { job } = await checkedEnd(modelId, jobId)
    expect(job).toMatchObject({ status: 'completed', attempt: 1, num_gradient_steps: STEPS })
  })
})
