/**
 * Workers of other machines, as processes of this one: four of them and one with a thousand tiny jobs, and the time from a submission to
 * its first gradient step beside a worker of the server's own.
 *
 * `--jobs 200` takes fewer. A job that was claimed twice would have a second attempt. Times of four and of one are those of the same jobs
 * on the same cores: four cannot be faster than the cores, and must not be slower by what they ask for. Processor time, of the server and of the
 * workers with their processes, compares on a busy machine too.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { startService } from '../support/service/service-process.js'
import { median } from './support/median.js'
import { treeSeconds } from './support/processes.js'

export const title = 'Workers of other machines'

const CLI = join(import.meta.dirname, '../../bin/trainyard.js')
const TINY = 'trainyard/tiny-random'
const SERVER = ['--train-workers', '0', '--max-queued-jobs', '5000', '--threads', '1']
const MODELS = 40
const STARTS = 5
/** Looking costs the server processor time as well. */
const LOOK_MS = 250

export async function run(options) {
  const count = Number(options.jobs ?? 1000)
  const one = await drain(count, 1)
  const four = await drain(count, 4)
  const near = await firstSteps(false)
  const far = await firstSteps(true)
  return [
    { name: `${count} jobs, one worker`, value: one.seconds, unit: 's' },
    {
      name: `${count} jobs, four workers`,
      value: four.seconds,
      unit: 's',
      ratio: four.seconds / one.seconds,
      target: '<= 1.2',
    },
    { name: 'processor time, one worker', value: one.serverCpu + one.workerCpu, unit: 's' },
    {
      name: 'processor time, four workers',
      value: four.serverCpu + four.workerCpu,
      unit: 's',
      ratio: (four.serverCpu + four.workerCpu) / (one.serverCpu + one.workerCpu),
      target: '<= 1.2',
    },
    { name: 'of it the server, one worker', value: one.serverCpu, unit: 's' },
    { name: 'of it the server, four workers', value: four.serverCpu, unit: 's' },
    { name: 'jobs with more than one attempt', value: one.again + four.again, unit: '', target: '0' },
    { name: 'submit to first step, own worker, warm', value: near, unit: 's' },
    {
      name: 'submit to first step, worker elsewhere, warm',
      value: far,
      unit: 's',
      target: `<= ${(near + 1).toFixed(2)} s`,
    },
  ]
}

/** Time in which so many workers make all jobs, from the moment that each of them asks. */
async function drain(count, workerCount) {
  const service = await startService({ args: [...SERVER, '--base-model', TINY] })
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-bench-'))
  const workers = []
  try {
    const { api } = service
    const models = []
    for (let i = 0; i < MODELS; i += 1) models.push(await api.createModel(`m${i}`, TINY))
    for (let i = 0; i < workerCount; i += 1) workers.push(await startWorker(service, directory))
    // each has its process and its base model
    const warm = await Promise.all(models.slice(0, 2 * workerCount).map(({ id }, i) => submit(api, id, `warm ${i}`)))
    await untilNone(api)
    const cpuOf = (children) => children.reduce((sum, { pid }) => sum + treeSeconds(pid), 0)
    const before = { server: cpuOf([service.child]), workers: cpuOf(workers) }
    const startedMs = performance.now()
    const jobs = []
    for (let i = 0; i < count; i += 1) jobs.push(await submit(api, models[i % MODELS].id, `row ${i}`))
    await untilNone(api)
    const seconds = (performance.now() - startedMs) / 1000
    const [serverCpu, workerCpu] = [cpuOf([service.child]) - before.server, cpuOf(workers) - before.workers]
    const ended = await Promise.all([...warm, ...jobs].map((id) => api.call('GET', `/v1/preview/training-jobs/${id}`)))
    const failed = ended.find(({ status }) => status !== 'completed')
    if (failed !== undefined) throw new Error(`a job is ${failed.status}: ${failed.error_message}`)
    return { seconds, serverCpu, workerCpu, again: ended.filter(({ attempt }) => attempt !== 1).length }
  } finally {
    for (const worker of workers) await end(worker)
    await service.stop()
    await rm(directory, { recursive: true, force: true, maxRetries: 20 })
  }
}

/** Median of some starts behind the first. */
async function firstSteps(isElsewhere) {
  const service = await startService({ args: ['--train-workers', isElsewhere ? '0' : '1', '--threads', '1'] })
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-bench-'))
  const worker = isElsewhere ? await startWorker(service, directory) : null
  try {
    const { id } = await service.api.createModel('first', 'trainyard/spark')
    const times = []
    for (let i = 0; i <= STARTS; i += 1) times.push(await firstStep(service, id, i))
    return median(times.slice(1))
  } finally {
    if (worker !== null) await end(worker)
    await service.stop()
    await rm(directory, { recursive: true, force: true, maxRetries: 20 })
  }
}

async function firstStep({ url, key, api }, modelId, round) {
  const startedMs = performance.now()
  const id = await submit(api, modelId, `round ${round}`)
  const response = await fetch(`${url}/v1/preview/training-jobs/${id}/events`, {
    headers: { authorization: `Bearer ${key}`, accept: 'text/event-stream' },
  })
  let first = null
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    if (chunk.includes('"gradient_step"')) first ??= performance.now()
  }
  // it says that it is free after the job's end
  await sleep(500)
  return (first - startedMs) / 1000
}

async function submit(api, modelId, text) {
  const messages = ['user', 'assistant'].map((role) => ({ role, content: text }))
  const rows = Buffer.from(JSON.stringify({ messages })).toString('base64')
  const body = { model_id: modelId, training_data_url: `data:application/jsonl;base64,${rows}`, config: { seed: 1 } }
  return (await api.call('POST', '/v1/preview/sft-training-jobs', body)).id
}

async function untilNone(api) {
  for (const status of ['queued', 'running']) {
    while ((await api.call('GET', `/v1/preview/training-jobs?status=${status}&limit=1`)).data.length > 0)
      await sleep(LOOK_MS)
  }
}

async function startWorker({ url, api }, directory) {
  const { key } = await api.call('POST', '/v1/preview/keys', { scope: 'worker' })
  const child = spawn(process.execPath, [CLI, 'worker', '--json', '--threads', '1', '--cache-dir', directory], {
    env: { HOME: directory, PATH: process.env.PATH, TRAINYARD_API_KEY: key, TRAINYARD_URL: url },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(createInterface({ input: child.stdout }), 'line')
  child.stdout.resume()
  return child
}

async function end(child) {
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill('SIGKILL')
  await once(child, 'exit')
}
