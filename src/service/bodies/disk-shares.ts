/**
 * Room on disk for bodies that are not read to their end: one budget, of which several bodies of one key take at most half, so that
 * another key's body always finds some. A key's only body may take all that is left.
 */
import { AppError } from '#base/errors/errors.js'

/** One body's part of the budget. */
export interface DiskShare {
  /** @param bytes what is about to be written. @throws {AppError} `too_many_bodies` */
  take(bytes: number): void
  /** Gives all of it back; harmless twice. */
  release(): void
}

export interface DiskShares {
  open(key: string): DiskShare
}

/** @param limit bytes of all bodies together */
export function createDiskShares(limit: number): DiskShares {
  /** What each key's bodies hold, those that hold anything. */
  const held = new Map<string, Set<{ bytes: number }>>()
  let total = 0

  function assertRoom(key: string, body: { bytes: number }, more: number): void {
    if (total + more > limit)
      throw tooManyBodies(`the server holds ${limit} bytes of unfinished request bodies already`)
    const bodies = [...(held.get(key) ?? [])]
    const others = bodies.filter((other) => other !== body)
    const own = bodies.reduce((sum, { bytes }) => sum + bytes, more)
    if (others.length === 0 || own <= limit / 2) return
    throw tooManyBodies(
      `this key holds ${own - more} bytes in ${bodies.length} unfinished request bodies already, of ${Math.floor(limit / 2)} that several may hold`,
    )
  }

  return {
    open: (key) => {
      const body = { bytes: 0 }
      return {
        take: (bytes) => {
          assertRoom(key, body, bytes)
          const bodies = held.get(key) ?? new Set()
          held.set(key, bodies.add(body))
          body.bytes += bytes
          total += bytes
        },
        release: () => {
          total -= body.bytes
          body.bytes = 0
          const bodies = held.get(key)
          bodies?.delete(body)
          if (bodies?.size === 0) held.delete(key)
        },
      }
    },
  }
}

function tooManyBodies(message: string): AppError {
  return new AppError('unavailable', 'too_many_bodies', message, {
    hint: 'send fewer large requests at once',
    details: { retry_after_seconds: 5 },
  })
}
