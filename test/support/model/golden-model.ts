/**
 * Prepares a model of formula weights (see `decoder-goldens.ts`) the way a real one is prepared, so that graphs can run it.
 */
import { join } from 'node:path'
import type { DecoderConfig } from '#model/architectures/decoder-config.js'
import type { PreparedModel } from '#model/architectures/prepare.js'
import { preparedFloat32 } from '#model/architectures/prepared-tensors.js'
import { TensorFileWriter } from '#model/architectures/tensor-file.js'
import type { WeightSource } from '#model/weights/weight-source.js'
import { formulaWeights } from './decoder-goldens.js'

/**
 * Writes the float32 tensors of `config` into `directory`.
 *
 * @param weights default: the formula's
 */
export async function prepareFormulaModel(
  config: DecoderConfig,
  directory: string,
  weights = formulaWeights(config),
): Promise<PreparedModel> {
  const find = (name: string) => {
    const tensor = weights.get(name)
    if (tensor === undefined) throw new Error(`no weight "${name}"`)
    return tensor
  }
  const source: WeightSource = {
    kind: 'huggingface',
    path: directory,
    hfConfig: null,
    ggufMetadata: null,
    ropeFrequencyDivisors: null,
    tensorNames: [...weights.keys()],
    hasOwnHead: false,
    isTextPart: false,
    hasUnreadShards: false,
    tensorStorage: () => 'F32',
    tensorShape: (name) => find(name).shape,
    readFloat32: async (name) => find(name).data,
    checkValues: async () => undefined,
    digest: async () => 'formula',
    close: async () => {},
  }
  const file = join(directory, 'weights-f32.bin')
  const writer = await TensorFileWriter.create(file)
  await preparedFloat32(source, config, writer)
  const { tensors } = await writer.finish()
  const byName = new Map(tensors.map(({ name, ...tensor }) => [name, { ...tensor, file }]))
  return { directory, digest: 'formula', config, tensors: () => byName }
}
