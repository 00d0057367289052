/**
 * Log records as short lines for a person at a terminal: one per request that changes or computes something, and whatever
 * else is worth a look. Reads are left out, so that a banner stays where it is.
 */

type LogRecord = Readonly<Record<string, unknown>>

/** What every record has, or only programs need. */
const HIDDEN: ReadonlySet<string> = new Set([
  'level',
  'time',
  'event',
  'request_id',
  'err',
  'stack',
  'pid',
  'hostname',
  'digest',
])
/** The banner says it, or it is housekeeping that a person neither asked for nor can do anything about. */
const UNSHOWN: ReadonlySet<string> = new Set([
  'service.started',
  'service.stopping',
  'service.stopped',
  'storage.swept',
])
const [INFO, WARN, ERROR] = [30, 40, 50]

/**
 * One line without its end; null for a record that is not shown.
 *
 * @example `POST /v1/chat/completions 200 194ms trainyard/spark 26 tok`
 */
export function renderLine(record: LogRecord): string | null {
  const level = Number(record['level'] ?? INFO)
  const event = String(record['event'] ?? '')
  if (level <= INFO && UNSHOWN.has(event)) return null
  if (event === 'http.request') return requestLine(record)
  const facts = Object.entries(record)
    .filter(([name, value]) => !HIDDEN.has(name) && value !== null && value !== undefined)
    .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
  const error = record['err']
  const reason = typeof error === 'object' && error !== null && 'message' in error ? [String(error.message)] : []
  const prefix = level >= ERROR ? ['error:'] : level >= WARN ? ['warning:'] : []
  return oneLine([...prefix, event, ...facts, ...reason].join(' '))
}

function requestLine(record: LogRecord): string | null {
  const status = Number(record['status'])
  const isRead = record['method'] === 'GET' || record['method'] === 'HEAD'
  if (isRead && status < 400) return null
  const { model, completion_tokens: tokens } = record
  const parts = [
    `${record['method']} ${record['path']} ${status} ${Math.round(Number(record['duration_ms']))}ms`,
    ...(typeof model === 'string' ? [model.replace(/^wandb-artifact:\/{2,3}/, '')] : []),
    ...(typeof tokens === 'number' ? [`${tokens} tok`] : []),
    ...(record['is_stream'] === true ? ['stream'] : []),
  ]
  return oneLine(parts.join(' '))
}

/** A log line is one line, whatever a client put into a path; control characters could draw on the terminal. */
function oneLine(text: string): string {
  return text.replace(/\p{Cc}/gu, ' ').slice(0, 500)
}

/** A line in parts of at most `columns`, broken at blanks; what goes on is indented. */
export function breakLine(line: string, columns: number): string {
  const parts: string[] = []
  let current = ''
  for (const word of line.split(' ')) {
    if (current === '' || current.length + 1 + word.length <= columns) {
      current = current === '' ? word : `${current} ${word}`
    } else {
      parts.push(current)
      current = `  ${word}`
    }
  }
  return [...parts, current].join('\n')
}
