/**
 * Checks a job's LoRA options against the model's adapter: its shape is fixed by the first job, and a later job that
 * asks for another shape is refused.
 */
import type { JsonObject } from '#base/util/json.js'
import { assertSameShape, type LoraShape, shapeOfConfig } from '#contract/jobs/lora-options.js'
import type { CommonOptions } from '#contract/jobs/shared-options.js'
import { ADAPTER_CONFIG_FILE } from '#formats/checkpoint-manifest.js'
import { type CheckpointRecord, findCheckpoint } from '#service/storage/checkpoints.js'
import type { ModelRecord } from '#service/storage/models.js'
import type { ServiceContext } from '../context.js'

const MAX_CONFIG_BYTES = 100_000

/**
 * Compares the shape a job asks for with the model's latest checkpoint, if it has one. A job that waits in front of this one
 * may still fix another shape; the worker checks again.
 *
 * @throws {InvalidRequestError} `adapter_shape_fixed`
 */
export async function assertAdapterShape(
  context: Pick<ServiceContext, 'db' | 'blobs'>,
  model: Pick<ModelRecord, 'id' | 'name'>,
  lora: CommonOptions['lora'],
): Promise<void> {
  if (lora === null) return
  const latest = await findCheckpoint(context.db, model.id, 'latest')
  const shape = latest === null ? null : await readAdapterShape(context, latest)
  if (shape !== null) assertSameShape(lora, shape, `the adapter of model "${model.name}"`)
}

/** The shape of a checkpoint's adapter; null for files that do not say them. */
export async function readAdapterShape(
  { blobs }: Pick<ServiceContext, 'blobs'>,
  { files }: Pick<CheckpointRecord, 'files'>,
): Promise<LoraShape | null> {
  const file = files.find(({ name }) => name === ADAPTER_CONFIG_FILE)
  // no job writes a larger one, and this one is read by the server itself
  if (file === undefined || file.sizeBytes > MAX_CONFIG_BYTES) return null
  const chunks: Uint8Array[] = []
  for await (const chunk of await blobs.openRead(file.sha256)) chunks.push(chunk)
  return shapeOfConfig(JSON.parse(Buffer.concat(chunks).toString()) as JsonObject)
}
