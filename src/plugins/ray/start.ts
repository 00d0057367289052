/**
 * Workers on a Ray cluster: what the address says of them, and who keeps them there.
 */
import { readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { AppError } from '#base/errors/errors.js'
import { systemClock } from '#base/util/clock.js'
import { isLoopbackUrl } from '#base/util/loopback.js'
import type { SupplyStart } from '#service/plugin.js'
import type { WorkerKind, WorkerSupply } from '#service/queue/unclaimable.js'
import { parseRayAddress } from './ray-address.js'
import { createRayClient } from './ray-client.js'
import { createRayPlacer, workerPrefix } from './ray-placer.js'

/** How often the cluster is looked at. */
const SWEEP_MS = 5000
/** How long what a worker of the cluster was is taken for what the next one will be. */
const REMEMBERED_MS = 10 * 60_000
const TRAINERS = ['onnx', 'torch']

/** What only tests change. */
interface RayTuning {
  readonly sweepMs?: number
}

/**
 * Reads the address before anything runs; nothing is sent until `start`.
 *
 * @throws {AppError} `invalid_workers`
 */
export function openRaySupply(core: SupplyStart): WorkerSupply & { start(): void } {
  const { queue, logger, lifetimes } = core
  const { sweepMs = SWEEP_MS }: RayTuning = core.tuning ?? {}
  const placement = parseRayAddress(core.address, core.publicUrl)
  const token = readToken(core.environment)
  assertGuarded(placement, token)
  const prefix = workerPrefix(placement)
  const isPlaced = ({ name }: { readonly name: string }): boolean => name.startsWith(prefix)
  /** The last worker of the cluster that was heard of, for a while: nodes may have been added since. */
  let seen: { readonly kind: WorkerKind; readonly atMs: number } | null = null

  function kinds(): readonly WorkerKind[] {
    const kind = queue.workers().filter(isPlaced).at(-1)
    if (kind !== undefined) seen = { kind, atMs: systemClock.monotonicMs() }
    if (seen !== null && systemClock.monotonicMs() - seen.atMs < REMEMBERED_MS) return [seen.kind]
    return [{ trainers: placement.trainer === 'auto' ? TRAINERS : [placement.trainer], memoryBytes: null }]
  }

  const placer = createRayPlacer({
    ...{ placement, logger, clock: systemClock, ids: core.ids },
    client: createRayClient(placement.url, token),
    wanted: () => {
      // also where nothing waits, whose needs would be asked for
      kinds()
      return queue.wanted(isPlaced)
    },
    onGone: queue.workersEnded,
  })
  return {
    notes: placer.notes,
    kinds,
    asked: 'a worker is asked of the Ray cluster',
    start: () => {
      let running: Promise<void> | null = null
      // it stays with one server: the placer remembers what it started, and takes workers of others for not its own
      const duty = queue.lastingDuty('placement')
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
      const timer = setInterval(sweep, sweepMs)
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
function readToken(environment: SupplyStart['environment']): string | null {
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
