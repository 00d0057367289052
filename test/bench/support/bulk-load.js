/**
 * A thread that posts one body many times at once: hundreds of megabytes written in one turn would stand in the way of whoever
 * measures in the same thread.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { createClient } from './http-load.js'

const { service, path, body, count } = workerData
const call = createClient(service)
// bytes come from another thread as a plain array of bytes
const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
const startMs = performance.now()
const replies = await Promise.all(
  Array.from({ length: count }, (_, i) => call('POST', path, bytes, { 'idempotency-key': `k${i}` })),
)
parentPort.postMessage({ replies, tookMs: performance.now() - startMs })
