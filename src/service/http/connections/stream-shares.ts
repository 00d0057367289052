/**
 * How many streams of events each entity follows at once: each is a connection and a reader of the database for as long as it likes.
 */
import { AppError } from '#base/errors/errors.js'

export interface EndingAnswer {
  /** Its connection has closed: `close` will not come again. */
  readonly destroyed: boolean
  once(event: 'close', listener: () => void): unknown
}

export interface StreamShares {
  /**
   * Counts a stream until its answer ends.
   *
   * @param answer null where only a test calls the application, without a port
   * @throws {AppError} `too_many_event_streams`
   */
  enter(answer: EndingAnswer | null, entity: string): void
}

/** @param most of one entity */
export function createStreamShares(most: number): StreamShares {
  const open = new Map<string, number>()
  return {
    enter: (answer, entity) => {
      if (answer === null || answer.destroyed) return
      const count = open.get(entity) ?? 0
      if (count >= most) {
        throw new AppError('rate_limited', 'too_many_event_streams', `"${entity}" follows ${count} streams of events`, {
          hint: `close some: one entity may follow ${most} at once (--max-event-streams)`,
          details: { max_event_streams: most, retry_after_seconds: 5 },
        })
      }
      open.set(entity, count + 1)
      answer.once('close', () => {
        const left = (open.get(entity) ?? 1) - 1
        if (left === 0) open.delete(entity)
        else open.set(entity, left)
      })
    },
  }
}
