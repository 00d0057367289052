/**
 * Runs a client's program (a Python script, a command) to its end, and says everything about an end that was not clean.
 *
 * Python prints the stacks of all its threads at a fatal signal (`PYTHONFAULTHANDLER`), so one that hangs is ended by such a signal.
 */
import { spawn } from 'node:child_process'

/** Characters of each stream, its last ones, that an error shows. */
const MOST_SHOWN = 20_000

/** How a process ends that aborts: also by what it meets while it writes down the stacks of what is being torn down. */
const AT_ABORT: ReadonlySet<NodeJS.Signals> = new Set(['SIGABRT', 'SIGBUS', 'SIGSEGV'])

export interface ClientRun {
  readonly env?: Readonly<Record<string, string>>
  /** The program gets `env` and nothing of this process's. */
  readonly hasOwnEnvironment?: boolean
  readonly cwd?: string
  /** Called with its process id when it runs. */
  readonly onStart?: (pid: number) => void
  /** Below the test's own limit, so that the error says where the program was. */
  readonly timeoutMs: number
  /**
   * For programs with the Tinker client. Its HTTP library (pyqwest 0.12, PyO3) has threads of its own. One that turns to CPython 3.11 while
   * that is being torn down is ended by it (`take_gil` → `pthread_exit`), cannot be unwound through Rust's frames, and aborts the process: once
   * in some fifty ends on a busy machine, one in eight where requests are under way. Everything was done by then: what was printed counts, and a
   * line says how it ended.
   */
  readonly mayAbortAtExit?: boolean
}

/**
 * @returns what the program printed to stdout
 * @throws {Error} with exit code, signal, stdout and stderr of a program that failed, and where its threads were if it is Python's
 */
export async function runClient(program: string, args: readonly string[], run: ClientRun): Promise<string> {
  const child = spawn(program, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...(run.hasOwnEnvironment === true ? {} : process.env), PYTHONFAULTHANDLER: '1', ...run.env },
    ...(run.cwd === undefined ? {} : { cwd: run.cwd }),
  })
  if (child.pid !== undefined) run.onStart?.(child.pid)
  const output = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text: string) => {
      output[name] += text
    })
  }
  let isLate = false
  const limit = setTimeout(() => {
    isLate = true
    child.kill('SIGABRT')
  }, run.timeoutMs)
  const [code, signal] = await new Promise<[number | null, NodeJS.Signals | null]>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (...end) => resolve(end))
  }).finally(() => clearTimeout(limit))
  if (code === 0) return output.stdout
  const how = isLate
    ? `had not ended after ${run.timeoutMs / 1000} s`
    : `ended with ${signal === null ? `code ${code}` : `signal ${signal}`}`
  if (run.mayAbortAtExit === true && !isLate && signal !== null && AT_ABORT.has(signal) && isTornDown(output.stderr)) {
    console.warn(`${[program, ...args].join(' ')} ${how} after its work was done`)
    return output.stdout
  }
  throw new Error(
    [
      ...[`${[program, ...args].join(' ')} ${how}`, 'stdout:', output.stdout.slice(-MOST_SHOWN)],
      ...['stderr:', output.stderr.slice(-MOST_SHOWN)],
    ].join('\n'),
  )
}

/** What a script of `test/e2e/clients` saw: the JSON of its last line. */
export async function seenByClient<Seen = unknown>(
  program: string,
  args: readonly string[],
  run: ClientRun,
): Promise<Seen> {
  const stdout = await runClient(program, args, run)
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as Seen
}

/**
 * Whether Python died while it was torn down: it forgets all threads but its main one then, and before that there is always the one of the
 * client's event loop.
 */
function isTornDown(stderr: string): boolean {
  const dump = stderr.slice(Math.max(0, stderr.lastIndexOf('Fatal Python error: Aborted')))
  return dump.startsWith('Fatal Python error') && dump.match(/^(Current thread|Thread) 0x/gm)?.length === 1
}
