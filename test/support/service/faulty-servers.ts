/**
 * Servers of one data directory that tests kill and start again, with the stand-in worker, and the promise that is checked after each:
 * nothing acknowledged is lost, exactly one terminal event, never a torn checkpoint, never two.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect } from 'vitest'
import type { TrainingEvent, TrainingJob } from '#contract/wire/training-jobs.js'
import { until } from '../until.js'
import { STAND_INS, sampleGroup } from './create-test-service.js'
import { type KillableServer, type KillableServerOptions, startKillableServer } from './killable-server.js'

const RL = '/v1/preview/training-jobs'

/** A job whose first attempt never ends by itself, and whose next ones do. */
export const HELD_AT_3 = { steps: 6, freeze_at: 3, freeze_ms: 3_600_000, beats_while_frozen: true, only_attempt: 1 }

/** What a test of the file begins with; its hooks delete the directory and end what runs. */
export function useFaultyServers() {
  let dataDir = ''
  let closers: (() => Promise<unknown>)[] = []
  let apiKey = ''

  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'trainyard-faults-'))
    closers = []
    apiKey = ''
  })
  afterEach(async () => {
    for (const close of closers.reverse()) await close()
    await rm(dataDir, { recursive: true, force: true, maxRetries: 20 })
  })

  return {
    dataDir: () => dataDir,
    /** Done after the test, the last first. */
    atEnd: (close: () => Promise<unknown>) => void closers.push(close),
    /** With the stand-in worker; the key of the first server on the directory is the later ones'. */
    async startServer(
      options: Pick<KillableServerOptions, 'tuning' | 'seams' | 'trainWorkers'> = {},
    ): Promise<KillableServer> {
      const seams = { entryPaths: STAND_INS, ...options.seams }
      const server = await startKillableServer({ dataDir, apiKey, ...options, seams })
      closers.push(() => server.kill('SIGKILL'))
      apiKey = server.apiKey
      return server
    },
  }
}

export async function submit(server: KillableServer, modelId: string, standIn: object): Promise<string> {
  const json = {
    model_id: modelId,
    trajectory_groups: [sampleGroup()],
    experimental_config: { stand_in: standIn },
  }
  return (await server.call<{ id: string }>(RL, json)).id
}

export const eventsOf = async (server: KillableServer, jobId: string) =>
  (await server.call<{ data: TrainingEvent[] }>(`${RL}/${jobId}/events?limit=100`)).data
export const untilEnd = (server: KillableServer, jobId: string) =>
  until(async () => {
    const job = await server.call<TrainingJob>(`${RL}/${jobId}`)
    return job.training_end !== null && job
  }, `end of job ${jobId}`)
export const stepsOf = async (server: KillableServer, modelId: string) =>
  (await server.call<{ data: { step: number }[] }>(`/v1/preview/models/${modelId}/checkpoints`)).data.map((c) => c.step)

/** One terminal event, no step twice, and a checkpoint exactly if the job completed. */
export async function checkPromise(
  server: KillableServer,
  modelId: string,
  jobId: string,
  before: number[] = [],
): Promise<TrainingJob> {
  const job = await untilEnd(server, jobId)
  const events = await eventsOf(server, jobId)
  const terminal = events.filter((event) => event.type === 'training_ended' || event.type === 'training_failed')
  expect(terminal).toHaveLength(1)
  expect(events.at(-1)).toEqual(terminal[0])
  const losses = events.filter((event) => event.type === 'gradient_step').map((event) => event.data['loss'])
  expect(new Set(losses).size).toBe(losses.length)
  // A job that waited behind this one may have committed its own checkpoint by now.
  const steps = (await stepsOf(server, modelId)).filter((step) => job.step === null || step <= job.step)
  expect(steps).toEqual(job.step === null ? before : [...before, job.step])
  return job
}
