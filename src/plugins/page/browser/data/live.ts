/**
 * News from the server, while this window is seen and some part of it listens: from the browser's one stream (`feed.ts`), in a
 * shared worker where there is one.
 */
import { computed, effect, signal } from '@preact/signals'
import type { Activity } from '#contract/wire/activity.js'
import { ASSETS_URL } from './address.js'
import { apiUrl } from './client.js'
import { ALIVE_MS, type FromWindow, type ToWindow } from './feed-words.js'
import { isSeen } from './seen.js'
import { credential, identity } from './session.js'

/** @param event null: some were missed, so that anything may have changed */
type Listener = (event: Activity | null) => void
const listeners = new Set<Listener>()
const listening = signal(0)

/** Null before the first stream; since when it is cut, ISO 8601; true while it is open. */
export const live = signal<true | string | null>(null)

const isWanted = computed(() => listening.value > 0 && isSeen.value)
/** Who listens with what; null: nobody. */
const listener = computed<Extract<FromWindow, { type: 'listen' }> | null>(() => {
  const [bearer, who] = [credential.value, identity.value]
  if (!isWanted.value || bearer === null || who === null) return null
  const url = new URL(apiUrl('/v1/preview/events'), location.href).href
  return { type: 'listen', url, bearer, who: `${who.key_id} ${who.project ?? ''}` }
})

/** Begins to follow whenever it is wanted. Called once. */
export function followActivity(): void {
  let port: Promise<MessagePort> | null = null
  let wasHeard = false
  const say = async (message: FromWindow): Promise<void> => {
    port ??= connect(onMessage)
    const opened = await port
    opened.postMessage(message)
  }
  function onMessage({ data }: MessageEvent<ToWindow>): void {
    // what was on its way when this window left
    if (listener.peek() === null) return
    if (data.type === 'live') live.value = data.live
    else tell(data.type === 'missed' ? null : data.event)
  }
  effect(() => {
    const message = listener.value
    if (message === null) return
    // what happened while nobody looked is not known
    if (wasHeard) tell(null)
    wasHeard = true
    void say(message)
    const timer = setInterval(() => void say(message), ALIVE_MS)
    return () => {
      clearInterval(timer)
      live.value = null
      void say({ type: 'leave' })
    }
  })
  addEventListener('pagehide', () => void say({ type: 'leave' }))
  addEventListener('pageshow', ({ persisted }) => {
    const message = listener.peek()
    if (!persisted || message === null) return
    tell(null)
    void say(message)
  })
}

/** The page's policy lets no text become a script, but for this one. */
interface TrustedTypes {
  readonly trustedTypes?: {
    createPolicy(name: string, rules: { createScriptURL(): string }): { createScriptURL(text: string): string }
  }
}

/** A way to the browser's stream, else to one of this window. */
async function connect(onMessage: (event: MessageEvent<ToWindow>) => void): Promise<MessagePort> {
  const name = document.querySelector<HTMLMetaElement>('meta[name="trainyard-feed"]')?.content
  if (typeof SharedWorker === 'function' && name !== undefined) {
    const url = new URL(name, ASSETS_URL).href
    const policy = (globalThis as TrustedTypes).trustedTypes?.createPolicy('trainyard-feed', {
      createScriptURL: () => url,
    })
    const { port } = new SharedWorker(policy?.createScriptURL(url) ?? url, { type: 'module' })
    port.onmessage = onMessage
    return port
  }
  const { serveFeed } = await import('./feed.js')
  const { port1, port2 } = new MessageChannel()
  serveFeed(port2)
  port1.onmessage = onMessage
  return port1
}

function tell(event: Activity | null): void {
  for (const each of [...listeners]) each(event)
}

/** @returns ends it */
export function onNews(listen: Listener): () => void {
  listeners.add(listen)
  listening.value += 1
  return () => {
    listeners.delete(listen)
    listening.value -= 1
  }
}
