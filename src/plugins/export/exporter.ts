/**
 * Exports of checkpoints: one short-lived process each, whose stdout is the file. Adapters from elsewhere are checked in such
 * a process too.
 *
 * At most a few at a time, and keys take turns: each holds the largest tensor of a base model and computes. A client that reads
 * slowly slows its own export, and the other ones of its key: keys of which nothing runs have a place beside. One that goes away
 * ends it.
 */
import { AppError, shuttingDown } from '#base/errors/errors.js'
import { askProcess } from '#base/processes/ask-process.js'
import { startChild } from '#base/processes/child.js'
import { createTurns } from '#base/util/turns.js'
import type { ExportedFile, OpenExporter } from '#service/operations/models/exporter.js'
import { createAdapterChecks } from './adapter-checks.js'
import type { ExportReply, ExportRequest, ImportRequest, MergeRequest } from './requests.js'

/** Further ones are refused: whoever waits longest would wait for minutes. */
const TURNS = { what: 'exports', mostWaiting: 64, mostOfOneKey: 16, atOnce: 2, spare: 1 }

/** @param options.environment of the processes */
export function createExporter(options: Parameters<OpenExporter>[0]): Awaited<ReturnType<OpenExporter>> {
  const running = new Set<ReturnType<typeof startChild>>()
  const turns = createTurns(TURNS)
  const checks = createAdapterChecks({ environment: options.environment, died: exportDied })
  /** Who waits for a turn hears of the end when it comes. */
  const never = new AbortController().signal
  let isStopped = false

  /** Resolves with the answer; the process goes on, and its turn, until its file is read. */
  function start(
    key: string,
    request: ExportRequest | ImportRequest | MergeRequest,
  ): Promise<{ readonly child: ReturnType<typeof startChild>; readonly reply: ExportReply }> {
    return new Promise((resolve, reject) => {
      turns
        .take(key, never, async () => {
          if (isStopped) throw shuttingDown()
          const child = startChild('plugins/export/main.js', {
            environment: options.environment,
            needs: ['computing'],
            isRead: true,
            isBehind: true,
          })
          running.add(child)
          // whoever reads the stream hears of its failure; when nobody does, the answer has said it
          child.stdout?.on('error', () => undefined)
          const { answer, closed } = askProcess<ExportReply>(child, request, {
            died: exportDied,
            onFailed: (error) => child.stdout?.destroy(error),
          })
          answer.then((reply) => resolve({ child, reply }), reject)
          await closed
          running.delete(child)
        })
        .catch(reject)
    })
  }

  return {
    list: async (key, request) => {
      const { child, reply } = await start(key, { type: 'export', ...request, file: null })
      child.stdout?.resume()
      return filesOf(reply)
    },
    open: async (key, request, file) => {
      const { child, reply } = await start(key, { type: 'export', ...request, file })
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
    importAdapter: async (key, request) => {
      const { child, reply } = await start(key, { type: 'import', ...request })
      child.stdout?.resume()
      if (reply.type !== 'imported') throw exportDied('answered something else')
      return reply.adapter
    },
    checkAdapter: checks.check,
    mergeAdapter: async (key, request) => {
      const { child, reply } = await start(key, { type: 'merge', ...request })
      child.stdout?.resume()
      if (reply.type !== 'merged') throw exportDied('answered something else')
      return reply.notes
    },
    stop: () => {
      isStopped = true
      checks.stop()
      for (const child of running) child.kill('SIGKILL')
    },
  }
}

function filesOf(reply: ExportReply): readonly ExportedFile[] {
  if (reply.type !== 'files') throw exportDied('answered something else')
  return reply.files
}

function exportDied(how: string, cause?: unknown): AppError {
  return new AppError('internal', 'export_failed', `the export ${how}`, {
    hint: 'ask again; the server log says more',
    cause,
  })
}
