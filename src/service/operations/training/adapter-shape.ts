/**
 * A model's adapter has its shape from the first job on; asking for another one later must not be ignored.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import type { CommonOptions } from '#contract/jobs/shared-options.js'
import { ADAPTER_CONFIG_FILE } from '#formats/checkpoint-manifest.js'
import { findCheckpoint } from '#service/storage/checkpoints.js'
import type { ModelRecord } from '#service/storage/models.js'
import type { ServiceContext } from '../context.js'

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
  const file = latest?.files.find(({ name }) => name === ADAPTER_CONFIG_FILE)
  if (file === undefined) return
  const chunks: Uint8Array[] = []
  for await (const chunk of await context.blobs.openRead(file.sha256)) chunks.push(chunk)
  const { r, lora_alpha: alpha } = JSON.parse(Buffer.concat(chunks).toString()) as Record<string, unknown>
  if (typeof alpha !== 'number' || (r === lora.rank && alpha === lora.alpha)) return
  throw new InvalidRequestError(
    'adapter_shape_fixed',
    `lora asks for rank ${lora.rank} and alpha ${lora.alpha}, but the adapter of model "${model.name}" has rank ${r} and alpha ${alpha}`,
    { param: 'lora', hint: 'leave lora out, or create a new model' },
  )
}
