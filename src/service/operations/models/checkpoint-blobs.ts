/**
 * The files of a checkpoint as blobs, and how errors name the checkpoint they belong to.
 */
import type { Readable } from 'node:stream'
import { AppError } from '#base/errors/errors.js'
import { checkpointCorrupt, checkpointTitle } from '#formats/checkpoint-manifest.js'
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
    // a store that does not answer may well have it
    if (cause instanceof AppError && cause.category === 'unavailable') throw cause
    throw checkpointCorrupt(checkpointTitle(file.model.name, file.step), `${file.name} cannot be read`, cause)
  }
}
