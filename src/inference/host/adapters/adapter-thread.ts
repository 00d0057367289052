/**
 * The thread that reads one large adapter (`load-adapter.ts`), answers and ends.
 */
import { answerThread } from '#base/processes/ask-thread.js'
import { lowerThreadPriority } from '#base/util/thread-priority.js'
import type { AdapterModule, AdapterWeights } from '#model/weights/adapter.js'
import type { AdapterRef } from '../protocol.js'
import { readStoredAdapter } from './stored-adapter.js'

/** Behind the threads that compute. */
const NICENESS = 10

export interface AdapterThreadTask {
  readonly adapter: AdapterRef
  readonly modules: readonly AdapterModule[]
}

lowerThreadPriority(NICENESS)

async function read(task: AdapterThreadTask): Promise<AdapterWeights> {
  const { config, a, b } = await readStoredAdapter(task.adapter, task.modules)
  // copies with memory of their own, which can be handed over: what was read lies in one piece of the file
  const own = (tensors: ReadonlyMap<string, Float32Array>): Map<string, Float32Array> =>
    new Map([...tensors].map(([path, data]) => [path, new Float32Array(data)]))
  return { config, a: own(a), b: own(b) }
}

answerThread(read, {
  message: 'the adapter could not be read',
  transferOf: ({ a, b }) => [...a.values(), ...b.values()].map(({ buffer }) => buffer as ArrayBuffer),
})
