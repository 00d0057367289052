/**
 * Runs a command line in this process with streams of its own: the way most tests of the command line work.
 *
 * `fetch` stands in for the network: a scripted answer, or an in-process service's own `app.fetch`.
 */
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { runProgram } from '../../../commands/program.js'
import type { Clock } from '../../../src/base/util/clock.js'
import type { Fetch } from '../../../src/sdk/client/light-fetch.js'

export interface RunOptions {
  /** Text on standard input; absent: an empty pipe, or a terminal when `tty` is set. */
  readonly stdin?: string
  /** Streams are terminals. */
  readonly tty?: boolean
  /** Width of the terminals. Default 100. */
  readonly columns?: number
  readonly env?: Readonly<Record<string, string>>
  readonly fetch?: Fetch
  readonly signal?: AbortSignal
  readonly clock?: Clock
}

export interface RunResult {
  readonly stdout: string
  readonly stderr: string
  readonly exitCode: number
}

let home: string | undefined

/** An empty home folder shared by one test file: no config, no local servers. */
export function emptyHome(): string {
  home ??= mkdtempSync(join(tmpdir(), 'trainyard-home-'))
  return home
}

/** Refuses every connection, as when no server runs. */
export const unreachable: Fetch = () => {
  throw Object.assign(new TypeError('fetch failed'), {
    cause: Object.assign(new Error('connect'), { code: 'ECONNREFUSED' }),
  })
}

/** Runs one command line to its end. */
export async function runCli(argv: readonly string[], options: RunOptions = {}): Promise<RunResult> {
  const written = { stdout: '', stderr: '' }
  const isTTY = options.tty === true
  const sink = (name: 'stdout' | 'stderr') => ({
    isTTY,
    columns: options.columns ?? 100,
    write(text: string) {
      written[name] += text
      return true
    },
  })
  const stdin = Object.assign(Readable.from(options.stdin === undefined ? [] : [Buffer.from(options.stdin)]), {
    isTTY: isTTY && options.stdin === undefined,
  })
  const exitCode = await runProgram({
    argv,
    environment: { HOME: emptyHome(), ...options.env },
    streams: { stdin, stdout: sink('stdout'), stderr: sink('stderr') },
    signal: options.signal ?? new AbortController().signal,
    version: '0.0.0-test',
    fetch: options.fetch ?? unreachable,
    ...(options.clock === undefined ? {} : { clock: options.clock }),
  })
  return { ...written, exitCode }
}
