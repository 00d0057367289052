/**
 * Starts a training worker for one attempt of one job: a child process that gets the server's address and its token by
 * environment and does the rest over HTTP, exactly as a worker on another machine would.
 */
import { fork } from 'node:child_process'
import { builtModule, dieWithParentFlags } from './entry.js'
import { CHILD_STDIO, releaseLifeline } from './lifeline.js'

export interface WorkerProcessOptions {
  /** Where the server listens, for example `http://127.0.0.1:8642`. */
  readonly serverUrl: string
  readonly token: string
  readonly jobId: string
  readonly attempt: number
  /** Environment of the server process, which the child inherits. */
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Module the child runs. Default: the built training worker. */
  readonly entryPath?: string | undefined
}

export interface WorkerProcess {
  readonly pid: number | null
  /** One clause that says how the process ended; never rejects. */
  readonly ended: Promise<string>
  kill(): void
}

/** Starts the process; a failure to start shows in `ended`. */
export function startWorkerProcess(options: WorkerProcessOptions): WorkerProcess {
  const child = fork(options.entryPath ?? builtModule('training/worker/main.js'), [], {
    execArgv: dieWithParentFlags(),
    stdio: CHILD_STDIO,
    env: {
      ...options.environment,
      TRAINYARD_WORKER_URL: options.serverUrl,
      TRAINYARD_WORKER_TOKEN: options.token,
      TRAINYARD_WORKER_JOB: options.jobId,
      TRAINYARD_WORKER_ATTEMPT: String(options.attempt),
    },
  })
  releaseLifeline(child)
  const ended = new Promise<string>((resolve) => {
    child.once('exit', (code, signal) =>
      resolve(signal === null ? `the worker exited with code ${code}` : `the worker was killed by ${signal}`),
    )
    child.once('error', (error) => resolve(`the worker could not be started: ${error.message}`))
  })
  return { pid: child.pid ?? null, ended, kill: () => void child.kill('SIGKILL') }
}
