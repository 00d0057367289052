/**
 * Asks V8 for a full garbage collection that also compacts the heap.
 *
 * V8 collects only while a heap grows. So a process that falls idle keeps the garbage of its last busy seconds, and the memory
 * outside the heap that only this garbage refers to. The inspector is the documented way to ask; no port is opened.
 */
import { createRequire } from 'node:module'

/** Stops the thread for 20 to 50 ms. @throws where this Node has no inspector, or may not use it: V8 goes on alone */
export async function collectGarbage(): Promise<void> {
  // only where it is needed: a Node without it fails to load it
  const { Session } = await import('node:inspector/promises')
  const session = new Session()
  session.connect()
  try {
    await session.post('HeapProfiler.collectGarbage')
  } finally {
    session.disconnect()
  }
}

/** The same at once, for who cannot go on without room. */
export function collectGarbageNow(): void {
  const { Session } = createRequire(import.meta.url)('node:inspector') as typeof import('node:inspector')
  const session = new Session()
  session.connect()
  session.post('HeapProfiler.collectGarbage')
  session.disconnect()
}
