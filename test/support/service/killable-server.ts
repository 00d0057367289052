/**
 * A server in a process of its own, on a data directory that outlives it, for tests that kill, stop and starve it and its children.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { TrainingEvent, TrainingJob } from '#contract/wire/training-jobs.js'
import type { PluginOptions } from '#plugins/index.js'
import type { TestedServiceOptions } from '#service/test-door.js'
import { until } from '../until.js'
import { testDatabaseOf } from './database-kind.js'

const SCRIPT = join(import.meta.dirname, '../stand-ins/server.mjs')
const JOBS = '/v1/preview/training-jobs'

export interface KillableServer {
  readonly url: string
  readonly pid: number
  readonly child: ChildProcess
  readonly apiKey: string
  /** Sends a request with the key, JSON if there is any. */
  fetch(path: string, json?: object): Promise<Response>
  /** The same, parsed. @throws {Error} with the answer, if it is no success */
  call<T>(path: string, json?: object): Promise<T>
  createModel(name?: string): Promise<string>
  /** Submits rows, each of which is a gradient step. @returns the job's id */
  submitRows(modelId: string, count: number, options?: object): Promise<string>
  /**
   * A job of so many steps whose worker is stopped after the first and before it has made half of them. A machine that holds this process up may let a job
   * end before it is stopped; then the next one is tried.
   */
  stoppedJob(modelId: string, steps: number): Promise<{ readonly jobId: string; readonly worker: number }>
  eventsOf(jobId: string): Promise<readonly TrainingEvent[]>
  untilEnd(jobId: string): Promise<TrainingJob>
  /** Process id of the training worker that runs, once there is one. */
  workerPid(): Promise<number>
  /** Process id of the engine's host, once there is one. */
  enginePid(): Promise<number>
  kill(signal: NodeJS.Signals): Promise<void>
}

export interface KillableServerOptions
  extends Pick<
    TestedServiceOptions & PluginOptions,
    | 'tuning'
    | 'seams'
    | 'trainWorkers'
    | 'threads'
    | 'resumeIntervalMs'
    | 'keepOptimizers'
    | 'database'
    | 'blobStore'
    | 'singleServer'
    | 'webhookHosts'
    | 'pluginSettings'
  > {
  readonly dataDir: string
  /** The key of an earlier server on the directory. */
  readonly apiKey?: string
  /** How long it drains after SIGTERM. Default 2000. */
  readonly drainMs?: number
  /** Gets each line the server logs. */
  readonly onLog?: (line: string) => void
}

/** Starts it. @throws {Error} whose message is the code of the error that kept it from starting */
export async function startKillableServer(options: KillableServerOptions): Promise<KillableServer> {
  const { apiKey: knownKey, onLog, drainMs = 2000, ...rest } = options
  const ofDirectory = rest.database === undefined ? await testDatabaseOf(rest.dataDir) : null
  const service = ofDirectory === null ? rest : { singleServer: true, ...rest, database: ofDirectory }
  const level = onLog === undefined ? 'silent' : 'info'
  // what waits for a place does so on any machine
  const args = [SCRIPT, JSON.stringify({ trainWorkers: 1, ...service }), level, String(drainMs)]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  createInterface({ input: child.stderr }).on('line', (line) => onLog?.(line))
  const line = await new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout })
      .once('line', resolve)
      .once('close', () => reject(new Error('the server ended before it listened')))
  })
  const ready = JSON.parse(line) as { url: string; apiKey: string | null; error?: string }
  if (ready.error !== undefined) throw new Error(ready.error)
  const apiKey = ready.apiKey ?? knownKey ?? ''
  const pid = child.pid ?? 0

  const send = (path: string, init: RequestInit = {}): Promise<Response> =>
    fetch(ready.url + path, { ...init, headers: { authorization: `Bearer ${apiKey}`, ...init.headers } })
  const fetchJson = (path: string, json?: object): Promise<Response> =>
    send(path, {
      method: json === undefined ? 'GET' : 'POST',
      headers: { 'content-type': 'application/json' },
      ...(json === undefined ? {} : { body: JSON.stringify(json) }),
    })
  async function parsed<T>(path: string, answer: Promise<Response>): Promise<T> {
    const response = await answer
    const body = await response.text()
    if (!response.ok) throw new Error(`${path}: ${response.status} ${body}`)
    return JSON.parse(body) as T
  }
  const call = <T>(path: string, json?: object): Promise<T> => parsed(path, fetchJson(path, json))

  async function submitRows(modelId: string, count: number, options: object = {}): Promise<string> {
    const row = (i: number) => ({
      messages: [
        // all of one length: later steps need nothing that the first did not
        { role: 'user', content: `What is ${1000 + i}?` },
        { role: 'assistant', content: `It is ${1000 + i}.` },
      ],
    })
    const body = Array.from({ length: count }, (_, i) => JSON.stringify(row(i))).join('\n')
    const upload = send('/v1/files?filename=rows.jsonl', { method: 'POST', body })
    const { id } = await parsed<{ id: string }>('/v1/files', upload)
    const config = { batch_size: 1, learning_rate: 1e-3, ...options }
    const json = { model_id: modelId, training_data_url: id, config }
    return (await call<{ id: string }>('/v1/preview/sft-training-jobs', json)).id
  }

  async function eventsOf(jobId: string): Promise<readonly TrainingEvent[]> {
    const events: TrainingEvent[] = []
    for (;;) {
      const after = events.at(-1)?.id
      const query = after === undefined ? '' : `&after=${after}`
      const page = await call<{ data: TrainingEvent[]; has_more: boolean }>(`${JOBS}/${jobId}/events?limit=100${query}`)
      events.push(...page.data)
      if (!page.has_more) return events
    }
  }

  const untilEnd = (jobId: string): Promise<TrainingJob> =>
    until(
      async () => {
        const job = await call<TrainingJob>(`${JOBS}/${jobId}`)
        return job.training_end !== null && job
      },
      `end of job ${jobId}`,
      200_000,
    )
  const childPid = (entry: string): Promise<number> =>
    until(() => childrenOf(pid).find((id) => commandOf(id).includes(entry)), entry)

  return {
    url: ready.url,
    pid,
    child,
    apiKey,
    fetch: fetchJson,
    call,
    submitRows,
    eventsOf,
    untilEnd,
    workerPid: () => childPid('training/worker/main.js'),
    enginePid: () => childPid('inference/host/main.js'),
    createModel: async (name = 'm') => {
      const json = { project: 'p', name, base_model: 'trainyard/tiny-random', return_existing: true }
      return (await call<{ id: string }>('/v1/preview/models', json)).id
    },
    stoppedJob: async (modelId, steps) => {
      for (;;) {
        const jobId = await submitRows(modelId, steps)
        await until(async () => (await eventsOf(jobId)).length > 1, 'the first step of the job')
        const worker = await childPid('training/worker/main.js')
        process.kill(worker, 'SIGSTOP')
        if ((await eventsOf(jobId)).length < steps / 2) return { jobId, worker }
        process.kill(worker, 'SIGCONT')
        await untilEnd(jobId)
      }
    },
    kill: async (signal) => {
      child.kill(signal)
      if (signal !== 'SIGSTOP' && signal !== 'SIGCONT') await ended
    },
  }
}

/** Process ids of the children of any thread of a process. */
export function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number)
}

/** Command line of a process; empty when it has ended. */
export function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    return ''
  }
}
