/**
 * The files of a checkpoint as blobs, and how errors name the checkpoint they belong to.
 */
import type { Readable } from 'node:stream'
import { checkpointTitle } from '#formats/checkpoint-manifest.js'
import { toCheckpointError } from '#service/storage/blobs.js'
import type { ServiceContext } from '../context.js'

/** @throws {CheckpointError} `checkpoint_corrupt` if the bytes are gone: a row names them, so that is our fault */
export async function openCheckpointBlob(
  context: Pick<ServiceContext, 'blobs'>,
  file: {
    readonly model: { readonly name: string }
    readonly step: number
    readonly name: string
    readonly sha256: string
  },
): Promise<Readable> {
  try {
    return await context.blobs.openRead(file.sha256)
  } catch (cause) {
    throw toCheckpointError(checkpointTitle(file.model.name, file.step), file.name, cause)
  }
}
