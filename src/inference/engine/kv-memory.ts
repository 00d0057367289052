/**
 * The default for how much memory keys and values may take, where no setting says it.
 */
import { memoryBytes } from '#base/machine/memory.js'

/** What server, engine, a training job and a command beside them take of a small machine before the first key is stored. */
const BESIDE_BYTES = 320 * 2 ** 20
/** Share of what is left, and of all where next to nothing is. */
const SHARE = 1 / 4
const LEAST_SHARE = 1 / 16

/**
 * A quarter of what the machine or container has beyond 320 MB: in 512 MB a quarter of all was more than there was beside a job, and
 * the system ended the engine.
 *
 * @param total bytes of memory
 * @returns bytes
 */
export function defaultKvBytes(total = memoryBytes()): number {
  return Math.max(total * LEAST_SHARE, (total - BESIDE_BYTES) * SHARE)
}
