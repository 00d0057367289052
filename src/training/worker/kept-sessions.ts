/**
 * A runtime that keeps released sessions, so that the next job of the same base model and shape need not build them again.
 *
 * A session is known by the bytes of its model file, the directory of its external data and its options: two jobs whose
 * graphs are equal share it, one after the other. It holds no state between runs, so a reused one gives the same bits.
 */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Runtime, Session, SessionOptions } from '#numerics/runtime/runtime.js'

/** Sessions kept besides those in use: those of a scoring pass and of a train graph. */
const MAX_KEPT = 2

export interface KeptSessions {
  readonly runtime: Runtime
  /** Frees the sessions nobody uses. */
  clear(): Promise<void>
}

/**
 * Wraps `runtime`; `release` of its sessions keeps them.
 *
 * @param options.isMemoryShort asked before a session is built beside kept ones: true gives those up first
 */
export function keepSessions(runtime: Runtime, options: { readonly isMemoryShort: () => boolean }): KeptSessions {
  /** Oldest first. */
  const kept = new Map<string, Session>()

  async function dropOldest(): Promise<void> {
    const oldest = kept.entries().next().value
    if (oldest === undefined) return
    kept.delete(oldest[0])
    await oldest[1].release()
  }

  function lend(key: string, session: Session): Session {
    let isReleased = false
    return {
      ...session,
      release: async () => {
        if (isReleased) return
        isReleased = true
        const twin = kept.get(key)
        kept.delete(key)
        kept.set(key, session)
        await twin?.release()
        while (kept.size > MAX_KEPT) await dropOldest()
      },
    }
  }

  async function clear(): Promise<void> {
    while (kept.size > 0) await dropOldest()
  }

  return {
    clear,
    runtime: {
      ...runtime,
      loadSession: async (path, sessionOptions = {}) => {
        // only models in files are the same from job to job
        if (typeof path !== 'string') return runtime.loadSession(path, sessionOptions)
        if (sessionOptions.profilePrefix !== undefined || sessionOptions.optimizedModelPath !== undefined) {
          return runtime.loadSession(path, sessionOptions)
        }
        const key = await keyOf(path, sessionOptions)
        const known = kept.get(key)
        if (known !== undefined) {
          kept.delete(key)
          return lend(key, known)
        }
        if (options.isMemoryShort()) await clear()
        return lend(key, await runtime.loadSession(path, sessionOptions))
      },
    },
  }
}

async function keyOf(path: string, options: SessionOptions): Promise<string> {
  const settings = JSON.stringify(Object.entries(options).sort(([a], [b]) => (a < b ? -1 : 1)))
  const hash = createHash('sha256').update(await readFile(path))
  return `${hash.digest('hex')} ${dirname(path)} ${settings}`
}
