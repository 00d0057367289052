/**
 * News from the server over one stream, open while the tab is visible and some part of it listens.
 */
import { computed, effect, signal } from '@preact/signals'
import type { Activity } from '#contract/wire/activity.js'
import { nowMs } from './clock.js'
import { isSeen } from './seen.js'
import { credential } from './session.js'
import { followStream } from './streams.js'

/** @param event null: some were missed, so that anything may have changed */
type Listener = (event: Activity | null) => void
const listeners = new Set<Listener>()
const listening = signal(0)

/** Null before the first stream; since when it is cut, ISO 8601; true while it is open. */
export const live = signal<true | string | null>(null)

const isWanted = computed(() => listening.value > 0 && isSeen.value && credential.value !== null)

/** Begins to follow whenever it is wanted. Called once. */
export function followActivity(): void {
  let isFirst = true
  effect(() => {
    if (!isWanted.value) return
    const cancel = new AbortController()
    // what happened while nobody looked is not known
    if (!isFirst) tell(null)
    isFirst = false
    void followStream(
      '/v1/preview/events',
      {
        onEvent: (data) => {
          const event = JSON.parse(data) as Activity
          if (event.type !== 'ready') tell(event.type === 'reset' ? null : event)
          return false
        },
        onLive: (isOpen) => {
          live.value = isOpen ? true : new Date(nowMs()).toISOString()
        },
        onError: () => {
          live.value = new Date(nowMs()).toISOString()
        },
      },
      cancel.signal,
    )
    return () => {
      cancel.abort()
      live.value = null
    }
  })
}

function tell(event: Activity | null): void {
  for (const listener of [...listeners]) listener(event)
}

/** @returns ends it */
export function onNews(listener: Listener): () => void {
  listeners.add(listener)
  listening.value += 1
  return () => {
    listeners.delete(listener)
    listening.value -= 1
  }
}
