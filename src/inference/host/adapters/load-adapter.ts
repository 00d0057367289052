/**
 * Where a host reads adapters: small ones in place, larger ones in a thread, whose digests, checks and copies would hold up the
 * steps of running choices.
 */
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Worker } from 'node:worker_threads'
import { fromErrorMessage } from '#base/error-message.js'
import { RuntimeError } from '#base/errors.js'
import { packageRoot } from '#base/util/package-root.js'
import type { AdapterModule, AdapterWeights } from '#model/weights/adapter.js'
import type { AdapterRef } from '../protocol.js'
import type { AdapterThreadReply, AdapterThreadTask } from './adapter-thread.js'
import { readStoredAdapter } from './stored-adapter.js'

/** Reading this much takes some milliseconds, less than a thread takes to start. */
const SMALL_BYTES = 1e6

/**
 * The adapter, read and checked.
 *
 * @param modules what can be adapted in the base model
 * @param smallBytes files of up to this size together are read in place
 * @throws {AppError} `checkpoint_corrupt`
 */
export async function loadAdapter(
  adapter: AdapterRef,
  modules: readonly AdapterModule[],
  smallBytes: number = SMALL_BYTES,
): Promise<AdapterWeights> {
  const isSmall = (await sizeOf(adapter)) <= smallBytes
  return isSmall ? await readStoredAdapter(adapter, modules) : await readInThread({ adapter, modules })
}

/** A file that is not there counts as none: reading it says what is wrong. */
async function sizeOf({ files }: AdapterRef): Promise<number> {
  const sizes = await Promise.all(
    Object.values(files).map(({ path }) =>
      stat(path).then(
        ({ size }) => size,
        () => 0,
      ),
    ),
  )
  return sizes.reduce((sum, size) => sum + size, 0)
}

function readInThread(task: AdapterThreadTask): Promise<AdapterWeights> {
  // threads always run the build in dist/, as child processes do
  const entry = pathToFileURL(join(packageRoot(), 'dist/src/inference/host/adapters/adapter-thread.js'))
  return new Promise((resolve, reject) => {
    const thread = new Worker(entry, { workerData: task, execArgv: [] })
    const onEnd = (cause?: unknown): void => {
      reject(new RuntimeError('adapter_thread_failed', 'the thread that reads an adapter ended', { cause }))
    }
    thread.once('message', (reply: AdapterThreadReply) => {
      if ('error' in reply) reject(fromErrorMessage(reply.error))
      else resolve(reply.adapter)
    })
    thread.once('error', onEnd)
    thread.once('exit', () => onEnd())
  })
}
