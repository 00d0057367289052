/**
 * The one way by which an adapter from elsewhere becomes the files of a checkpoint, whatever door it came through: a process
 * checks it against the base model and writes it anew, so the server reads none of its bytes.
 */
import { createReadStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import {
  ADAPTER_CONFIG_FILE,
  ADAPTER_WEIGHTS_FILE,
  encodeManifest,
  MANIFEST_FILE,
} from '#formats/checkpoint-manifest.js'
import { digestOfAdapter } from '#service/queue/outcome.js'
import type { CheckpointFileRecord, NewCheckpoint } from '#service/storage/checkpoints.js'
import type { BaseModelEntry, ServiceContext } from '../context.js'
import type { ImportedAdapter } from './exporter.js'

/** A checkpoint's files, stored, and what was found out about the adapter. */
export interface CheckedAdapter extends Pick<NewCheckpoint, 'adapterDigest' | 'files'> {
  readonly facts: ImportedAdapter
}

/**
 * Checks an adapter and stores its files.
 *
 * @param given where the two files lie, as they came, and whose key asks: keys take turns
 * @throws {WeightsError} what is wrong with it; {AppError} `queue_full` when too many wait already
 */
export async function importAdapter(
  { blobs, exporter, logger }: Pick<ServiceContext, 'blobs' | 'exporter' | 'logger'>,
  base: BaseModelEntry,
  { keyId, ...given }: { readonly keyId: string; readonly configPath: string; readonly weightsPath: string },
): Promise<CheckedAdapter> {
  const targets = { [ADAPTER_CONFIG_FILE]: blobs.temporaryPath(), [ADAPTER_WEIGHTS_FILE]: blobs.temporaryPath() }
  try {
    const { sourcePath, name: baseModel } = base
    const facts = await exporter.importAdapter(keyId, { sourcePath, baseModel, ...given, targets })
    logger.info({ ...facts, base_model: baseModel }, 'adapter.imported')
    const files: CheckpointFileRecord[] = []
    for (const [name, target] of Object.entries(targets)) {
      files.push({ name, ...(await blobs.put(createReadStream(target))) })
    }
    const manifest = await blobs.put([encodeManifest(Object.fromEntries(files.map((file) => [file.name, file])))])
    return { facts, adapterDigest: digestOfAdapter(files), files: [...files, { name: MANIFEST_FILE, ...manifest }] }
  } finally {
    for (const target of Object.values(targets)) await rm(target, { force: true })
  }
}
