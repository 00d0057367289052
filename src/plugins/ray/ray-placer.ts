/**
 * Keeps as many workers alive on a Ray cluster as have something to do.
 *
 * Every few seconds it lists Ray's jobs and compares: missing workers are submitted, surplus ones that still wait for a
 * node are stopped. Running workers end by themselves when they have nothing to do. The list comes from Ray each time,
 * so a restarted server goes on with the workers that are there. Only what was just submitted is remembered here, until
 * Ray lists it; for that reason only one of several servers places workers.
 *
 * It owns no state of training jobs: workers claim those themselves. If Ray says that a worker has ended, its job need
 * not wait for the lease to run out; nothing else follows from it.
 */
import { createHash } from 'node:crypto'
import type { Logger } from '#base/logging/logger.js'
import type { Clock } from '#base/util/clock.js'
import type { IdSource } from '#base/util/ids.js'
import { maxOf } from '#base/util/lists.js'
import { quoteWord } from '#contract/wire/command-words.js'
import type { RayPlacement } from './ray-address.js'
import type { RayClient, RayJob } from './ray-client.js'

export interface RayPlacerOptions {
  readonly placement: RayPlacement
  readonly client: RayClient
  readonly clock: Pick<Clock, 'monotonicMs'>
  readonly ids: Pick<IdSource, 'uuid'>
  readonly logger: Logger
  /** How many workers beside those of this machine would have something to do. */
  readonly wanted: () => Promise<number>
  /** A worker has ended, says Ray. @param name what it calls itself @returns whether it was seen to have had something to do */
  readonly onGone: (name: string, reason: string) => Promise<boolean>
}

export interface RayPlacer {
  /** Compares once. Never rejects: what is wrong stands in `notes`. */
  sweep(): Promise<void>
  /** Sentences for whoever waits, or asks how the cluster is. */
  notes(): readonly string[]
}

/** Ray itself fails a job that found no node after 15 minutes. */
const MOST_PENDING_MS = 10 * 60_000
/** Before that a worker that waits for a node is nothing to speak of. */
const PENDING_TOLD_MS = 30_000
/** After a worker that failed the next one waits, twice as long each time. */
const FIRST_PAUSE_MS = 5000
const MOST_PAUSE_MS = 5 * 60_000
/** A worker that ran for so long shows that workers can. */
const SOUND_MS = 30_000

const LIVE: ReadonlySet<string> = new Set(['PENDING', 'RUNNING'])

