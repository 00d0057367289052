/**
 * What was read from the server, by key: one answer for all who show it. Knows no component and no request.
 *
 * A question that runs is never given up for a newer one of its own key: it is asked once more after its answer. News asks one
 * question at a time, with a pause between, so that a busy server is asked no oftener than a quiet one; what somebody wants
 * goes at once.
 */
import { type ApiError, toApiError } from './api-error.js'
import { elapsedMs } from './clock.js'

/** Between two questions that news asks, of all keys together. */
const NEWS_GAP_MS = 600
/** News that come together are one. */
const GATHER_MS = 100
/** Answers that nobody shows any more, kept for the way back. */
const MOST_UNSEEN = 20
/** What is shown again within this time is not asked for again. */
const FRESH_MS = 300

export type Load<T> = (signal: AbortSignal) => Promise<T>

export interface Answer<T> {
  readonly data: T | null
  readonly error: ApiError | null
}

interface Entry {
  answer: Answer<unknown>
  load: Load<unknown>
  running: AbortController | null
  /** Asked for while it ran: an answer may be older than what asked. */
  isAskedAgain: boolean
  atMs: number
  readonly watchers: Set<() => void>
}

const NOTHING: Answer<never> = { data: null, error: null }

export interface Store {
  read<T>(key: string): Answer<T>
  /** Asks unless the answer is fresh, and tells of each new one. @returns ends it; the last one ends the question, too */
  watch<T>(key: string, load: Load<T>, onAnswer: () => void): () => void
  /** Somebody wants it now. */
  reload(key: string): void
  /** Something may have changed it. */
  touch(key: string): void
  /** Changes what is there, where something is. */
  change<T>(key: string, to: (data: T) => T): void
  /** Forgets everything: somebody else is here. @param isAsking whether what is shown is asked for */
  clear(isAsking: boolean): void
}

export function createStore(gapMs = NEWS_GAP_MS): Store {
  const entries = new Map<string, Entry>()
  /** Keys that news is about, in the order in which they are asked. */
  const due = new Set<string>()
  let timer: ReturnType<typeof setTimeout> | undefined
  let lastMs = Number.NEGATIVE_INFINITY

  function run(key: string, entry: Entry): void {
    const cancel = new AbortController()
    entry.running = cancel
    entry.isAskedAgain = false
    due.delete(key)
    const settle = (answer: Answer<unknown>): void => {
      if (entry.running !== cancel) return
      entry.running = null
      entry.answer = answer
      entry.atMs = elapsedMs()
      if (entry.isAskedAgain && entry.watchers.size > 0) run(key, entry)
      else if (due.size > 0) pumpSoon()
      for (const watcher of [...entry.watchers]) watcher()
    }
    entry.load(cancel.signal).then(
      (data) => settle({ data, error: null }),
      (raw: unknown) => settle({ data: entry.answer.data, error: toApiError(raw) }),
    )
  }

  function pumpSoon(): void {
    if (timer === undefined) timer = setTimeout(pump, Math.max(GATHER_MS, lastMs + gapMs - elapsedMs()))
  }

  function pump(): void {
    timer = undefined
    for (const key of due) {
      const entry = entries.get(key)
      if (entry === undefined || entry.watchers.size === 0) due.delete(key)
      else if (entry.running === null) {
        lastMs = elapsedMs()
        run(key, entry)
        break
      }
    }
    // what runs goes on when it has its answer
    if ([...due].some((key) => entries.get(key)?.running === null)) pumpSoon()
  }

  function leave(key: string, entry: Entry): void {
    if (entry.watchers.size > 0 || entries.get(key) !== entry) return
    entry.running?.abort()
    entry.running = null
    entry.atMs = Number.NEGATIVE_INFINITY
    entries.delete(key)
    // the newest of those that nobody sees go last
    if (entry.answer.data !== null) entries.set(key, entry)
    const unseen = [...entries].filter(([, { watchers }]) => watchers.size === 0)
    for (const [old] of unseen.slice(0, Math.max(0, unseen.length - MOST_UNSEEN))) entries.delete(old)
  }

  return {
    read: <T>(key: string) => (entries.get(key)?.answer ?? NOTHING) as Answer<T>,
    watch: (key, load, onAnswer) => {
      const known = entries.get(key)
      const entry: Entry = known ?? {
        answer: NOTHING,
        load,
        running: null,
        isAskedAgain: false,
        atMs: Number.NEGATIVE_INFINITY,
        watchers: new Set(),
      }
      entry.load = load
      entries.set(key, entry)
      entry.watchers.add(onAnswer)
      if (entry.running === null && elapsedMs() - entry.atMs > FRESH_MS) run(key, entry)
      return () => {
        entry.watchers.delete(onAnswer)
        // a component that is drawn anew comes back at once
        if (entry.watchers.size === 0) setTimeout(() => leave(key, entry))
      }
    },
    reload: (key) => {
      const entry = entries.get(key)
      if (entry === undefined) return
      if (entry.running !== null) entry.isAskedAgain = true
      else run(key, entry)
    },
    touch: (key) => {
      if (!entries.has(key)) return
      due.add(key)
      pumpSoon()
    },
    change: <T>(key: string, to: (data: T) => T) => {
      const entry = entries.get(key)
      if (entry === undefined || entry.answer.data === null) return
      const data = to(entry.answer.data as T)
      if (data === entry.answer.data) return
      entry.answer = { ...entry.answer, data }
      for (const watcher of [...entry.watchers]) watcher()
    },
    clear: (isAsking) => {
      for (const [key, entry] of [...entries]) {
        entry.running?.abort()
        entry.running = null
        entry.answer = NOTHING
        if (entry.watchers.size === 0) entries.delete(key)
        else if (isAsking) run(key, entry)
        for (const watcher of [...entry.watchers]) watcher()
      }
    },
  }
}
