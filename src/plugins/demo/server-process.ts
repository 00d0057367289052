/**
 * A temporary server: the built `trainyard serve`, on a free port unless one is named, as a child that never outlives its parent.
 *
 * It leads a process group of its own, so that a Ctrl-C in the terminal reaches the parent alone, which then stops it in
 * order. Knows the line that `serve --json` prints when it is ready, and the error line it prints when it cannot start.
 */
import type { ChildProcess, StdioOptions } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { AppError, type ErrorCategory } from '#base/errors/errors.js'
import { dieWithParentFlags } from '#base/processes/entry.js'
import { releaseLifeline } from '#base/processes/lifeline.js'
import { spawnProcess } from '#base/processes/start-process.js'
import { STOP_MESSAGE } from '#base/processes/stop-message.js'
import { packageRoot } from '#base/util/package-root.js'

/** No stdin, both outputs to us, IPC, lifeline (`lifeline.ts`). */
const CHILD_STDIO: StdioOptions = ['ignore', 'pipe', 'pipe', 'ipc', 'pipe']
/** Time a server gets to drain before it is killed; its own deadline is 10 s. */
const STOP_MS = 14_000
/** Characters of its stderr that are kept, for the message when it cannot start. */
const STDERR_TAIL = 8000

interface ServerProcessOptions {
  /** Default: a free one. */
  readonly port?: number
  /** Further flags of `serve`, for example `--data-dir`. */
  readonly flags: readonly string[]
  /** Environment of the parent, which the child inherits. */
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Aborting while it starts stops it. */
  readonly signal: AbortSignal
}

interface ServerProcess {
  readonly url: string
  readonly apiKeyFile: string
  readonly pid: number | null
  /** Stops it in order and waits for its end; safe to call twice. */
  stop(): Promise<void>
}

/**
 * Starts it and waits until it listens.
 *
 * @throws {AppError} what `serve` said when it could not start, or `server_not_started`; the signal's reason when aborted
 */
export async function startServerProcess(options: ServerProcessOptions): Promise<ServerProcess> {
  options.signal.throwIfAborted()
  const args = [
    'serve',
    '--json',
    '--host',
    '127.0.0.1',
    '--port',
    String(options.port ?? 0),
    '--log-level',
    'warn',
    ...options.flags,
  ]
  const child = spawnProcess(
    process.execPath,
    [...dieWithParentFlags(), join(packageRoot(), 'bin', 'trainyard.js'), ...args],
    {
      detached: true,
      // a server as if the user had started it
      inherits: { environment: options.environment, needs: 'everything' },
      stdio: CHILD_STDIO,
    },
  )
  releaseLifeline(child)
  child.channel?.unref()
  const exited = new Promise<void>((resolve) => {
    child.once('exit', () => resolve())
    child.once('error', () => resolve())
  })
  let isAsked = false
  const stop = async (): Promise<void> => {
    if (!isAsked) askToStop(child)
    isAsked = true
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
    await exited
    clearTimeout(timer)
  }
  const abort = (): void => void stop()
  options.signal.addEventListener('abort', abort, { once: true })
  try {
    const ready = await readReady(child, exited)
    options.signal.throwIfAborted()
    return { ...ready, pid: child.pid ?? null, stop }
  } catch (error) {
    await stop()
    options.signal.throwIfAborted()
    throw error
  } finally {
    options.signal.removeEventListener('abort', abort)
  }
}

/** By a message: on Windows a signal ends the process at once, and with it what it was about to store. */
function askToStop(child: ChildProcess): void {
  child.send(STOP_MESSAGE, (error) => {
    // the channel is closed: it has ended, or is about to
    if (error !== null) child.kill('SIGTERM')
  })
}

async function readReady(
  child: ChildProcess,
  exited: Promise<void>,
): Promise<{ readonly url: string; readonly apiKeyFile: string }> {
  let errors = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    errors = (errors + text).slice(-STDERR_TAIL)
  })
  const stdout = child.stdout
  if (stdout === null) throw notStarted(errors)
  const lines = createInterface({ input: stdout })
  const line = await Promise.race([
    new Promise<string>((resolve) => lines.once('line', resolve)),
    exited.then(() => null),
  ])
  const ready = line === null ? null : asObject(line)
  const [url, apiKeyFile] = [ready?.['url'], ready?.['api_key_file']]
  if (typeof url !== 'string' || typeof apiKeyFile !== 'string') throw notStarted(errors)
  return { url, apiKeyFile }
}

/** The child's own error line, else the last line it wrote. */
function notStarted(errors: string): AppError {
  const lines = errors.trimEnd().split('\n')
  for (const line of lines.toReversed()) {
    const error = asObject(line)?.['error']
    if (typeof error !== 'object' || error === null) continue
    const { type, code, message, hint } = error as Readonly<Record<string, unknown>>
    if (typeof type !== 'string' || typeof code !== 'string' || typeof message !== 'string') continue
    return new AppError(type as ErrorCategory, code, message, typeof hint === 'string' ? { hint } : {})
  }
  const last = lines.at(-1) ?? ''
  return new AppError(
    'internal',
    'server_not_started',
    `the server could not be started${last === '' ? '' : `: ${last}`}`,
  )
}

function asObject(line: string): Readonly<Record<string, unknown>> | null {
  try {
    const value: unknown = JSON.parse(line)
    return typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>) : null
  } catch {
    return null
  }
}
