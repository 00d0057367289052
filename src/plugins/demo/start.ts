/**
 * The place of a demo beside the service: nothing runs before somebody asks for it, and what runs ends with the service.
 */
import type { PluginStart } from '#service/plugin.js'

export interface DemoPlace {
  /** Where this server answers on its own machine; null before it does. */
  readonly serverUrl: () => string | null
  /** What ends the demo that runs. */
  readonly endBy: (stop: () => Promise<void>) => void
}

export function startDemoPlace({ lifetimes, onListening }: Pick<PluginStart, 'lifetimes' | 'onListening'>): DemoPlace {
  let url: string | null = null
  let end: () => Promise<void> = () => Promise.resolve()
  lifetimes.add('demo', () => end())
  onListening((serverUrl) => {
    url = serverUrl
  })
  return {
    serverUrl: () => url,
    endBy: (stop) => {
      end = stop
    },
  }
}
