/**
 * Health checks that use the real parts, each timed: a row is written and read back, a blob too, the queue is asked, the default
 * engine answers a ping, what base models' files lack is told, a training worker loads its runtime. The answer names the part that is slow.
 *
 * Anybody may ask, so asking must cost little: calls that come together share one run, and a worker is only started for it when
 * none runs or waits, at most once a minute.
 */

import type { CheckResult, SystemCheck, SystemCheckResponse } from '#contract/wire/health.js'
import type { LoadedEvent } from '#inference/host/protocol.js'
import type { RemoteEngine } from '#service/processes/remote-engines.js'
import { findClaimableJob } from '#service/storage/jobs/states.js'
import { readProbe, writeAndReadProbe } from '#service/storage/upkeep/health-probes.js'
import type { ServiceContext } from './context.js'

/** Each check runs under its own limit, even after another has failed. */
const CHECK_TIMEOUT_MS = 5_000
/** Loading the runtime on a busy machine takes its time, PyTorch more of it. */
const WORKER_TIMEOUT_MS = 60_000
/** How long a started worker counts as proof, and what was found in the files of base models as news. */
const FRESH_MS = 60_000

/** Limit of each check of `faults`: whoever asks waits seconds at most. */
const READY_TIMEOUT_MS = 2000
/** How long a blob that was written and read counts for `faults`. */
const BLOB_FRESH_MS = 10_000

/** Machines that a sentence names. */
const MAX_NAMES = 5

/** What is slow on a laptop, milliseconds: an order of magnitude above what the part usually takes. */
const SLOW_MS = {
  database: 100,
  blob_store: 250,
  cpu_queue: 100,
  gpu_queue: 1000,
  base_models: 5000,
  worker: 10_000,
} as const
type CheckName = keyof typeof SLOW_MS

export interface SystemCheckService {
  /** Why requests cannot be served, a clause each. Costs a read, and every few seconds a blob. */
  faults(): Promise<readonly string[]>
  run(): Promise<{ readonly isHealthy: boolean; readonly body: SystemCheckResponse }>
}

/** What it works with. */
type Context = Pick<
  ServiceContext,
  | 'db'
  | 'blobs'
  | 'ids'
  | 'clock'
  | 'dispatcher'
  | 'engines'
  | 'remoteEngines'
  | 'baseModels'
  | 'modelFacts'
  | 'trainWorkers'
  | 'deviceNotes'
  | 'probeWorker'
>

export function createSystemCheckService(context: Context): SystemCheckService {
  const { blobs, clock } = context
  let shared: ReturnType<SystemCheckService['run']> | null = null
  let worker: { readonly check: SystemCheck; readonly atMs: number } | null = null
  let models: { readonly names: string; readonly check: SystemCheck; readonly atMs: number } | null = null

  async function checkBaseModels(): Promise<SystemCheck> {
    const names = context.baseModels.map(({ name }) => name).join()
    if (models?.names === names && clock.monotonicMs() - models.atMs < FRESH_MS) return models.check
    let warnings: string[] = []
    const check = await measure(clock, 'base_models', async () => {
      warnings = (await Promise.all(context.baseModels.map((model) => warningsOf(context, model)))).flat()
      const { length } = context.baseModels
      return `the files of ${length} base model${length === 1 ? '' : 's'} were looked at`
    })
    // large files on a busy machine take longer than a check: they are read on, and known the next time
    if (!check.success) return { ...check, success: true, errors: [], message: 'base models are still being read' }
    models = { names, check: { ...check, warnings }, atMs: clock.monotonicMs() }
    return models.check
  }

  async function checkWorker(): Promise<SystemCheck> {
    if (worker !== null && clock.monotonicMs() - worker.atMs < FRESH_MS) return worker.check
    const check = await measure(clock, 'worker', () => context.probeWorker(), WORKER_TIMEOUT_MS)
    worker = check.success ? { check, atMs: clock.monotonicMs() } : null
    return check
  }

  async function run(): ReturnType<SystemCheckService['run']> {
    // one after the other, so that none waits for another and each time is its own
    const database = await measure(clock, 'database', () => checkDatabase(context))
    const blobStore = await measure(clock, 'blob_store', () => blobs.check())
    const notes = context.dispatcher.notes()
    const queue = {
      ...(await measure(clock, 'cpu_queue', () => checkQueue(context))),
      ...(notes.length === 0 ? {} : { warnings: [...notes] }),
    }
    const { deviceNotes } = context
    const engine = {
      ...(await measure(clock, 'gpu_queue', () => checkEngine(context))),
      ...(deviceNotes.length === 0 ? {} : { warnings: [...deviceNotes] }),
    }
    const baseModels = await checkBaseModels()
    const checks = [database, blobStore, queue, engine, baseModels, await checkWorker()]
    const slowest = checks.filter((check) => check.is_slow).sort((a, b) => b.duration_ms - a.duration_ms)[0]
    return {
      isHealthy: checks.every((check) => check.success),
      body: {
        api: true,
        database: database.success,
        cpu_queue: toResult(queue),
        gpu_queue: toResult(engine),
        checks,
        slow: slowest?.name ?? null,
      },
    }
  }

  return {
    faults: createFaults(context),
    run: () => {
      shared ??= run().finally(() => {
        shared = null
      })
      return shared
    },
  }
}

