/**
 * An adapter as the server keeps it, read and checked.
 */
import { type AdapterWeights, decodeAdapter } from '#model/weights/adapter.js'
import { checkpointCorrupt, readCheckpoint } from '#model/weights/checkpoint-manifest.js'
import type { AdapterRef } from '../protocol.js'

/**
 * Reads an adapter's files, which may lie apart and under any name: the server keeps them as content-addressed blobs.
 *
 * @throws {CheckpointError} `checkpoint_corrupt`
 */
export async function readStoredAdapter(adapter: AdapterRef): Promise<AdapterWeights> {
  const files = await readCheckpoint(adapter)
  try {
    return decodeAdapter(files)
  } catch (cause) {
    // with the right digests it is what a worker made: our fault, not the request's
    throw checkpointCorrupt(adapter.checkpoint, 'its adapter cannot be read', cause)
  }
}
