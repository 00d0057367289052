/**
 * A bar of progress in a fixed number of columns, and values as a line of little columns. Pure text.
 */
import { maxOf, minOf } from '#base/util/lists.js'

/** `████████░░░░`; `share` is cut to 0…1. ASCII when the terminal has no such characters. */
export function renderBar(share: number, width: number, isUnicode = true): string {
  const filled = Math.round(Math.min(1, Math.max(0, Number.isFinite(share) ? share : 0)) * width)
  const [full, empty] = isUnicode ? ['█', '░'] : ['#', '.']
  return full.repeat(filled) + empty.repeat(width - filled)
}

const LEVELS = { true: '▁▂▃▄▅▆▇█', false: '_.-=+*#@' }

/**
 * The last `width` values as columns between their least and their most; equal values are a line in the middle. Values that are no
 * numbers leave a gap.
 */
export function renderSparkline(values: readonly number[], width: number, isUnicode = true): string {
  const shown = values.slice(-width)
  const finite = shown.filter(Number.isFinite)
  const [least, most] = [minOf(finite), maxOf(finite)]
  const levels = LEVELS[isUnicode ? 'true' : 'false']
  return shown
    .map((value) => {
      if (!Number.isFinite(value)) return ' '
      const share = most > least ? (value - least) / (most - least) : 0.5
      return levels[Math.min(levels.length - 1, Math.floor(share * levels.length))] ?? ' '
    })
    .join('')
}
