/**
 * Shows whether the page gets news from the server at once, or since when it does not.
 */
import type { JSX } from 'preact'
import { nowMs } from '../data/clock.js'
import { formatTime } from '../data/format.js'
import { live } from '../data/live.js'

export function LiveMark(): JSX.Element | null {
  const state = live.value
  if (state === null) return null
  if (state === true) return <p class="live">live</p>
  return <p class="live cut">{`not live since ${formatTime(state, nowMs())}, reconnecting`}</p>
}
