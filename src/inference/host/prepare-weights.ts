/**
 * The weights an engine host serves: prepared in the wanted precision, int8 in the kind that suits the machine.
 */
import { hasFastIntegerProducts, withIntegerProducts } from '#inference/engine/runner/integer-weights.js'
import { type Precision, type PreparedModel, prepareBaseModel } from '#model/architectures/prepare.js'
import type { TextModel } from '#model/text/text-model.js'
import type { Runtime } from '#numerics/runtime/runtime.js'
import { CALIBRATION_TEXT } from './calibration-text.js'
import type { LoadCommand } from './protocol.js'

/**
 * Makes sure the weights are prepared; takes seconds to minutes the first time.
 *
 * @throws {WeightsError} if the source cannot be read or does not fit its configuration
 */
export async function prepareWeights(
  command: LoadCommand,
  options: { readonly precision: Precision; readonly textModel: TextModel; readonly runtime: Runtime },
): Promise<PreparedModel> {
  const { sourcePath, preparedDir, threads } = command
  const { precision, textModel, runtime } = options
  if (precision !== 'int8' || !(await hasFastIntegerProducts(runtime, threads))) {
    return await prepareBaseModel(sourcePath, preparedDir, [precision])
  }
  const prepared = await prepareBaseModel(sourcePath, preparedDir, ['f32'])
  const calibrationIds = textModel.tokenizer.encode(CALIBRATION_TEXT)
  return await withIntegerProducts(prepared, { runtime, threads, calibrationIds })
}
