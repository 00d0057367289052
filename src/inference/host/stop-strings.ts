/**
 * Finds stop strings in text that arrives in pieces, holding back what might become one.
 *
 * Only a tail that begins some stop string is held back. When several match at once the order of the list decides.
 * As in vLLM (v0.17).
 */
import { maxOf } from '#base/util/lists.js'

/** What came out of one piece of text. */
export interface StopMatch {
  /** Text that can be shown now. */
  readonly text: string
  /** The stop string that was found; nothing follows it. */
  readonly stop: string | null
}

export interface StopMatcher {
  /** Takes more text. */
  push(text: string): StopMatch
  /** Takes text that is too early to stop (`min_tokens`). */
  pass(text: string): string
  /** What is still held back, at the end. */
  flush(): string
}

/**
 * Creates a matcher for one choice.
 *
 * @param stops non-empty strings
 * @param isIncluded whether a found stop string stays in the text
 */
export function createStopMatcher(stops: readonly string[], isIncluded: boolean): StopMatcher {
  const longest = maxOf(
    stops.map((stop) => stop.length),
    0,
  )
  // `window` is text seen and still needed; its first `shownLength` units are shown already.
  let window = ''
  let shownLength = 0

  function take(length: number): string {
    const text = window.slice(shownLength, length)
    shownLength = Math.max(shownLength, length)
    return text
  }

  return {
    push(text) {
      window += text
      for (const stop of stops) {
        const at = window.indexOf(stop)
        if (at < 0) continue
        const end = isIncluded ? at + stop.length : at
        const shown = take(end)
        window = ''
        shownLength = 0
        return { text: shown, stop }
      }
      const shown = take(isIncluded ? window.length : window.length - heldLength(window, stops))
      const surplus = Math.min(shownLength, Math.max(0, window.length - longest + 1))
      window = window.slice(surplus)
      shownLength -= surplus
      return { text: shown, stop: null }
    },
    pass(text) {
      const held = take(window.length)
      window = ''
      shownLength = 0
      return held + text
    },
    flush() {
      const rest = take(window.length)
      window = ''
      shownLength = 0
      return rest
    },
  }
}

/** Length of the longest tail of `text` that begins a stop string. */
function heldLength(text: string, stops: readonly string[]): number {
  let held = 0
  for (const stop of stops) {
    for (let length = Math.min(stop.length - 1, text.length); length > held; length--) {
      if (stop.startsWith(text.slice(text.length - length))) {
        held = length
        break
      }
    }
  }
  return held
}
