/**
 * Python's `strftime` for chat templates that print today's date. Knows the directives that templates use, in English.
 */

const days = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday']
const months = [
  ...['January', 'February', 'March', 'April', 'May', 'June'],
  ...['July', 'August', 'September', 'October', 'November', 'December'],
]

const two = (n: number): string => String(n).padStart(2, '0')

const directives: Readonly<Record<string, (date: Date) => string>> = {
  Y: (date) => String(date.getFullYear()),
  y: (date) => two(date.getFullYear() % 100),
  m: (date) => two(date.getMonth() + 1),
  d: (date) => two(date.getDate()),
  e: (date) => String(date.getDate()).padStart(2, ' '),
  B: (date) => months[date.getMonth()] ?? '',
  b: (date) => (months[date.getMonth()] ?? '').slice(0, 3),
  A: (date) => days[date.getDay()] ?? '',
  a: (date) => (days[date.getDay()] ?? '').slice(0, 3),
  H: (date) => two(date.getHours()),
  I: (date) => two(date.getHours() % 12 || 12),
  M: (date) => two(date.getMinutes()),
  S: (date) => two(date.getSeconds()),
  p: (date) => (date.getHours() < 12 ? 'AM' : 'PM'),
  F: (date) => `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`,
  T: (date) => `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`,
  '%': () => '%',
}

/** Formats a date in local time; an unknown directive stays as written. */
export function formatTime(date: Date, format: string): string {
  return format.replace(/%(.)/g, (whole, directive: string) => directives[directive]?.(date) ?? whole)
}
