/**
 * Entry point of the training worker process: one attempt at one job, then the process ends.
 *
 * Started by `processes/` (or by hand on another machine) with TRAINYARD_WORKER_URL, _TOKEN, _JOB and _ATTEMPT. Exit code 0
 * after a completed, failed or cancelled job that the server knows of; 1 when the server could not be told.
 */

import type { WorkerFailure } from '#api/wire/worker.js'
import { type Environment, readEnvironment } from '#base/environment.js'
import { AppError } from '#base/errors.js'
import { createLogger, type Logger, type LogLevel } from '#base/logging/logger.js'
import { systemClock } from '#base/util/clock.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import { countRuns } from './counted-runtime.js'
import { startHeartbeat } from './heartbeat.js'
import { runJob } from './run-job.js'
import { createWorkerClient, FencedError, type WorkerClient, type WorkerIdentity } from './worker-client.js'

const LOG_LEVELS: readonly LogLevel[] = ['debug', 'info', 'warn', 'error', 'silent']

async function main(environment: Environment): Promise<void> {
  const level = LOG_LEVELS.find((candidate) => candidate === environment['TRAINYARD_LOG']) ?? 'warn'
  const logger = createLogger({ level })
  const identity = readIdentity(environment)
  const client = createWorkerClient(identity)
  const job = await client.getJob()
  const heartbeat = startHeartbeat({
    identity,
    leaseSeconds: job.lease_seconds,
    parentPid: process.ppid,
    // an IPC channel means that the server itself started this process
    isServerParent: process.send !== undefined,
  })
  try {
    await runJob({
      client,
      job,
      runtime: countRuns(createOrtRuntime(), heartbeat.noteProgress),
      clock: systemClock,
      logger,
      isCancelRequested: heartbeat.isCancelRequested,
      ...readThreads(environment),
    })
  } catch (error) {
    await reportFailure(error, { client, logger })
  } finally {
    await heartbeat.stop()
  }
}

/** Tells the server why the job failed. A stale attempt has nothing to tell and nobody to tell it to. */
async function reportFailure(
  error: unknown,
  { client, logger }: { readonly client: WorkerClient; readonly logger: Logger },
): Promise<void> {
  logger.error({ err: error }, 'train.failed')
  if (error instanceof FencedError) throw error
  await client.fail(toFailure(error))
}

function toFailure(error: unknown): WorkerFailure {
  if (!(error instanceof AppError)) {
    return { code: 'internal_error', message: 'the training worker failed unexpectedly', is_cancelled: false }
  }
  return { code: error.code, message: error.message, is_cancelled: error.category === 'cancelled' }
}

/** Threads inside one operator, as the server was told; default all cores. */
function readThreads(environment: Environment): { readonly threads?: number } {
  const threads = Number(environment['TRAINYARD_THREADS'])
  return Number.isInteger(threads) && threads > 0 ? { threads } : {}
}

/** @throws {Error} naming the missing variable: the process was not started by a Trainyard server */
function readIdentity(environment: Environment): WorkerIdentity {
  const read = (name: string): string => {
    const value = environment[name]
    if (value === undefined || value === '') throw new Error(`the environment variable ${name} is not set`)
    return value
  }
  return {
    url: read('TRAINYARD_WORKER_URL').replace(/\/+$/, ''),
    token: read('TRAINYARD_WORKER_TOKEN'),
    jobId: read('TRAINYARD_WORKER_JOB'),
    attempt: Number(read('TRAINYARD_WORKER_ATTEMPT')),
  }
}

main(readEnvironment()).catch((error: unknown) => {
  createLogger().error({ err: error }, 'worker.failed')
  process.exitCode = 1
})
