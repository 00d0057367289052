/**
 * The built command line as a process with a home of its own, for end-to-end tests: spawn, wait for lines, signal, result.
 */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

const ROOT = resolve(import.meta.dirname, '../../..')

export interface Finished {
  readonly stdout: string
  readonly stderr: string
  /** null when a signal ended it. */
  readonly exitCode: number | null
}

export interface CliProcess {
  readonly child: ChildProcessWithoutNullStreams
  readonly finished: Promise<Finished>
  /** Resolves when stdout matches; rejects when the process ends first. */
  waitForStdout(pattern: RegExp): Promise<string>
}

/** A home folder whose settings and records no other test sees. */
export function createHome(): { readonly path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), 'trainyard-e2e-'))
  return { path, remove: () => rmSync(path, { recursive: true, force: true, maxRetries: 20 }) }
}

/** Starts a command; standard input is closed at once unless `stdin` is given. */
export function startCli(
  argv: readonly string[],
  options: {
    readonly home: string
    readonly env?: Readonly<Record<string, string>>
    /** null leaves standard input open and writes nothing. */
    readonly stdin?: string | null
    /** Folder of another copy of the package. Default: this checkout. */
    readonly packageRoot?: string
    /** A program and its arguments that run the command, for example a tracer. */
    readonly wrapper?: readonly string[]
  },
): CliProcess {
  const env: NodeJS.ProcessEnv = { PATH: process.env['PATH'], HOME: options.home, ...options.env }
  const launcher = join(options.packageRoot ?? ROOT, 'bin/trainyard.js')
  const [program = process.execPath, ...rest] = [...(options.wrapper ?? []), process.execPath, launcher, ...argv]
  const child = spawn(program, rest, { env })
  const seen = { stdout: '', stderr: '' }
  const watchers = new Set<() => void>()
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text: string) => {
      seen[name] += text
      for (const watcher of watchers) watcher()
    })
  }
  child.stdin.on('error', () => undefined)
  if (options.stdin !== null) child.stdin.end(options.stdin ?? '')
  const finished = new Promise<Finished>((done) => {
    child.once('close', (exitCode) => done({ ...seen, exitCode }))
  })
  return {
    child,
    finished,
    waitForStdout: (pattern) =>
      new Promise((found, failed) => {
        const watcher = () => {
          if (!pattern.test(seen.stdout)) return
          watchers.delete(watcher)
          found(seen.stdout)
        }
        watchers.add(watcher)
        void finished.then((end) => failed(new Error(`ended with ${end.exitCode} before ${pattern}\n${end.stderr}`)))
        watcher()
      }),
  }
}

/** Runs a command to its end. */
export function cli(argv: readonly string[], options: Parameters<typeof startCli>[1]): Promise<Finished> {
  return startCli(argv, options).finished
}
