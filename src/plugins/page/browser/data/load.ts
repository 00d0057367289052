/**
 * Shows what the server has: asked once its key is known, again when the key changes, when news is about it, and when somebody
 * wants it.
 * What is there stays until the new is: also that of the key before, unless it would say something of another thing.
 */
import { useEffect, useReducer, useRef, useState } from 'preact/hooks'
import type { Activity, ActivityTopic } from '#contract/wire/activity.js'
import type { ApiError } from './api-error.js'
import { onNews } from './live.js'
import { isSeen } from './seen.js'
import { credential } from './session.js'
import { createStore, type Load } from './store.js'

/** A skeleton that comes and goes within this time is only a flicker. */
const SLOW_MS = 200

export const store = createStore()
// what one may see another may not
let who = credential.peek()
credential.subscribe((now) => {
  if (now !== who) store.clear(now !== null)
  who = now
})

export interface Loaded<T> {
  /** The newest answer; null before the first. */
  readonly data: T | null
  readonly error: ApiError | null
  /** True when nothing is there and it takes long enough to say so. */
  readonly isSlow: boolean
  /** Whether `data` is that of the key before. */
  readonly isOld: boolean
  readonly reload: () => void
}

export interface Following<T> {
  /** News of these is a reason to ask again. */
  readonly topics?: readonly ActivityTopic[]
  /** Only news of this model. */
  readonly modelId?: string
  /** What is there with what an event says; undefined where that must be asked. */
  readonly take?: (data: T, event: Activity) => T | undefined
  /** Asked again and again while the tab is seen; null: not at all. */
  readonly everyMs?: number | null
  /** Whether what is there stays for a new key; default true. */
  readonly keepsOld?: boolean
}

/** @param key what is asked for, as text, the same in every place that asks it; null: not yet */
export function useLoad<T>(key: string | null, load: Load<T>, options: Following<T> = {}): Loaded<T> {
  const { everyMs = null, keepsOld = true } = options
  const [, draw] = useReducer((n: number) => n + 1, 0)
  const [isSlow, setIsSlow] = useState(false)
  const latest = useRef({ load, options })
  latest.current = { load, options }
  const old = useRef<T | null>(null)
  const isShown = isSeen.value

  useEffect(() => {
    if (key === null) return
    return store.watch(
      key,
      (signal) => latest.current.load(signal),
      () => draw(null),
    )
  }, [key])

  const topics = options.topics?.join() ?? ''
  useEffect(() => {
    if (key === null || topics === '') return
    return onNews((event) => {
      const { topics: wanted = [], modelId, take } = latest.current.options
      if (event === null) return store.touch(key)
      if (!wanted.includes(topicOf(event))) return
      if (modelId !== undefined && event.model_id !== null && event.model_id !== modelId) return
      const { data } = store.read<T>(key)
      const next = data === null ? undefined : take?.(data, event)
      if (next === undefined) store.touch(key)
      else store.change<T>(key, () => next)
    })
  }, [key, topics])

  useEffect(() => {
    if (key === null || everyMs === null || !isShown) return
    const timer = setInterval(() => store.touch(key), everyMs)
    return () => clearInterval(timer)
  }, [key, everyMs, isShown])

  const { data, error } = key === null ? { data: null, error: null } : store.read<T>(key)
  if (data !== null) old.current = data
  const shown = data ?? (keepsOld && key !== null && error === null ? old.current : null)
  const isWaiting = key !== null && shown === null && error === null
  useEffect(() => {
    if (!isWaiting) return
    const timer = setTimeout(() => setIsSlow(true), SLOW_MS)
    return () => {
      clearTimeout(timer)
      setIsSlow(false)
    }
  }, [isWaiting, key])
  return {
    data: shown,
    error,
    isSlow: isSlow && isWaiting,
    isOld: shown !== null && data === null,
    reload: () => {
      if (key !== null) store.reload(key)
    },
  }
}

/** `job` of `job.ended`. */
function topicOf({ type }: Activity): ActivityTopic {
  return type.slice(0, type.indexOf('.')) as ActivityTopic
}

/** Aborted once the part of the page that called this is gone: what it waited for must change nothing then. */
export function useGone(): AbortSignal {
  const [cancel] = useState(() => new AbortController())
  useEffect(() => () => cancel.abort(), [])
  return cancel.signal
}
