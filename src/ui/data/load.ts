/**
 * Loads what a block of a page shows: once its key is known, and again when the key changes or a reload is asked for. The old answer
 * stays visible meanwhile.
 */
import { useEffect, useRef, useState } from 'preact/hooks'
import { ApiError } from './client.js'
import { credential } from './session.js'

/** A skeleton that comes and goes within this time is only a flicker. */
const SLOW_MS = 200

export interface Loaded<T> {
  /** The newest answer of this key; null before the first. */
  readonly data: T | null
  readonly error: ApiError | null
  /** True when nothing is there and it takes long enough to say so. */
  readonly isSlow: boolean
  readonly reload: () => void
}

interface State<T> {
  readonly key: string | null
  readonly data: T | null
  readonly error: ApiError | null
}

/** @param key what is asked for, as text; null: not yet */
export function useLoad<T>(key: string | null, load: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const [state, setState] = useState<State<T>>({ key: null, data: null, error: null })
  const [isSlow, setIsSlow] = useState(false)
  const [round, setRound] = useState(0)
  const latest = useRef(load)
  latest.current = load
  const who = credential.value

  useEffect(() => {
    if (key === null) return
    const cancel = new AbortController()
    const slow = setTimeout(() => setIsSlow(true), SLOW_MS)
    const end = (): void => {
      clearTimeout(slow)
      setIsSlow(false)
    }
    latest
      .current(cancel.signal)
      .then(
        (data) => {
          // an answer that others wait for too comes also to who does not want it any more
          if (!cancel.signal.aborted) setState({ key, data, error: null })
        },
        (error: unknown) => {
          if (cancel.signal.aborted) return
          setState((before) => ({ key, data: before.key === key ? before.data : null, error: toApiError(error) }))
        },
      )
      .finally(end)
    return () => {
      cancel.abort()
      end()
    }
  }, [key, round, who])

  const isCurrent = state.key === key
  return {
    data: isCurrent ? state.data : null,
    error: isCurrent ? state.error : null,
    isSlow: isSlow && !(isCurrent && state.data !== null),
    reload: () => setRound((n) => n + 1),
  }
}

/** Aborted once the part of the page that called this is gone: what it waited for must change nothing then. */
export function useGone(): AbortSignal {
  const [cancel] = useState(() => new AbortController())
  useEffect(() => () => cancel.abort(), [])
  return cancel.signal
}

/** Runs something again and again while the tab is seen. @param everyMs null: not at all */
export function useWhileSeen(everyMs: number | null, run: () => void): void {
  const latest = useRef(run)
  latest.current = run
  useEffect(() => {
    if (everyMs === null) return
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') latest.current()
    }, everyMs)
    return () => clearInterval(timer)
  }, [everyMs])
}

export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error
  return new ApiError(error instanceof Error ? error.message : String(error), { status: 0 })
}
