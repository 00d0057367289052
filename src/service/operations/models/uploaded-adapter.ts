/**
 * The one check of what a worker of another machine uploads as an adapter, before it becomes a checkpoint of a job or a session.
 *
 * A worker of this machine is a child of the server and runs its code; one elsewhere may be anybody's who has a key for it. The
 * check is made by a process of the exporter, so the server reads none of the bytes.
 */
import { AppError, InvalidRequestError } from '#base/errors/errors.js'
import { ADAPTER_CONFIG_FILE, ADAPTER_WEIGHTS_FILE } from '#formats/checkpoint-manifest.js'
import type { BaseModelEntry, ServiceContext } from '../context.js'

export interface UploadedAdapter {
  readonly base: BaseModelEntry
  /** Whose it is: entities take turns. */
  readonly entity: string
  /** Inner dimension that the job or session has; null: whatever the files say. */
  readonly rank: number | null
  /** Digests of the uploaded files, by name; others than the adapter's are passed over. */
  readonly files: Readonly<Record<string, string>>
}

/** @throws {InvalidRequestError} `adapter_refused` saying what is wrong; {AppError} what keeps it from being checked */
export async function assertAdapter(
  { blobs, exporter }: Pick<ServiceContext, 'blobs' | 'exporter'>,
  { base, entity, rank, files }: UploadedAdapter,
): Promise<void> {
  const [config, weights] = [files[ADAPTER_CONFIG_FILE], files[ADAPTER_WEIGHTS_FILE]]
  // what is missing is said where all files are collected
  if (config === undefined || weights === undefined) return
  const [configPath, weightsPath] = await Promise.all([blobs.localFile(config), blobs.localFile(weights)])
  try {
    await exporter.checkAdapter(entity, { sourcePath: base.sourcePath, configPath, weightsPath, rank })
  } catch (error) {
    if (!(error instanceof AppError) || error.category !== 'invalid_request') throw error
    throw new InvalidRequestError('adapter_refused', `the worker's adapter is refused: ${error.message}`, {
      hint: 'the step before stays the latest; let another worker run the job',
      cause: error,
    })
  }
}
