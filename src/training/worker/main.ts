/**
 * Entry point of the training worker process: one attempt at one job or training session; then the process ends, or waits for another if the
 * server that started it keeps it (`service/processes/worker-pool.ts`).
 *
 * Started with TRAINYARD_WORKER_URL, _TOKEN, _JOB, _ATTEMPT and _FOLDERS, and for a session with _SESSION=1. Exit code 0
 * after a completed, failed or cancelled job that the server knows of; 1 when the server could not be told. With
 * TRAINYARD_WORKER_PROBE=1 it loads the runtime, says so and ends.
 */

import { dirname, join } from 'node:path'
import { type Environment, readEnvironment } from '#base/environment.js'
import { AppError, fullMessage, isFullDisk, NotFoundError } from '#base/errors/errors.js'
import { createLogger, type Logger, type LogLevel } from '#base/logging/logger.js'
import { memoryBytes } from '#base/machine/memory.js'
import { systemClock } from '#base/util/clock.js'
import {
  type WorkerFailure,
  type WorkerFolders,
  type WorkerIdle,
  type WorkerJob,
  type WorkerProbe,
  workerAssignmentSchema,
  workerFoldersSchema,
} from '#contract/processes/worker.js'
import { MAX_MESSAGE } from '#contract/wire/maxima.js'
import { placeOfBaseModel } from '#model/weights/fetch-base-model.js'
import type { Runtime } from '#numerics/runtime/runtime.js'
import { readTrainers } from '#training/trainer/trainers.js'
import { type BaseModel, createBaseModelOpener, type OpenBaseModel } from './base-model.js'
import { countRuns } from './counted-runtime.js'
import { FencedError, type WorkerIdentity } from './fenced-requests.js'
import { type Heartbeat, startHeartbeat } from './heartbeat.js'
import { createJobRuntime, jobComputing } from './job-runtime.js'
import { keepSessions } from './kept-sessions.js'
import { createOwnFiles, OWN_FILES } from './own-files.js'
import { type AttemptOptions, CancelledError, runJob } from './run-job.js'
import { createWorkerClient, type WorkerClient } from './worker-client.js'

const LOG_LEVELS: readonly LogLevel[] = ['debug', 'info', 'warn', 'error', 'silent']

async function main(environment: Environment): Promise<void> {
  // what this process writes is in the data directory: its owner's alone
  process.umask(0o077)
  const level = LOG_LEVELS.find((candidate) => candidate === environment['TRAINYARD_LOG']) ?? 'warn'
  if (environment['TRAINYARD_WORKER_PROBE'] === '1') return probe(environment)
  const logger = createLogger({ level })
  const runtime = await loadRuntime(environment, logger)
  if (runtime === null) return
  const sessions = keepSessions(runtime, { isMemoryShort: isMemoryTight })
  const tools = {
    logger,
    runtime: sessions.runtime,
    trainers: readTrainers(environment),
    computing: jobComputing(environment),
    openBaseModel: createBaseModelOpener(sessions.clear),
    ...readThreads(environment),
  }
  const isKept = environment['TRAINYARD_WORKER_KEEP'] === '1' && process.send !== undefined
  for (let task = readTask(environment); ; ) {
    const isSound = await (task.identity.isSession === true ? holdSession : makeAttempt)(task, tools)
    // a process that waits for its input would keep this one
    if (!isSound || !isKept) return tools.trainers.stop()
    task = await nextTask(readReach(environment))
  }
}

/** @returns null where the library cannot be loaded, which another attempt would not change: the job has failed with the reason then */
async function loadRuntime(environment: Environment, logger: Logger): Promise<Runtime | null> {
  try {
    return createJobRuntime(environment)
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    const client = createWorkerClient(readTask(environment).identity)
    await client.getJob()
    logger.error({ code: error.code, reason: error.message, hint: error.hint }, 'train.failed')
    await client.fail(toFailure(error))
    return null
  }
}

