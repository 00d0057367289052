/**
 * Workers on a cluster: how many there should be, and who keeps them there.
 */
import { readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { Environment } from '#base/environment.js'
import { AppError } from '#base/errors/errors.js'
import { systemClock } from '#base/util/clock.js'
import { isLoopbackUrl } from '#base/util/loopback.js'
import { parseRayAddress } from '../placement/ray-address.js'
import { createRayClient } from '../placement/ray-client.js'
import { createRayPlacer, workerPrefix } from '../placement/ray-placer.js'
import type { WorkerKind, WorkerSupply } from '../queue/unclaimable.js'
import { readQueueState } from '../storage/jobs/queue-state.js'
import type { Jobs } from './jobs.js'
import { type Start, startEnvironment } from './start.js'
import type { Storage } from './storage.js'

/** How often the cluster is looked at. */
const SWEEP_MS = 5000
/** How long what a worker of the cluster was is taken for what the next one will be. */
const REMEMBERED_MS = 10 * 60_000
const TRAINERS = ['onnx', 'torch']

/** Workers of a cluster as a supply of the queue. */
interface Placement extends WorkerSupply {
  start(): void
}

/**
 * Reads the address before anything runs; nothing is sent until `start`.
 *
 * @returns null where no cluster is set
 * @throws {AppError} `invalid_workers`
 */
export function createPlacement(
  start: Start,
  { storage, jobs }: { readonly storage: Pick<Storage, 'db' | 'ids' | 'peers'>; readonly jobs: Jobs },
): Placement | null {
  const { settings, logger, lifetimes, options } = start
  if (settings.workers === null) return null
  const placement = parseRayAddress(settings.workers, settings.publicUrl)
  const token = readToken(startEnvironment(start))
  assertGuarded(placement, token)
  const prefix = workerPrefix(placement)
  const { dispatcher, sessions } = jobs
  const { peers } = storage
  const isPlaced = ({ name }: { readonly name: string }): boolean => name.startsWith(prefix)
  /** The last worker of the cluster that was heard of, for a while: nodes may have been added since. */
  let seen: { readonly kind: WorkerKind; readonly atMs: number } | null = null

  function kinds(): readonly WorkerKind[] {
    const kind = dispatcher.remoteWorkers().filter(isPlaced).at(-1)
    if (kind !== undefined) seen = { kind, atMs: systemClock.monotonicMs() }
    if (seen !== null && systemClock.monotonicMs() - seen.atMs < REMEMBERED_MS) return [seen.kind]
    return [{ trainers: placement.trainer === 'auto' ? TRAINERS : [placement.trainer], memoryBytes: null }]
  }

  const placer = createRayPlacer({
    ...{ placement, logger, clock: systemClock, ids: storage.ids },
    client: createRayClient(placement.url, token),
    wanted: async () => {
      const { waiting, active } = await readQueueState(storage.db)
      kinds()
      const taken = waiting.filter((job) => !dispatcher.isUnclaimable(job))
      const models = new Set([...taken, ...active].map(({ modelId }) => modelId))
      const others = dispatcher.remoteWorkers().filter((worker) => !isPlaced(worker))
      // beside other servers sessions are for servers' own workers
      const sessionCount = peers.isShared ? 0 : sessions.load()
      return models.size + sessionCount - peers.count() * settings.trainWorkers - others.length
    },
    onGone: (name, reason) => dispatcher.workersEnded(name, reason),
  })
  return {
    notes: placer.notes,
    kinds,
    start: () => {
      let running: Promise<void> | null = null
      // it stays with one server: the placer remembers what it started, and takes workers of others for not its own
      const duty = peers.lastingDuty('placement')
      const sweep = (): void => {
        running ??= duty
          .run(() => placer.sweep())
          .then(nothing, notLooked)
          .finally(() => {
            running = null
          })
      }
      const nothing = (): void => undefined
      const notLooked = (error: unknown): void => logger.warn({ err: error }, 'placement.not_looked')
      const timer = setInterval(sweep, options.tuning?.placementMs ?? SWEEP_MS)
      lifetimes.add('placement', async () => {
        clearInterval(timer)
        await running
        await duty.release()
      })
      sweep()
    },
  }
}

/** Where Ray's own programs look for it. */
function readToken(environment: Environment): string | null {
  const given = environment['RAY_AUTH_TOKEN']
  if (given !== undefined && given !== '') return given
  const named = environment['RAY_AUTH_TOKEN_PATH']
  const path = named ?? join(environment['HOME'] ?? homedir(), '.ray', 'auth_token')
  try {
    return readFileSync(path, 'utf8').trim()
  } catch (cause) {
    if (named === undefined) return null
    throw new AppError('invalid_request', 'invalid_workers', `the file ${path} of RAY_AUTH_TOKEN_PATH cannot be read`, {
      cause,
    })
  }
}

/** Whoever reaches a cluster without a token runs programs on its nodes. */
function assertGuarded({ url, isInsecure }: ReturnType<typeof parseRayAddress>, token: string | null): void {
  const { protocol } = new URL(url)
  if (isInsecure || isLoopbackUrl(url)) return
  const hint = 'or add insecure=true to the address if its network is trusted'
  if (token === null) {
    throw new AppError(
      'invalid_request',
      'invalid_workers',
      `the Ray cluster at ${url} needs a token: set RAY_AUTH_TOKEN`,
      {
        hint: `start the cluster with RAY_AUTH_MODE=token, ${hint}`,
      },
    )
  }
  if (protocol === 'http:') {
    throw new AppError('invalid_request', 'invalid_workers', `the token of ${url} would travel over plain http`, {
      hint: `put a proxy with TLS before it and add tls=true, ${hint}`,
    })
  }
}
