/**
 * Memory of bytes that nobody reads any more, given back at once.
 *
 * Data of sockets arrives in buffers of up to 64 kB, each of which lives until a garbage collection finds it. A burst of large bodies
 * makes them faster than they are found, and what the process then takes from the system it keeps.
 */
import { MessageChannel } from 'node:worker_threads'

/** Takes what is transferred to it and hands it to nobody: a channel whose ends are closed. */
const nowhere = new MessageChannel().port1
nowhere.close()

/** Empties bytes that are all of their buffer; others, which share it, stay as they are until they are collected. */
export function releaseBytes(bytes: Uint8Array): void {
  const { buffer } = bytes
  if (buffer instanceof ArrayBuffer && buffer.byteLength === bytes.byteLength) nowhere.postMessage(null, [buffer])
}
