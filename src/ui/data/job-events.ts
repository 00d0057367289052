/**
 * Events of one job, for a page: all from the first, then new ones as they come. An event that is sent again after a
 * lost connection is shown once.
 */
import { useEffect, useState } from 'preact/hooks'
import { isTerminalEvent } from '#contract/wire/job-words.js'
import type { TrainingEvent } from '#contract/wire/training-jobs.js'
import type { ApiError } from './client.js'
import { nowMs } from './clock.js'
import { isSeen } from './seen.js'
import { followStream } from './streams.js'

/** Drawn at most four times a second. */
const FRAME_MS = 250

export interface JobEvents {
  readonly events: readonly TrainingEvent[]
  readonly isLive: boolean
  /** When the stream was cut, ISO 8601; null while it is open, and before. */
  readonly since: string | null
  readonly error: ApiError | null
}

/** @param id null: not yet */
export function useJobEvents(id: string | null): JobEvents {
  const [events, setEvents] = useState<readonly TrainingEvent[]>([])
  const [live, setLive] = useState<Pick<JobEvents, 'isLive' | 'since'>>({ isLive: false, since: null })
  const [error, setError] = useState<ApiError | null>(null)
  const isWanted = isSeen.value

  useEffect(() => {
    if (id === null || !isWanted) return
    const cancel = new AbortController()
    const known = new Map<string, TrainingEvent>()
    let frame: ReturnType<typeof setTimeout> | undefined
    const draw = (): void => {
      frame = undefined
      setEvents([...known.values()])
    }
    setError(null)
    void followStream(
      `/v1/preview/training-jobs/${encodeURIComponent(id)}/events`,
      {
        onEvent: (data) => {
          const event = JSON.parse(data) as TrainingEvent
          known.set(event.id, event)
          frame ??= setTimeout(draw, FRAME_MS)
          return isTerminalEvent(event.type)
        },
        onLive: (isLive) => setLive({ isLive, since: isLive ? null : new Date(nowMs()).toISOString() }),
        onError: setError,
      },
      cancel.signal,
    )
    return () => {
      cancel.abort()
      clearTimeout(frame)
    }
  }, [id, isWanted])
  return { events, ...live, error }
}
