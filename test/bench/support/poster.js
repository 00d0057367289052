/**
 * A thread that posts one body at a time: megabytes written in the thread that measures would be measured too.
 *
 * Messages to it: `{ path, body }` with a Uint8Array; from it: `{ status, text }`.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { createClient } from './http-load.js'

const call = createClient(workerData)

parentPort.on('message', async ({ path, body }) => {
  const { status, text } = await call('POST', path, Buffer.from(body.buffer, body.byteOffset, body.byteLength))
  parentPort.postMessage({ status, text: text.slice(0, 200) })
})
