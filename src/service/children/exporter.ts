/**
 * Exports of checkpoints: one short-lived process each, whose stdout is the file. Adapters from elsewhere are checked in such
 * a process too.
 *
 * At most a few at a time, the others wait their turn: each holds the largest tensor of a base model and computes. A
 * client that reads slowly slows its own export; one that goes away ends it.
 */
import { type ChildProcess, fork } from 'node:child_process'
import type { Readable } from 'node:stream'
import { fromErrorMessage } from '#base/error-message.js'
import { AppError } from '#base/errors.js'
import { createDeferred } from '#base/util/deferred.js'
import type { ExportReply, ExportRequest, ImportedAdapter, ImportRequest } from '#model/export/protocol.js'
import { stepBack } from './child.js'
import { builtModule, dieWithParentFlags } from './entry.js'
import { releaseLifeline } from './lifeline.js'

/** A file of an export as listed. */
export interface ExportedFile {
  readonly name: string
  readonly sizeBytes: number
}

export interface OpenExport extends ExportedFile {
  /** Fails when the export process does; destroying it ends the process. */
  readonly stream: Readable
}

/** An export without the choice of a file. */
export type WantedExport = Omit<ExportRequest, 'type' | 'file'>

type Answer = Exclude<ExportReply, { readonly type: 'failed' }>

export interface Exporter {
  /** @throws {AppError} what the export refuses, for example `unsupported_export` */
  list(request: WantedExport): Promise<readonly ExportedFile[]>
  /** Null when the export has no such file. */
  open(request: WantedExport, file: string): Promise<OpenExport | null>
  /** Checks an adapter and rewrites it. @throws {AppError} what is wrong with it */
  importAdapter(request: Omit<ImportRequest, 'type'>): Promise<ImportedAdapter>
  /** Ends what runs and refuses more. */
  stop(): void
}

/** As for training workers, with stdout for the file. */
const STDIO = ['ignore', 'pipe', 2, 'ipc', 'pipe'] as const
const MOST_AT_ONCE = 2
/** Further ones are refused: whoever waits longest would wait for minutes. */
const MOST_WAITING = 32

/** @param options.environment of the processes */
export function createExporter(options: {
  readonly environment: Readonly<Record<string, string | undefined>>
}): Exporter {
  const running = new Set<ChildProcess>()
  const waiting: (() => void)[] = []
  let isStopped = false
  let places = MOST_AT_ONCE

  async function takePlace(): Promise<void> {
    if (places > 0) {
      places -= 1
      return
    }
    if (waiting.length >= MOST_WAITING) {
      throw new AppError('rate_limited', 'queue_full', `${MOST_WAITING} exports wait already`, {
        hint: 'ask again later',
      })
    }
    await new Promise<void>((resolve) => waiting.push(resolve))
  }

  function givePlace(): void {
    const next = waiting.shift()
    if (next === undefined) places += 1
    else next()
  }

  async function start(request: ExportRequest | ImportRequest): Promise<{ child: ChildProcess; reply: Answer }> {
    await takePlace()
    if (isStopped) {
      givePlace()
      throw new AppError('unavailable', 'shutting_down', 'the server is shutting down')
    }
    const child = fork(builtModule('model/export/main.js'), [], {
      execArgv: dieWithParentFlags(),
      stdio: [...STDIO],
      env: { ...options.environment },
    })
    releaseLifeline(child)
    running.add(child)
    stepBack(child)
    const answer = createDeferred<Answer>()
    // a refusal is told to whoever waits for it; an end after the answer shows on the stream
    answer.promise.catch(() => undefined)
    // whoever reads the stream hears of its failure; when nobody does, the answer has said it
    child.stdout?.on('error', () => undefined)
    child.on('message', (reply: ExportReply) => {
      if (reply.type === 'failed') fail(fromErrorMessage(reply.error))
      else answer.resolve(reply)
    })
    const fail = (error: Error): void => {
      answer.reject(error)
      child.stdout?.destroy(error)
    }
    child.on('error', (cause) => fail(exportDied('could not be started', cause)))
    child.once('close', (code, signal) => {
      running.delete(child)
      givePlace()
      if (code !== 0) fail(exportDied(signal === null ? `exited with code ${code}` : `was killed by ${signal}`))
      answer.reject(exportDied('ended without an answer'))
    })
    child.send(request, () => undefined)
    return { child, reply: await answer.promise }
  }

  return {
    list: async (request) => {
      const { child, reply } = await start({ type: 'export', ...request, file: null })
      child.stdout?.resume()
      return filesOf(reply)
    },
    open: async (request, file) => {
      const { child, reply } = await start({ type: 'export', ...request, file })
      const stream = child.stdout
      const entry = filesOf(reply).find(({ name }) => name === file)
      if (stream === null || entry === undefined) {
        stream?.resume()
        return null
      }
      stream.once('close', () => {
        if (!stream.readableEnded) child.kill('SIGKILL')
      })
      return { ...entry, stream }
    },
    importAdapter: async (request) => {
      const { child, reply } = await start({ type: 'import', ...request })
      child.stdout?.resume()
      if (reply.type !== 'imported') throw exportDied('answered something else')
      return reply.adapter
    },
    stop: () => {
      isStopped = true
      for (const child of running) child.kill('SIGKILL')
    },
  }
}

function filesOf(reply: Answer): readonly ExportedFile[] {
  if (reply.type !== 'files') throw exportDied('answered something else')
  return reply.files
}

function exportDied(how: string, cause?: unknown): AppError {
  return new AppError('internal', 'export_failed', `the export ${how}`, {
    hint: 'ask again; the server log says more',
    cause,
  })
}
