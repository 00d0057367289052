/**
 * A service on a temporary data directory and a free port, for tests of the API.
 *
 * `scripted` runs stand-ins for the two child processes, which speak the same protocols and compute nothing: tests of the
 * server then need no numeric core and can order faults. Without it the real children run. Each transaction is done, undone and done
 * again, as one whose commit a shared database refused: what an action does outside of its rows would show.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLogger } from '#base/logging/logger.js'
import type { TrainingEvent, TrainingJob } from '#contract/wire/training-jobs.js'
import { createLocalKey } from '#plugins/data-directory.js'
import type { PluginOptions } from '#plugins/index.js'
import type { Installed } from '#service/plugin.js'
import type { OpenDatabase } from '#service/storage/database.js'
import type { TestedService, TestedServiceOptions } from '#service/test-door.js'
import { until } from '../until.js'
import { testDatabaseAddress } from './database-kind.js'
import { createTestedService, openDatabase, openPostgres } from './with-plugins.js'

export const STAND_INS = {
  engineHost: join(import.meta.dirname, '..', 'stand-ins', 'engine-host.mjs'),
  worker: join(import.meta.dirname, '..', 'stand-ins', 'worker.mjs'),
}

export interface TestService extends TestedService {
  readonly dataDir: string
  readonly apiKey: string
  /** The address of its PostgreSQL database; null: a file of the data directory. */
  readonly database: string | null
  /** Its rows, beside it. */
  openRows(): Promise<OpenDatabase>
  /** Another key of it, with these limits. */
  createKey(wanted: Parameters<typeof createLocalKey>[1]): ReturnType<typeof createLocalKey>
  /** Sends a request with the key; a plain object as `json` becomes the body. */
  fetch(path: string, init?: TestRequest): Promise<Response>
  /** The same, parsed, with the status. */
  json<T = Record<string, never>>(path: string, init?: TestRequest): Promise<{ status: number; body: T }>
  /** Waits for the job's end; the limit is for one that stands still, each state and step begins it anew. */
  waitForJob(id: string, timeoutMs?: number): Promise<TrainingJob>
  allEvents(jobId: string): Promise<TrainingEvent[]>
  /** Waits until the engine of the first base model computes and holds back that many requests. */
  untilEngineHas(counts: { readonly running?: number; readonly waiting?: number }): Promise<void>
  createModel(name?: string): Promise<string>
  /** Stops and starts again on the same data directory. */
  restart(options?: Partial<TestedServiceOptions> & PluginOptions): Promise<TestService>
  /** Stops and deletes the data directory. */
  dispose(): Promise<void>
}

