/**
 * Asks the server's own API for a line of a batch, for whoever made the batch and behind all requests of people. What cannot be
 * had now (an engine that loads, a full queue) is asked again until the batch ends; a failure of the server three times.
 */
import { AppError } from '#base/errors/errors.js'
import { createTurns } from '#base/util/turns.js'
import { BEHIND_ALL } from '#contract/processes/priority.js'
import { createRateLimiter } from '#service/http/middleware/rate-limit.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import type { PluginStart } from '#service/plugin.js'
import type { BatchLine, LineAnswer } from './batch-lines.js'
import type { BatchRecord } from './storage/batches.js'

/** For so long after a request of others no line is asked beside another one: their clients may send the next soon. */
const QUIET_MS = 500
/** Between two looks for requests of others. */
const LOOK_MS = 50
/** How often a line is asked that the server fails at. */
const TRIES = 3

export interface AskingParts extends Pick<PluginStart, 'ask'> {
  /** Lines that are answered side by side, of all batches. */
  readonly atOnce: number
  /** Requests that are being answered, those of lines among them. */
  readonly countRequests: () => number
  /** Lines of one key that are asked in a minute; null: as many as are answered. */
  readonly perMinute: number | null
  /** Before what could not be had is asked for again: at first, and at most. Default a second, a minute. */
  readonly retryMs?: number
  readonly longestRetryMs?: number
}

/** Whose requests the lines are. */
export function principalOf({
  entity,
  project,
  keyId,
  usageProject,
}: Pick<BatchRecord, 'entity' | 'project' | 'keyId' | 'usageProject'>): Principal {
  const nobody = { keyPrefix: '', sessionId: null, scope: 'write' } as const
  return { entity, project, keyId, usageProject, ...nobody, priority: BEHIND_ALL }
}

interface Asked {
  readonly batch: Pick<BatchRecord, 'endpoint'>
  readonly line: BatchLine
  readonly signal: AbortSignal
}

/** @param mostWaiting lines that may wait for their turn, of all batches */
export function createAsking({ clock }: Pick<ServiceContext, 'clock'>, parts: AskingParts, mostWaiting: number) {
  const { atOnce, perMinute, retryMs = 1000, longestRetryMs = 60_000 } = parts
  const turns = createTurns({ what: 'lines of batches', mostWaiting, mostOfOneKey: mostWaiting, atOnce })
  /** Lines that are asked now, and when others were last seen to ask. */
  let running = 0
  let busyMs = Number.NEGATIVE_INFINITY
  const limiter = perMinute === null ? null : createRateLimiter(perMinute, clock)

  async function untilAllowed(keyId: string, signal: AbortSignal): Promise<void> {
    for (;;) {
      const taken = limiter?.take(keyId)
      if (taken === undefined || taken.isAllowed || signal.aborted) return
      await pause(taken.retryMs, signal)
    }
  }

  /** Counts a line that is asked: one at a time where others ask, for each that is computed beside their answers slows these. */
  async function enter(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && running > 0) {
      const nowMs = clock.monotonicMs()
      if (parts.countRequests() > running) busyMs = nowMs
      if (nowMs - busyMs > QUIET_MS) break
      await pause(LOOK_MS, signal)
    }
    // in the same turn, or two that see the same end would both begin
    running++
  }

  async function askOnce(principal: Principal, { batch, line, signal }: Asked): Promise<LineAnswer> {
    // of its own: whatever listens to a signal that lasts as long as a batch would stay for as long
    const ending = new AbortController()
    const end = (): void => ending.abort()
    signal.addEventListener('abort', end, { once: true })
    if (signal.aborted) end()
    try {
      const request = new Request(`http://localhost${batch.endpoint}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: line.body,
        signal: ending.signal,
      })
      const response = await parts.ask(principal, request)
      const body = (await response.text()).trim()
      return { status: response.status, requestId: response.headers.get('x-request-id') ?? '', body }
    } finally {
      signal.removeEventListener('abort', end)
    }
  }

  return {
    /** @returns true where the signal ended the wait */
    turn: async (keyId: string, signal: AbortSignal, task: () => Promise<boolean>): Promise<boolean> => {
      try {
        return await turns.take(keyId, signal, async () => {
          await enter(signal)
          try {
            return await task()
          } finally {
            running--
          }
        })
      } catch (error) {
        if (signal.aborted && !(error instanceof AppError)) return true
        throw error
      }
    },
    /** @returns null where the signal ended it */
    ask: async (principal: Principal, asked: Asked): Promise<LineAnswer | null> => {
      const { signal } = asked
      let faults = 0
      for (let waitMs = retryMs; ; waitMs = Math.min(longestRetryMs, 2 * waitMs)) {
        await untilAllowed(principal.keyId, signal)
        if (signal.aborted) return null
        const { status, requestId, body } = await askOnce(principal, asked)
        if (signal.aborted) return null
        const isLater = status === 429 || status === 503
        const isRepeated = isLater || (status >= 500 && ++faults < TRIES)
        if (!isRepeated) return { status, requestId, body }
        await pause(waitMs, signal)
      }
    },
  }
}

/** Resolves after a time, or when the signal ends the wait. */
function pause(timeMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve()
    const end = (): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, timeMs)
    signal.addEventListener('abort', end, { once: true })
  })
}
