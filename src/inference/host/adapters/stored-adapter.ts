/**
 * An adapter as the server keeps it, read and checked.
 */

import { readCheckpoint } from '#formats/checkpoint-manifest.js'
import { type AdapterModule, type AdapterWeights, decodeStoredAdapter } from '#model/weights/adapter.js'
import type { AdapterRef } from '../protocol.js'

/**
 * Reads an adapter's files, which may lie apart and under any name: the server keeps them as content-addressed blobs.
 *
 * @param modules what can be adapted in the base model
 * @throws {CheckpointError} `checkpoint_corrupt`, also when the adapter does not fit
 */
export async function readStoredAdapter(
  adapter: AdapterRef,
  modules: readonly AdapterModule[],
): Promise<AdapterWeights> {
  return decodeStoredAdapter(adapter.checkpoint, await readCheckpoint(adapter), modules)
}
