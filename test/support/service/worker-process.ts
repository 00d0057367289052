/**
 * `trainyard worker`, or `engine-node`, as a process of its own, with a home and a cache that nobody else uses, for tests of more than one machine.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { until } from '../until.js'

const CLI = join(import.meta.dirname, '../../../bin/trainyard.js')

export interface WorkerProcess {
  readonly child: ChildProcess
  /** What it said, one object a line. */
  readonly events: readonly { readonly type?: string; readonly job_id?: string; readonly url?: string }[]
  stderr(): string
  /** Resolves once it has said so; fails when it ends before, with what it said. */
  heard(type: string, withinMs?: number): Promise<void>
  /** Resolves with how it ended. */
  readonly ended: Promise<{ readonly code: number | null; readonly signal: string | null }>
}

/** @param directory its home, with its cache; two workers may share one */
export function startWorkerProcess(options: {
  readonly url: string
  readonly key: string
  readonly directory: string
  readonly flags?: readonly string[]
  /** Default `worker`. */
  readonly command?: 'worker' | 'engine-node'
  /** More variables. */
  readonly environment?: Readonly<Record<string, string>>
}): WorkerProcess {
  const { url, key, directory, flags = [], command = 'worker', environment: more = {} } = options
  // threads are our engine's, and refused beside another one
  const threads = flags.includes('vllm') ? [] : ['--threads', '1']
  const environment = {
    HOME: directory,
    PATH: process.env['PATH'] ?? '',
    TRAINYARD_API_KEY: key,
    TRAINYARD_URL: url,
    ...more,
  }
  const child = spawn(
    process.execPath,
    [CLI, command, '--json', ...threads, '--cache-dir', join(directory, 'cache'), ...flags],
    { env: environment, stdio: ['ignore', 'pipe', 'pipe'] },
  )
  const events: WorkerProcess['events'][number][] = []
  let stderr = ''
  createInterface({ input: child.stdout }).on('line', (line) => events.push(JSON.parse(line)))
  child.stderr.on('data', (text) => {
    stderr += text
  })
  const ended = once(child, 'exit').then(([code, signal]) => ({ code, signal }))
  return {
    child,
    events,
    stderr: () => stderr,
    ended,
    heard: async (type, withinMs) => {
      const isOver = (): boolean => child.exitCode !== null || child.signalCode !== null
      await until(
        () => {
          if (isOver() && !events.some((event) => event.type === type))
            throw new Error(`the ${command} ended: ${stderr}`)
          return events.some((event) => event.type === type)
        },
        `a ${command} that says "${type}"`,
        withinMs,
      )
    },
  }
}
