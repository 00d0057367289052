/**
 * Numbers, sizes, durations and times as people read them. Pure; the current time is given.
 */

/** `2 hours ago`, `just now`, `in 3 minutes`. */
export function formatRelativeTime(iso: string, nowMs: number): string {
  const thenMs = Date.parse(iso)
  if (Number.isNaN(thenMs)) return iso
  const seconds = Math.round((nowMs - thenMs) / 1000)
  const size = Math.abs(seconds)
  if (size < 5) return 'just now'
  const [unit, unitSeconds] = UNITS.find(([, unitSize]) => size >= unitSize) ?? ['second', 1]
  const count = Math.floor(size / unitSeconds)
  const text = `${count} ${unit}${count === 1 ? '' : 's'}`
  return seconds >= 0 ? `${text} ago` : `in ${text}`
}

const UNITS: readonly (readonly [string, number])[] = [
  ['year', 31_536_000],
  ['month', 2_592_000],
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
  ['second', 1],
]

/** `988 MB`: decimal units, three digits. */
export function formatBytes(bytes: number): string {
  if (!Number.isFinite(bytes)) return '?'
  let value = bytes
  for (const unit of ['B', 'kB', 'MB', 'GB', 'TB']) {
    if (value < 999.5 || unit === 'TB') {
      return `${unit === 'B' || value >= 100 ? Math.round(value) : Number(value.toPrecision(2))} ${unit}`
    }
    value /= 1000
  }
  return `${bytes} B`
}

/** `135 M`, `1.2 B`: parameters of a model. */
export function formatCount(count: number): string {
  for (const [size, unit] of [
    [1e9, 'B'],
    [1e6, 'M'],
    [1e3, 'k'],
  ] as const) {
    // 999 600 reads 1 M, not 1000 k
    if (count >= size * 0.9995) return `${Number((count / size).toPrecision(count / size >= 100 ? 3 : 2))} ${unit}`
  }
  return String(count)
}

/** `0:38`, `14:02`, `1:02:03`, for columns; `?` for what is no time, as between dates that are none. */
export function formatClock(ms: number): string {
  if (!Number.isFinite(ms)) return '?'
  const seconds = Math.max(0, Math.round(ms / 1000))
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60]
  const shown = parts[0] === 0 ? parts.slice(1) : parts
  return shown.map((part, i) => (i === 0 ? String(part) : String(part).padStart(2, '0'))).join(':')
}

/** Milliseconds from one time to another, both as the API writes them. */
export function millisecondsBetween(from: string, to: string): number {
  return Date.parse(to) - Date.parse(from)
}

/** `38s`, `1m 21s`, `2h 3m`, for sentences; `?` as above. */
export function formatDuration(ms: number): string {
  if (!Number.isFinite(ms)) return '?'
  if (ms < 1000) return `${Math.max(0, Math.round(ms))}ms`
  const seconds = Math.round(ms / 1000)
  if (seconds < 60) return `${seconds}s`
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m ${seconds % 60}s`
  return `${Math.floor(seconds / 3600)}h ${Math.floor(seconds / 60) % 60}m`
}

/** At most four significant digits, no exponent for ordinary sizes: `0.0132`, `2140`, `5e-6`. */
export function formatNumber(value: number): string {
  if (!Number.isFinite(value) || Number.isInteger(value)) return String(value)
  const size = Math.abs(value)
  if (size < 1e-4 || size >= 1e6)
    return value
      .toExponential(2)
      .replace(/\.?0+e/, 'e')
      .replace('e+', 'e')
  return String(Number(value.toPrecision(size >= 1000 ? 5 : 3)))
}

/** `1 group`, `3 groups`. */
export function plural(count: number, noun: string, many = `${noun}s`): string {
  return `${count} ${count === 1 ? noun : many}`
}