export function createRayPlacer(options: RayPlacerOptions): RayPlacer {
  const { placement, client, clock, logger } = options
  const prefix = workerPrefix(placement)
  /** When each was first seen to wait for a node. */
  const pendingSince = new Map<string, number>()
  /** When each was first seen to run. */
  const runningSince = new Map<string, number>()
  /** Told to stop. Ray may say yes and do nothing: it is told again until the list says so. */
  const stopping = new Set<string>()
  /** Ended and told of, and still in Ray's list. */
  const taken = new Set<string>()
  /** Those that it started itself: of others nobody knows whether they worked. */
  const submitted = new Set<string>()
  let failures = 0
  /** Workers in a row that ended well and had nothing to do: whatever asks for them is not served by them. */
  let idlers = 0
  let nextSubmitMs = Number.NEGATIVE_INFINITY
  let lastFailure: string | null = null
  let notes: readonly string[] = []

  async function compare(): Promise<void> {
    const jobs = (await client.list()).filter(({ id }) => id.startsWith(prefix))
    forget(new Set(jobs.map(({ id }) => id)))
    await takeEnded(jobs.filter(({ status }) => !LIVE.has(status)))
    const live = jobs.filter(({ id, status }) => LIVE.has(status) && !stopping.has(id))
    const nowMs = clock.monotonicMs()
    watchPending(live, nowMs)
    const wanted = Math.min(placement.most, Math.max(placement.least, await options.wanted()))
    const stale = live.filter(({ id }) => nowMs - (pendingSince.get(id) ?? nowMs) > MOST_PENDING_MS)
    const spare = live.filter(({ id, status }) => status === 'PENDING' && !stale.some((job) => job.id === id))
    const superfluous = spare.slice(0, Math.max(0, live.length - stale.length - wanted))
    for (const { id } of [...stale, ...superfluous]) stopping.add(id)
    for (const { id, status } of jobs) if (stopping.has(id) && LIVE.has(status)) await client.stop(id)
    const kept = live.filter(({ id }) => !stopping.has(id))
    // those that failed are not all replaced at once
    if (nowMs >= nextSubmitMs) {
      for (let missing = wanted - kept.length; missing > 0; missing -= 1) await submit()
    }
    notes = tell(kept, wanted, nowMs)
  }

  /** What Ray does not know any more: a cluster that was started anew knows none. */
  function forget(known: ReadonlySet<string>): void {
    for (const map of [pendingSince, runningSince, stopping, taken, submitted])
      for (const id of [...map.keys()]) if (!known.has(id)) map.delete(id)
  }

  /** Whoever ended is told of once, and forgotten by Ray. */
  async function takeEnded(ended: readonly RayJob[]): Promise<void> {
    let isCounted = false
    for (const { id, status, message } of ended) {
      if (taken.has(id)) {
        await remove(id)
        continue
      }
      const isAsked = stopping.delete(id)
      pendingSince.delete(id)
      runningSince.delete(id)
      const hasWorked = await options.onGone(id, `Ray says that its worker is ${status}`)
      const isIdler = status === 'SUCCEEDED' && !hasWorked && submitted.has(id)
      if (status === 'FAILED' && !isAsked) {
        // those that fail together have one reason
        if (!isCounted) failures += 1
        isCounted = true
        lastFailure = gistOf(message)
        nextSubmitMs = clock.monotonicMs() + Math.min(MOST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (failures - 1))
        logger.warn({ worker: id, reason: message.slice(0, 1000) }, 'placement.worker_failed')
      } else {
        if (hasWorked) [failures, idlers] = [0, 0]
        else if (isIdler && !isAsked) waitLonger(id)
        else if (status === 'SUCCEEDED') failures = 0
        logger.info({ worker: id, status }, 'placement.worker_ended')
      }
      taken.add(id)
      await remove(id)
    }
  }

  /** As after a failed start: what it was started for is still there. */
  function waitLonger(id: string): void {
    idlers += 1
    nextSubmitMs = clock.monotonicMs() + Math.min(MOST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (idlers - 1))
    logger.warn({ worker: id, in_a_row: idlers }, 'placement.worker_idle')
  }

  /** Tried again by the next sweep where Ray does not do it. */
  async function remove(id: string): Promise<void> {
    try {
      await client.remove(id)
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      logger.warn({ worker: id, reason }, 'placement.worker_not_removed')
    }
  }

  function watchPending(live: readonly RayJob[], nowMs: number): void {
    for (const { id, status } of live) {
      if (status === 'RUNNING') {
        pendingSince.delete(id)
        const fromMs = runningSince.get(id) ?? nowMs
        runningSince.set(id, fromMs)
        if (nowMs - fromMs >= SOUND_MS) failures = 0
      } else if (!pendingSince.has(id)) pendingSince.set(id, nowMs)
    }
  }

  async function submit(): Promise<void> {
    const { cpus, gpus, resources } = placement
    const id = `${prefix}${options.ids.uuid().slice(-12)}`
    await client.submit({ id, entrypoint: entrypointOf(placement, id), cpus, gpus, resources })
    submitted.add(id)
    pendingSince.set(id, clock.monotonicMs())
    logger.info({ worker: id }, 'placement.worker_submitted')
  }

  function tell(kept: readonly RayJob[], wanted: number, nowMs: number): string[] {
    const said: string[] = []
    const waiting = [...pendingSince].filter(([id, fromMs]) => !stopping.has(id) && nowMs - fromMs >= PENDING_TOLD_MS)
    if (waiting.length > 0) {
      const longest = maxOf(waiting.map(([, fromMs]) => nowMs - fromMs))
      said.push(
        `${waiting.length} of ${Math.max(wanted, kept.length)} workers wait for a node of the Ray cluster with ${needsOf(placement)}, the longest for ${Math.round(longest / 1000)} s`,
      )
    }
    if (lastFailure !== null && failures > 0) said.push(`workers on the Ray cluster fail: ${lastFailure}`)
    if (idlers > 0 && wanted > 0) {
      const count = idlers === 1 ? 'the last worker' : `the last ${idlers} workers`
      said.push(`${count} of the Ray cluster ended without having had anything to do`)
    }
    return said
  }

  return {
    sweep: async () => {
      try {
        await compare()
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error)
        if (notes[0] !== reason) logger.warn({ reason }, 'placement.failed')
        notes = [reason]
      }
    },
    notes: () => notes,
  }
}

/** What happened, and the last that the worker said: Ray's own lines stand between its. */
function gistOf(message: string): string {
  const [first = '', ...log] = message.trim().split('\n')
  const said = log.findLast((line) => line.trim() !== '' && !/job_manager\.py|^Running entrypoint/.test(line))
  return [first.split(', last available logs')[0], ...(said === undefined ? [] : [said.trim()])]
    .join(': ')
    .slice(0, 400)
}

/** How the names of a server's workers begin: several servers may share a cluster. */
export function workerPrefix({ serverUrl }: Pick<RayPlacement, 'serverUrl'>): string {
  return `trainyard-${createHash('sha256').update(serverUrl).digest('hex').slice(0, 8)}-`
}

/** For people: `1 CPU, 1 GPU, 2 train`. */
function needsOf({ cpus, gpus, resources }: RayPlacement): string {
  const parts = [[cpus, cpus === 1 ? 'CPU' : 'CPUs'] as const, [gpus, gpus === 1 ? 'GPU' : 'GPUs'] as const]
  const others = Object.entries(resources).map(([name, count]) => [count, name] as const)
  return [...parts, ...others]
    .filter(([count]) => count > 0)
    .map(([count, name]) => `${count} ${name}`)
    .join(', ')
}

/** Ray gives it to a shell. It runs in place of that shell, so that whatever ends the one ends the other. */
export function entrypointOf(
  { command, serverUrl, keyFile, trainer, idleSeconds }: RayPlacement,
  name: string,
): string {
  const flags = ['--server', serverUrl, '--api-key-file', keyFile, '--name', name, '--trainer', trainer]
  return `exec ${command} worker ${[...flags, '--idle-exit', `${idleSeconds}s`].map(quoteWord).join(' ')}`
}
