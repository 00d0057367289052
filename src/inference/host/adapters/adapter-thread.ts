/**
 * The thread that reads one large adapter (`load-adapter.ts`), answers and ends.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { toErrorMessage } from '#base/error-message.js'
import { lowerThreadPriority } from '#base/util/thread-priority.js'
import type { AdapterModule, AdapterWeights } from '#model/weights/adapter.js'
import type { AdapterRef, FailedEvent } from '../protocol.js'
import { readStoredAdapter } from './stored-adapter.js'

/** Behind the threads that compute. */
const NICENESS = 10

export interface AdapterThreadTask {
  readonly adapter: AdapterRef
  readonly modules: readonly AdapterModule[]
}

export type AdapterThreadReply = { readonly adapter: AdapterWeights } | { readonly error: FailedEvent['error'] }

lowerThreadPriority(NICENESS)

async function answer(): Promise<void> {
  try {
    const task = workerData as AdapterThreadTask
    const { config, a, b } = await readStoredAdapter(task.adapter, task.modules)
    // copies with memory of their own, which can be handed over: what was read lies in one piece of the file
    const own = (tensors: ReadonlyMap<string, Float32Array>): Map<string, Float32Array<ArrayBuffer>> =>
      new Map([...tensors].map(([path, data]) => [path, new Float32Array(data)]))
    const adapter = { config, a: own(a), b: own(b) }
    const buffers = [...adapter.a.values(), ...adapter.b.values()].map(({ buffer }) => buffer)
    parentPort?.postMessage({ adapter } satisfies AdapterThreadReply, buffers)
  } catch (error) {
    const reply = { error: toErrorMessage(error, { message: 'the adapter could not be read' }) }
    parentPort?.postMessage(reply satisfies AdapterThreadReply)
  }
}

void answer()