/** Shows whoever asks that the runtime loads on this machine, and that a trainer that is set computes what it should. */
async function probe(environment: Environment): Promise<void> {
  const trainers = readTrainers(environment)
  const say = (said: WorkerProbe): void => void process.send?.(said)
  try {
    const runtime = createJobRuntime(environment)
    const backend = await trainers.choose(null)
    const trainer = backend === null ? null : `${backend.facts.description}: ${await backend.check(runtime)}`
    say({ type: 'ready', trainer, computing: backend?.computing ?? jobComputing(environment) })
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    say({ type: 'failed', message: fullMessage(error).slice(0, MAX_MESSAGE) })
  } finally {
    await trainers.stop()
    process.disconnect?.()
  }
}

type Tools = Pick<AttemptOptions, 'logger' | 'runtime' | 'threads' | 'trainers' | 'computing'> & {
  readonly openBaseModel: OpenBaseModel
}

/** An attempt, and the folders it may use. */
interface Task {
  readonly identity: WorkerIdentity
  readonly folders: WorkerFolders
}

/** How long a server that does not answer is tried, and whether files may be read where it keeps them, as whoever started this process says. */
function readReach(environment: Environment): Pick<WorkerIdentity, 'patienceMs' | 'readsDirect'> {
  const seconds = Number(environment['TRAINYARD_WORKER_PATIENCE_SECONDS'])
  return {
    ...(Number.isFinite(seconds) && seconds > 0 ? { patienceMs: seconds * 1000 } : {}),
    ...(environment['TRAINYARD_WORKER_READS_DIRECT'] === '1' ? { readsDirect: true } : {}),
  }
}

/** Runs one attempt to its end. @returns whether this process may make another one */
async function makeAttempt({ identity, folders }: Task, tools: Tools): Promise<boolean> {
  let noteProgress = (): void => undefined
  const client = createWorkerClient(identity, {
    onRows: () => noteProgress(),
    // on the server's machine its files are as near
    ownFiles: folders.fetched === null ? null : createOwnFiles(join(dirname(folders.fetched), OWN_FILES)),
  })
  const job = await takeJob(client, tools.logger)
  if (job === null) return true
  const heartbeat = startHeartbeat({
    identity,
    leaseSeconds: job.lease_seconds,
    parentPid: process.ppid,
    // a process of the server itself is given its base models
    isServerParent: process.send !== undefined && folders.base_model !== null,
  })
  noteProgress = heartbeat.noteProgress
  try {
    await runJob({
      ...tools,
      client,
      job,
      openBaseModel: () => openBaseModel(folders, { client, heartbeat, open: tools.openBaseModel }),
      runtime: countRuns(tools.runtime, heartbeat.noteProgress),
      onProgress: heartbeat.noteProgress,
      clock: systemClock,
      isCancelRequested: heartbeat.isCancelRequested,
      isStopRequested: heartbeat.isStopRequested,
    })
    return true
  } catch (error) {
    await reportFailure(error, { client, logger: tools.logger })
    return error instanceof AppError && (error.category === 'cancelled' || error.category === 'invalid_request')
  } finally {
    await heartbeat.stop()
    await client.close()
  }
}

interface BaseModelTools {
  readonly client: WorkerClient
  readonly heartbeat: Heartbeat
  readonly open: OpenBaseModel
}

async function openBaseModel(folders: WorkerFolders, { client, heartbeat, open }: BaseModelTools): Promise<BaseModel> {
  const onPart = (): void => {
    heartbeat.noteProgress()
    if (heartbeat.isCancelRequested()) throw new CancelledError()
  }
  return open({ sourcePath: await placeOfBaseModel(folders, { client, onPart }), preparedDir: folders.prepared })
}

/** Holds a training session until the server takes it back. A stale or failed one ends the process: the session goes on elsewhere. */
async function holdSession({ identity, folders }: Task, tools: Tools): Promise<boolean> {
  const { runSession } = await import('./session/run-session.js')
  await runSession({ ...tools, identity, folders, clock: systemClock })
  return true
}

