/**
 * Prepares a base model once: its weights as plain tensors in files that ONNX Runtime maps.
 *
 * Layout: `<preparedDir>/<digest>/weights-<precision>.bin` and `manifest-<precision>.json`, the manifest written last by
 * rename, so a directory without it was never finished and processes may race. Float32 is always written: training uses
 * it, and quantized serving takes norms, biases and embedding rows from it. Tensors start on page borders.
 */
import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { systemIds } from '#base/util/ids.js'
import { moveFile } from '#base/util/move-file.js'
import { openWeights } from '#model/weights/base-weights.js'
import type { WeightSource } from '#model/weights/weight-source.js'
import type { DType } from '#numerics/tensor/dtype.js'
import type { DecoderConfig } from './decoder-config.js'
import { preparedTrainingIntegers } from './integer/prepared-integers.js'
import { preparedFloat32, preparedInteger, preparedQuantized } from './prepared-tensors.js'
import { checkDecoderTensors, decoderConfigOf } from './registry.js'
import { type PreparedTensor, TensorFileWriter } from './tensor-file.js'

export type Precision = 'f32' | 'int8' | 'int4'

/** What files exist for: `int8-integer` is int8 for integer products, which needs a calibration, `int8-training` is for training and needs none. */
type StoredPrecision = Precision | 'int8-integer' | 'int8-training'

/** A prepared base model on disk. */
export interface PreparedModel {
  readonly directory: string
  /** Digest of the source's configuration and weights. */
  readonly digest: string
  readonly config: DecoderConfig
  /**
   * The tensors of a precision by canonical name; quantized ones come as `<name>.quantized` and `<name>.scales`, the
   * rest of a quantized precision is float32.
   *
   * @throws {Error} if the precision was not prepared
   */
  tensors(precision: Precision): ReadonlyMap<string, PreparedTensor>
}

/** Manifests of another version are prepared again. */
const FORMAT_VERSION = 2

interface Manifest {
  readonly version: number
  readonly digest: string
  readonly config: DecoderConfig
  readonly sizeBytes: number
  readonly tensors: readonly (Omit<PreparedTensor, 'file'> & { readonly name: string })[]
}

/**
 * Makes sure a base model is prepared in the given precisions; does nothing when it is.
 *
 * @param sourcePath Hugging Face directory or GGUF file
 * @param preparedDir shared by all processes of a data directory
 * @param precisions wanted for serving; float32 is always included
 * @throws {WeightsError} if the source cannot be read or does not fit its configuration
 */
export async function prepareBaseModel(
  sourcePath: string,
  preparedDir: string,
  precisions: readonly Precision[],
): Promise<PreparedModel> {
  const source = await openWeights(sourcePath)
  try {
    const digest = await source.digest()
    const directory = join(preparedDir, digest)
    await mkdir(directory, { recursive: true })
    const config = decoderConfigOf(source)
    const manifests = new Map<Precision, Manifest>()
    for (const precision of new Set<Precision>(['f32', ...precisions])) {
      const present = await readManifest(directory, precision, config)
      manifests.set(precision, present ?? (await prepare(source, { directory, digest, precision, config })))
    }
    return toPreparedModel(directory, digest, manifests)
  } finally {
    await source.close()
  }
}

async function prepare(
  source: WeightSource,
  target: { directory: string; digest: string; precision: Precision; config: DecoderConfig },
): Promise<Manifest> {
  const { config } = target
  // Checked before the first byte is written: a tensor that is missing, left over or of another shape would silently change the model.
  checkDecoderTensors(source, config)
  return await writeTensors(target, async (writer) => {
    if (target.precision === 'f32') await preparedFloat32(source, config, writer)
    else await preparedQuantized(source, config, { writer, bits: target.precision === 'int8' ? 8 : 4 })
  })
}

async function writeTensors(
  target: { directory: string; digest: string; precision: StoredPrecision; config: DecoderConfig },
  write: (writer: TensorFileWriter) => Promise<void>,
): Promise<Manifest> {
  const suffix = `.${systemIds.uuid()}.tmp`
  const path = join(target.directory, weightsFile(target.precision))
  const writer = await TensorFileWriter.create(path + suffix)
  try {
    await write(writer)
    const { sizeBytes, tensors } = await writer.finish()
    const manifest = { version: FORMAT_VERSION, digest: target.digest, config: target.config, sizeBytes, tensors }
    await moveFile(path + suffix, path)
    const manifestPath = join(target.directory, manifestFile(target.precision))
    await writeFile(manifestPath + suffix, JSON.stringify(manifest))
    await moveFile(manifestPath + suffix, manifestPath)
    return manifest
  } catch (error) {
    await writer.abandon()
    await rm(path + suffix, { force: true })
    throw error
  }
}