/** Calls that come together share one look. */
function createFaults({ db, blobs, clock }: Context): SystemCheckService['faults'] {
  let shared: Promise<readonly string[]> | null = null
  let blobsAtMs: number | null = null

  async function look(): Promise<readonly string[]> {
    const isFresh = blobsAtMs !== null && clock.monotonicMs() - blobsAtMs < BLOB_FRESH_MS
    const checks = await Promise.all([
      measure(clock, 'database', async () => String(await readProbe(db)), READY_TIMEOUT_MS),
      ...(isFresh ? [] : [measure(clock, 'blob_store', () => blobs.check(), READY_TIMEOUT_MS)]),
    ])
    if (!isFresh && checks[1]?.success === true) blobsAtMs = clock.monotonicMs()
    return checks.flatMap(({ name, errors }) => errors.map((error) => `${name}: ${error}`))
  }

  return () => {
    shared ??= look().finally(() => {
      shared = null
    })
    return shared
  }
}

/** Runs one check under its limit; what fails or takes too long is its error. */
async function measure(
  clock: Context['clock'],
  name: CheckName,
  check: () => Promise<string>,
  timeoutMs = CHECK_TIMEOUT_MS,
): Promise<SystemCheck> {
  const startMs = clock.monotonicMs()
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs)
  })
  const errors: string[] = []
  let message = ''
  try {
    message = await Promise.race([check(), timeout])
  } catch (error) {
    errors.push(error instanceof Error ? error.message : String(error))
  } finally {
    clearTimeout(timer)
  }
  const durationMs = Math.round((clock.monotonicMs() - startMs) * 10) / 10
  return {
    name,
    success: errors.length === 0,
    is_slow: durationMs > SLOW_MS[name],
    duration_ms: durationMs,
    message,
    errors,
  }
}

async function checkDatabase({ db, ids }: Context): Promise<string> {
  const value = ids.secret(8)
  if ((await writeAndReadProbe(db, { id: ids.uuid(), value })) !== value)
    throw new Error('a row did not read back as written')
  return 'a row was written, read back and deleted'
}

async function checkQueue({ db, dispatcher, trainWorkers }: Context): Promise<string> {
  const failure = dispatcher.lastError()
  if (failure !== null) throw new Error(`the job queue failed: ${failure}`)
  await findClaimableJob(db)
  const remote = dispatcher.remoteWorkers()
  const here = `${dispatcher.runningCount()} of ${trainWorkers} workers busy`
  if (remote.length === 0) return here
  return `${here}, of other machines ${remote.filter(({ isBusy }) => isBusy).length} of ${remote.length}: ${namesOf(remote)}`
}

async function checkEngine({ ids, baseModels, engines, remoteEngines }: Context): Promise<string> {
  const base = baseModels[0]
  if (base === undefined) throw new Error('no base model is configured')
  const engine = engines.engineOf(base.name)
  await engine.ping(ids.uuid(), CHECK_TIMEOUT_MS)
  const loaded = engine.loaded()
  const nodes = remoteEngines.list()
  if (loaded?.precision === null && nodes.length > 0) return nodesOf(base.name, nodes)
  return `the engine of ${base.name} answers${loaded === null ? '' : `, served ${servedAs(loaded)}`}`
}

/** What is said of one model's files. One that cannot be used fails its own requests, not the service. */
async function warningsOf({ modelFacts }: Context, model: ServiceContext['baseModels'][number]): Promise<string[]> {
  try {
    const { warnings } = await modelFacts.factsOf(model)
    return warnings.map((warning) => `${model.name}: ${warning}`)
  } catch (error) {
    return [`${model.name} cannot be used: ${error instanceof Error ? error.message : String(error)}`]
  }
}

/** Each machine once, a handful of them. */
function namesOf(workers: readonly { readonly name: string }[]): string {
  const names = [...new Set(workers.map(({ name }) => name))]
  return names.length <= MAX_NAMES ? names.join(', ') : `${names.slice(0, MAX_NAMES).join(', ')} and more`
}

/** How many nodes there are, and which serve the base model. */
function nodesOf(baseModel: string, nodes: readonly RemoteEngine[]): string {
  const serving = nodes.filter(({ base_model: { name }, is_leaving: isLeaving }) => name === baseModel && !isLeaving)
  const those = serving.length === 0 ? '' : `: ${namesOf(serving)}`
  return `${serving.length} of ${nodes.length} engine nodes serve ${baseModel}${those}`
}

/** The precision, the measurement it comes from, and the threads or the device. */
function servedAs({
  precision,
  int8Speedup,
  threads = null,
  device,
}: Pick<LoadedEvent, 'precision' | 'int8Speedup' | 'threads' | 'device'>): string {
  const by = threads === null ? 'all cores' : `${threads} thread${threads === 1 ? '' : 's'}`
  if (precision === null) return 'by engine nodes, of which there are none'
  if (device !== undefined) return `as ${precision} by ${device.description}, ${device.placement}`
  if (int8Speedup == null) return `as ${precision} by ${by}`
  return `as ${precision} by ${by} (int8 products were measured to be ${int8Speedup.toFixed(1)} times as fast as f32)`
}

function toResult({ success, duration_ms, errors }: SystemCheck): CheckResult {
  return { success, duration_ms, errors }
}
