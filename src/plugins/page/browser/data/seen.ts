/**
 * Whether somebody sees this tab. A browser opens six connections to a server and no more, so a tab that nobody sees keeps no stream open:
 * a seventh tab would wait for ever.
 */
import { signal } from '@preact/signals'

/** A glance at another tab is none. */
const HIDDEN_MS = 2000

export const isSeen = signal(document.visibilityState === 'visible')

let timer: ReturnType<typeof setTimeout> | undefined
document.addEventListener('visibilitychange', () => {
  clearTimeout(timer)
  if (document.visibilityState === 'visible') isSeen.value = true
  else {
    timer = setTimeout(() => {
      isSeen.value = false
    }, HIDDEN_MS)
  }
})
