/**
 * News from the server over one stream per tab, open while the tab is visible and some part of it listens. News says only that
 * something changed; the new state is read from the endpoint of the changed thing.
 */
import { computed, effect, signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import type { Activity, ActivityTopic } from '#contract/wire/activity.js'
import { nowMs } from './clock.js'
import { isSeen } from './seen.js'
import { credential } from './session.js'
import { followStream } from './streams.js'

/** News of one kind count once in this time. */
const GATHER_MS = 250

type Listener = (topic: ActivityTopic) => void
const listeners = new Set<Listener>()
const listening = signal(0)

/** Null before the first stream; since when it is cut, ISO 8601; true while it is open. */
export const live = signal<true | string | null>(null)

const isWanted = computed(() => listening.value > 0 && isSeen.value && credential.value !== null)

/** Begins to follow whenever it is wanted. Called once. */
export function followActivity(): void {
  effect(() => {
    if (!isWanted.value) return
    const cancel = new AbortController()
    void followStream(
      '/v1/preview/events',
      {
        onEvent: (data) => {
          const { type } = JSON.parse(data) as Activity
          if (type === 'reset')
            for (const topic of ['job', 'checkpoint', 'log', 'model', 'probe', 'base_model'] as const) tell(topic)
          else if (type !== 'ready') tell(type.slice(0, type.indexOf('.')) as ActivityTopic)
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

function tell(topic: ActivityTopic): void {
  for (const listener of listeners) listener(topic)
}

/** Runs something soon after news of these topics. */
export function useLive(topics: readonly ActivityTopic[], run: () => void): void {
  const latest = useRef(run)
  latest.current = run
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    const listener: Listener = (topic) => {
      if (!topics.includes(topic)) return
      timer ??= setTimeout(() => {
        timer = undefined
        latest.current()
      }, GATHER_MS)
    }
    listeners.add(listener)
    listening.value += 1
    return () => {
      clearTimeout(timer)
      listeners.delete(listener)
      listening.value -= 1
    }
  }, [topics.join()])
}