/** The manifest if it exists, has this version, says the same of the model as is read now, and its weights file is complete. */
async function readManifest(
  directory: string,
  precision: StoredPrecision,
  config: DecoderConfig,
): Promise<Manifest | null> {
  try {
    const manifest = JSON.parse(await readFile(join(directory, manifestFile(precision)), 'utf8')) as Manifest
    const { size } = await stat(join(directory, weightsFile(precision)))
    // one of an earlier release may have understood the same files in another way
    const isSame = manifest.version === FORMAT_VERSION && JSON.stringify(manifest.config) === JSON.stringify(config)
    return isSame && manifest.sizeBytes === size ? manifest : null
  } catch (error) {
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

/**
 * A prepared model whose int8 is that of integer products (`integer-linear.ts`): `<name>.integer`, `<name>.output_scales` and
 * `<name>.inverse_smoothing` for every linear layer. Written on first use.
 *
 * @param inputMaxima measures the largest magnitude of each input channel, by the layer's name; called when nothing is prepared
 */
export async function prepareIntegerProducts(
  prepared: PreparedModel,
  inputMaxima: () => Promise<ReadonlyMap<string, Float32Array>>,
): Promise<PreparedModel> {
  const { directory, digest, config } = prepared
  const precision = 'int8-integer'
  let manifest = await readManifest(directory, precision, config)
  if (manifest === null) {
    const maxima = await inputMaxima()
    manifest = await writeTensors({ directory, digest, precision, config }, async (writer) => {
      await preparedInteger(prepared.tensors('f32'), { config, maxima, writer })
    })
  }
  const file = join(directory, weightsFile(precision))
  const own = manifest.tensors.map(({ name, ...tensor }): [string, PreparedTensor] => [name, { ...tensor, file }])
  const tensors = new Map([...prepared.tensors('f32'), ...own])
  return { ...prepared, tensors: (wanted) => (wanted === 'int8' ? tensors : prepared.tensors(wanted)) }
}

/**
 * The frozen layers of training as integers (`frozen-integer.ts`), by canonical name, gate and up apart: `<name>.integer`,
 * `<name>.integer_transposed` and `<name>.output_scales`. Written on first use.
 */
export async function prepareTrainingIntegers(prepared: PreparedModel): Promise<ReadonlyMap<string, PreparedTensor>> {
  const { directory, digest, config } = prepared
  const precision = 'int8-training'
  const manifest =
    (await readManifest(directory, precision, config)) ??
    (await writeTensors({ directory, digest, precision, config }, async (writer) => {
      await preparedTrainingIntegers(prepared.tensors('f32'), { config, writer })
    }))
  const file = join(directory, weightsFile(precision))
  return new Map(manifest.tensors.map(({ name, ...tensor }) => [name, { ...tensor, file }]))
}

function toPreparedModel(
  directory: string,
  digest: string,
  manifests: ReadonlyMap<Precision, Manifest>,
): PreparedModel {
  const tensorsOf = (precision: Precision): Map<string, PreparedTensor> => {
    const manifest = manifests.get(precision)
    if (manifest === undefined) throw new Error(`precision "${precision}" was not prepared in ${directory}`)
    const file = join(directory, weightsFile(precision))
    const entries = manifest.tensors.map(({ name, ...tensor }): [string, PreparedTensor] => [
      name,
      { ...tensor, dtype: tensor.dtype as DType, file },
    ])
    return new Map(entries)
  }
  const config = manifests.get('f32')?.config
  if (config === undefined) throw new Error('float32 is always prepared')
  return {
    directory,
    digest,
    config,
    tensors: (precision) =>
      precision === 'f32' ? tensorsOf('f32') : new Map([...tensorsOf('f32'), ...tensorsOf(precision)]),
  }
}

function weightsFile(precision: StoredPrecision): string {
  return `weights-${precision}.bin`
}

function manifestFile(precision: StoredPrecision): string {
  return precision === 'f32' ? 'manifest.json' : `manifest-${precision}.json`
}
