/**
 * Where a host reads adapters: small ones in place, larger ones in a thread, whose digests, checks and copies would hold up the
 * steps of running choices.
 */
import { stat } from 'node:fs/promises'
import { RuntimeError } from '#base/errors/errors.js'
import { createAskedThread } from '#base/processes/ask-thread.js'
import type { AdapterModule, AdapterWeights } from '#model/weights/adapter.js'
import type { AdapterRef } from '../protocol.js'
import type { AdapterThreadTask } from './adapter-thread.js'
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

async function readInThread(task: AdapterThreadTask): Promise<AdapterWeights> {
  const thread = createAskedThread<AdapterThreadTask, AdapterWeights>({
    entry: 'inference/host/adapters/adapter-thread.js',
    died: (cause) => new RuntimeError('adapter_thread_failed', 'the thread that reads an adapter ended', { cause }),
  })
  return await thread.ask(task).finally(() => thread.end())
}
