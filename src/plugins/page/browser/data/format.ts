/**
 * Numbers, sizes, times and durations as people read them. Pure.
 */
const LOCALE = 'en'
const MINUTE = 60
const HOUR = 3600
const DAY = 86_400
const TURN_NAMES: Readonly<Record<string, string>> = {
  '\u202a': 'LRE',
  '\u202b': 'RLE',
  '\u202c': 'PDF',
  '\u202d': 'LRO',
  '\u202e': 'RLO',
  '\u2066': 'LRI',
  '\u2067': 'RLI',
  '\u2068': 'FSI',
  '\u2069': 'PDI',
}
const TURNS = /[\u202a-\u202e\u2066-\u2069]/g

/** Enough digits to tell values apart, and no more; what is no number says so. */
export function formatNumber(value: number | null | undefined): string {
  if (value === null || value === undefined) return '–'
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'NaN' : value > 0 ? '∞' : '−∞'
  const size = Math.abs(value)
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) {
    return Number(value.toPrecision(3)).toExponential().replace('e+', 'e').replaceAll('-', '−')
  }
  const digits = Number.isInteger(value) ? 0 : size >= 1000 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3
  return value.toLocaleString(LOCALE, { maximumFractionDigits: digits }).replace('-', '−')
}

/** Labels of an axis, with as many digits as tell neighbours apart. */
export function formatTicks(values: readonly (number | null)[]): readonly string[] {
  const known = values.filter((value) => value !== null)
  const labels = known.map(formatNumber)
  const steps = known.slice(1).map((value, i) => Math.abs(value - (known[i] ?? 0)))
  const digits = Math.ceil(-Math.log10(steps.reduce((least, step) => Math.min(least, step), Infinity))) + 1
  const isClear = new Set(labels).size === labels.length || !(digits >= 0 && digits <= 12)
  const format = { maximumFractionDigits: digits }
  return values.map((value) =>
    value === null ? '' : isClear ? formatNumber(value) : value.toLocaleString(LOCALE, format).replace('-', '−'),
  )
}

export function formatCount(count: number): string {
  return count.toLocaleString(LOCALE)
}

/** `1 step`, `2 steps`. */
export function plural(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? '' : noun.endsWith('s') ? 'es' : 's'}`
}

export function formatBytes(bytes: number | null | undefined): string {
  if (bytes === null || bytes === undefined) return '–'
  const units = ['B', 'kB', 'MB', 'GB', 'TB']
  let value = bytes
  let unit = 0
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000
    unit += 1
  }
  return `${value.toLocaleString(LOCALE, { maximumFractionDigits: unit === 0 || value >= 100 ? 0 : 1 })} ${units[unit]}`
}

export function formatSeconds(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return '–'
  if (seconds < 0.1) return `${Math.round(seconds * 1000)} ms`
  if (seconds < 10) return `${seconds.toLocaleString(LOCALE, { maximumFractionDigits: 1 })} s`
  if (seconds < 100) return `${Math.round(seconds)} s`
  if (seconds < 2 * HOUR) return `${Math.round(seconds / MINUTE)} min`
  if (seconds < 2 * DAY) return `${(seconds / HOUR).toLocaleString(LOCALE, { maximumFractionDigits: 1 })} h`
  return `${Math.round(seconds / DAY)} days`
}

/** How long ago, in the largest unit that fits. */
export function formatAgo(iso: string | null | undefined, atMs: number): string {
  const then = Date.parse(iso ?? '')
  if (Number.isNaN(then)) return '–'
  const seconds = Math.round((atMs - then) / 1000)
  if (seconds < 45) return 'now'
  if (seconds < HOUR) return `${Math.max(1, Math.round(seconds / MINUTE))} min ago`
  if (seconds < DAY) return `${Math.round(seconds / HOUR)} h ago`
  if (seconds < 60 * DAY) return `${plural(Math.round(seconds / DAY), 'day')} ago`
  return new Date(then).toLocaleDateString(LOCALE, { year: 'numeric', month: 'short', day: 'numeric' })
}

/** Time of day; the date too when it is another day. */
export function formatTime(iso: string | null | undefined, atMs: number): string {
  const then = Date.parse(iso ?? '')
  if (Number.isNaN(then)) return '–'
  const date = new Date(then)
  const time = date.toLocaleTimeString('en-GB')
  const isToday = date.toDateString() === new Date(atMs).toDateString()
  return isToday ? time : `${date.toLocaleDateString(LOCALE, { month: 'short', day: 'numeric' })} ${time}`
}

/** Characters that turn text round, as their names: a list says what stands there, in its order. */
export function withoutTurns(text: string): string {
  return text.replace(TURNS, (mark) => `\u2039${TURN_NAMES[mark] ?? 'turn'}\u203a`)
}
