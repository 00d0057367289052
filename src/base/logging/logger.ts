/**
 * Structured logs: JSON lines on stderr, short lines when stderr is a terminal. Nothing is ever logged to stdout.
 *
 * Redaction is structural: keys, authorization headers and attempt tokens never reach a line, and prompt and completion
 * text only with `isContentLogged`. Event names are dotted nouns and verbs (`http.request`, `job.started`).
 */
import { createRequire } from 'node:module'
import { type DestinationStream, type Logger as PinoLogger, pino } from 'pino'
import type { PinoPretty } from 'pino-pretty'
import { breakLine, renderLine } from './lines.js'

/** A logger; `child` adds fields to every line. */
export type Logger = PinoLogger

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent'

/** JSON lines, short lines for a person, or every field of a record on lines of its own. */
export type LogFormat = 'auto' | 'json' | 'lines' | 'pretty'

export interface LoggerOptions {
  /** Default `info`. */
  readonly level?: LogLevel
  /** `auto`: short lines when stderr is a terminal, else JSON. Default `auto`. */
  readonly format?: LogFormat
  /** True keeps prompts and completions in the lines. Default false. */
  readonly isContentLogged?: boolean
  /** Where lines go, for tests. Default file descriptor 2. */
  readonly destination?: DestinationStream
}

const SECRET_FIELDS = ['authorization', 'api_key', 'apiKey', 'token', 'key', 'cookie', 'password']
const CONTENT_FIELDS = ['messages', 'prompt', 'completion', 'content', 'text']

/** Creates the root logger. Writes are synchronous, so that the lines before a crash are not lost. */
export function createLogger(options: LoggerOptions = {}): Logger {
  const hidden = options.isContentLogged === true ? SECRET_FIELDS : [...SECRET_FIELDS, ...CONTENT_FIELDS]
  const redact = { paths: hidden.flatMap((field) => [field, `*.${field}`, `*.*.${field}`]), censor: '[redacted]' }
  const base = { level: options.level ?? 'info', redact, base: null, messageKey: 'event' }
  if (options.destination !== undefined) return pino(base, options.destination)
  return pino(base, streamOf(options.format ?? 'auto'))
}

function streamOf(format: LogFormat): DestinationStream {
  const isTerminal = process.stderr.isTTY === true
  if (format === 'pretty') {
    // loaded when it is asked for: a twentieth of what every process reads at its start
    const pretty = createRequire(import.meta.url)('pino-pretty') as typeof PinoPretty
    return pretty({ destination: 2, sync: true, messageKey: 'event', colorize: isTerminal })
  }
  if (format === 'json' || (format === 'auto' && !isTerminal)) return pino.destination({ dest: 2, sync: true })
  return {
    write(record) {
      const line = renderLine(JSON.parse(record) as Record<string, unknown>)
      if (line === null) return
      process.stderr.write(`${isTerminal ? breakLine(line, process.stderr.columns || 80) : line}\n`)
    },
  }
}