export interface TestRequest {
  readonly method?: string
  readonly json?: unknown
  readonly body?: string | Uint8Array | FormData
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

export interface TestServiceOptions extends Partial<TestedServiceOptions>, PluginOptions {
  readonly scripted?: boolean
  readonly apiKey?: string
  /** Default: the plugins of the package. */
  readonly installed?: Installed
}

/** Starts it. Logs are dropped unless `logger` is given. */
export async function createTestService({ installed, ...options }: TestServiceOptions = {}): Promise<TestService> {
  const dataDir = options.dataDir ?? (await mkdtemp(join(tmpdir(), 'trainyard-test-')))
  const database = options.database === undefined ? await testDatabaseAddress() : options.database
  const service = await createTestedService(
    {
      port: 0,
      logger: createLogger({ level: 'silent' }),
      baseModels: ['trainyard/tiny-random'],
      // what waits for a place does so on any machine
      trainWorkers: 1,
      ...options,
      database,
      singleServer: database !== null && options.blobStore == null,
      tuning: { ...options.tuning, jobs: { sweepMs: 50, backoffMs: 50, ...options.tuning?.jobs } },
      seams: {
        rehearsesTransactions: true,
        ...(options.scripted === false ? {} : { entryPaths: STAND_INS }),
        ...options.seams,
      },
      dataDir,
    },
    installed,
  )
  const apiKey = service.createdApiKey ?? options.apiKey ?? ''

  async function fetchPath(path: string, init: TestRequest = {}): Promise<Response> {
    const { json, ...rest } = init
    return fetch(service.url + path, {
      method: json === undefined ? 'GET' : 'POST',
      ...rest,
      headers: {
        authorization: `Bearer ${apiKey}`,
        ...(json === undefined ? {} : { 'content-type': 'application/json' }),
        ...init.headers,
      },
      ...(json === undefined ? {} : { body: typeof json === 'string' ? json : JSON.stringify(json) }),
    })
  }

  async function json<T>(path: string, init?: TestRequest): Promise<{ status: number; body: T }> {
    const response = await fetchPath(path, init)
    return { status: response.status, body: (await response.json()) as T }
  }

  const test: TestService = {
    ...service,
    dataDir,
    apiKey,
    database,
    openRows: () =>
      database === null
        ? openDatabase(join(dataDir, 'trainyard.sqlite3'), { isMigrating: false })
        : openPostgres(database, { maxConnections: 2, isBeside: true }),
    createKey: (wanted) => createLocalKey(dataDir, wanted, database),
    fetch: fetchPath,
    json,
    waitForJob: async (id, timeoutMs = 100_000) => {
      const isEnded = ({ training_end: end }: TrainingJob) => end !== null && end !== undefined
      let before = ''
      const moved = async () => {
        const { body } = await json<TrainingJob>(`/v1/preview/training-jobs/${id}`)
        const now = JSON.stringify([body.status, body.attempt, body.num_gradient_steps])
        if (now === before && !isEnded(body)) return null
        before = now
        return body
      }
      // a question costs a tenth of what trains meanwhile: who has waited long waits a little longer
      const startedAt = performance.now()
      const pauseMs = () => Math.min(10 + (performance.now() - startedAt) / 10, 100)
      for (;;) {
        const job = await until(moved, `end of job ${id}, ${before}`, timeoutMs, pauseMs)
        if (isEnded(job)) return job
      }
    },
    allEvents: async (jobId) => {
      const events: TrainingEvent[] = []
      for (;;) {
        const after = events.at(-1)?.id
        const query = after === undefined ? '' : `&after=${after}`
        const { body } = await json<{ data: TrainingEvent[]; has_more: boolean }>(
          `/v1/preview/training-jobs/${jobId}/events?limit=100${query}`,
        )
        events.push(...body.data)
        if (!body.has_more) return events
      }
    },
    untilEngineHas: async (counts) => {
      await until(
        async () => {
          const text = await (await fetch(`${service.url}/metrics`)).text()
          return Object.entries(counts).every(([name, count]) =>
            new RegExp(`^vllm:num_requests_${name}\\{.*\\} ${count}$`, 'm').test(text),
          )
        },
        `engine with ${JSON.stringify(counts)}`,
      )
    },
    createModel: async (name = 'model') => {
      const { status, body } = await json<{ id: string }>('/v1/preview/models', {
        json: { project: 'tests', name, base_model: 'trainyard/tiny-random' },
      })
      if (status !== 200) throw new Error(`create model: ${status} ${JSON.stringify(body)}`)
      return body.id
    },
    restart: async (changes = {}) => {
      await service.close(2000)
      return createTestService({ ...options, database, ...changes, dataDir, apiKey })
    },
    dispose: async () => {
      await service.close(500)
      await rm(dataDir, { recursive: true, force: true, maxRetries: 20 })
    },
  }
  return test
}

/** One group of two trajectories that a trainer would accept. */
export function sampleGroup(rewards: readonly number[] = [1, 0]): Record<string, unknown> {
  return {
    trajectories: rewards.map((reward) => ({
      messages_and_choices: [
        { role: 'user', content: 'Say yes.' },
        {
          finish_reason: 'stop',
          index: 0,
          message: { role: 'assistant', content: 'yes' },
          logprobs: {
            content: [
              { token: 'token_id:121', logprob: -0.5, bytes: [121], top_logprobs: [] },
              { token: 'token_id:101', logprob: -0.25, bytes: [101], top_logprobs: [] },
            ],
          },
        },
      ],
      reward,
      metrics: { turns: 2, is_right: reward > 0 },
    })),
  }
}
