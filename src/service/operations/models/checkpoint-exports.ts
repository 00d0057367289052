/**
 * Which requests for a checkpoint's files are exports, and what the exporter is asked then.
 *
 * Stored files are the adapter in PEFT's layout; every other format, and everything of step 0, is made on the way.
 */

import { InvalidRequestError } from '#base/errors/errors.js'
import type { CheckpointFilesQuery } from '#contract/wire/checkpoints.js'
import { checkpointTitle } from '#formats/checkpoint-manifest.js'
import { toLocalFiles } from '#service/storage/blobs.js'
import type { CheckpointRecord } from '#service/storage/checkpoints.js'
import type { ModelRecord } from '#service/storage/models.js'
import type { ServiceContext } from '../context.js'
import type { WantedExport } from './exporter.js'

/**
 * The request of an export; null when the stored files are what is wanted.
 *
 * @param wanted.checkpoint null for step 0
 * @throws {InvalidRequestError} `base_model_not_served`; `invalid_value` for a precision of PEFT files
 */
export async function exportRequest(
  context: Pick<ServiceContext, 'baseModels' | 'blobs'>,
  wanted: {
    readonly model: ModelRecord
    readonly checkpoint: CheckpointRecord | null
    readonly query: CheckpointFilesQuery
  },
): Promise<WantedExport | null> {
  const { model, checkpoint, query } = wanted
  const { format = 'peft', precision = null } = query
  if (format === 'peft' && precision !== null) {
    throw new InvalidRequestError('invalid_value', 'precision must be left out with format "peft", which is float32', {
      param: 'precision',
    })
  }
  if (format === 'peft' && checkpoint !== null) return null
  const base = context.baseModels.find((entry) => entry.name === model.baseModel)
  if (base === undefined) {
    throw new InvalidRequestError(
      'base_model_not_served',
      `format "${format}" needs the weights of base model "${model.baseModel}", which this server does not have now`,
      { hint: 'start the server with --base-model and that model' },
    )
  }
  const step = checkpoint?.step ?? 0
  return {
    format,
    storage: precision,
    sourcePath: base.sourcePath,
    baseModel: base.name,
    modelName: `${model.name} step ${step}`,
    fileStem: `${model.name.replace(/[^\w.-]/g, '_').replace(/^\.+/, '_')}-step${step}`,
    adapter:
      checkpoint === null
        ? null
        : {
            checkpoint: checkpointTitle(model.name, checkpoint.step),
            files: await toLocalFiles(
              context.blobs,
              checkpointTitle(model.name, checkpoint.step),
              checkpoint.files.filter(({ name }) => !name.startsWith('optimizer')),
            ),
          },
  }
}