/** @returns null where something the job names is gone, which another attempt would not change: the job has failed with the reason then */
async function takeJob(client: WorkerClient, logger: Logger): Promise<WorkerJob | null> {
  try {
    return await client.getJob()
  } catch (error) {
    if (!(error instanceof NotFoundError)) throw error
    logger.error({ code: error.code, reason: error.message }, 'train.failed')
    await client.fail(toFailure(error))
    return null
  }
}

/** Tells the server that this process is free, and waits for the next attempt; the server ends it when there is none. */
function nextTask(patience: ReturnType<typeof readReach>): Promise<Task> {
  return new Promise((resolve) => {
    process.once('message', (message: unknown) => {
      const { folders, is_session: isSession, ...said } = workerAssignmentSchema.parse(message)
      const { url, token, job_id: jobId, attempt } = said
      resolve({ identity: { url, token, jobId, attempt, isSession, ...patience }, folders })
    })
    const idle: WorkerIdle = { type: 'idle', resident_bytes: process.memoryUsage.rss() }
    process.send?.(idle)
  })
}

/** Kept sessions must not take the memory that the one being built needs. */
function isMemoryTight(): boolean {
  return process.memoryUsage.rss() > memoryBytes() / 8
}

/** Tells the server why the job failed. A stale attempt has nothing to tell and nobody to tell it to. */
async function reportFailure(
  error: unknown,
  { client, logger }: { readonly client: WorkerClient; readonly logger: Logger },
): Promise<void> {
  if (error instanceof FencedError) throw error
  // who cancelled it knows: nothing has gone wrong
  if (!(error instanceof CancelledError)) logger.error({ err: error }, 'train.failed')
  await client.fail(toFailure(error))
}

function toFailure(error: unknown): WorkerFailure {
  if (isFullDisk(error)) {
    return { code: 'disk_full', message: 'the disk of the training worker is full', is_cancelled: false }
  }
  if (!(error instanceof AppError)) {
    return { code: 'internal_error', message: 'the training worker failed unexpectedly', is_cancelled: false }
  }
  // a job's record has one text, and it is all that the hosted service's client shows
  return {
    code: error.code,
    message: fullMessage(error).slice(0, MAX_MESSAGE),
    is_cancelled: error.category === 'cancelled',
  }
}

/** Threads inside one operator, as the server was told. */
function readThreads(environment: Environment): { readonly threads?: number } {
  const threads = Number(environment['TRAINYARD_THREADS'])
  return Number.isInteger(threads) && threads > 0 ? { threads } : {}
}

/** @throws {Error} naming the missing variable: the process was not started by a Trainyard server */
function readTask(environment: Environment): Task {
  const read = (name: string): string => {
    const value = environment[name]
    if (value === undefined || value === '') throw new Error(`the environment variable ${name} is not set`)
    return value
  }
  const identity = {
    url: read('TRAINYARD_WORKER_URL').replace(/\/+$/, ''),
    token: read('TRAINYARD_WORKER_TOKEN'),
    jobId: read('TRAINYARD_WORKER_JOB'),
    attempt: Number(read('TRAINYARD_WORKER_ATTEMPT')),
    isSession: environment['TRAINYARD_WORKER_SESSION'] === '1',
    ...readReach(environment),
  }
  return { identity, folders: workerFoldersSchema.parse(JSON.parse(read('TRAINYARD_WORKER_FOLDERS'))) }
}

main(readEnvironment()).catch((error: unknown) => {
  // what is told in a sentence needs no stack
  const said =
    error instanceof AppError ? { code: error.code, reason: error.message, hint: error.hint } : { err: error }
  // the job went on elsewhere, or was taken away: whoever did that has said why
  if (error instanceof FencedError) createLogger().warn(said, 'worker.stale')
  else createLogger().error(said, 'worker.failed')
  process.exitCode = 1
})
