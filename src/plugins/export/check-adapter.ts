/**
 * An adapter of ours as a worker made it: the files of a checkpoint, checked against the base model before they become one.
 *
 * A worker may be a stranger's, and what it uploads is read by the engine of all. So the files are held to the form in which this
 * service writes adapters, and nothing of them is read that is larger than that form: names, ranks, shapes, element type, finite
 * values.
 */
import { WeightsError } from '#base/errors/errors.js'
import { ADAPTER_CONFIG_FILE, ADAPTER_WEIGHTS_FILE } from '#formats/checkpoint-manifest.js'
import { adapterModules } from '#model/architectures/decoder-config.js'
import { decoderConfigOf } from '#model/architectures/registry.js'
import {
  type AdapterModule,
  checkAdapterFits,
  decodeAdapter,
  MAX_ADAPTER_HEADER_BYTES,
  MAX_CONFIG_BYTES,
} from '#model/weights/adapter.js'
import { type AdapterForm, parsePeftConfig, rankOf } from '#model/weights/adapter-config.js'
import { openWeights } from '#model/weights/base-weights.js'
import { decodeUtf8 } from '#model/weights/byte-file.js'
import { HEADER_PREFIX_BYTES, parseHeader, parseHeaderLength } from '#model/weights/safetensors-header.js'
import { parseStrictJsonObject } from '#model/weights/strict-json.js'
import { readGiven } from './given-files.js'
import type { CheckRequest } from './requests.js'

const FLOAT_BYTES = 4

/**
 * Checks both files.
 *
 * @throws {WeightsError} naming the tensor, or the setting, and what was expected
 */
export async function checkAdapter({ sourcePath, configPath, weightsPath, rank }: CheckRequest): Promise<void> {
  const source = await openWeights(sourcePath)
  const modules = adapterModules(decoderConfigOf(source))
  await source.close()
  const configBytes = await readGiven(configPath, ADAPTER_CONFIG_FILE, MAX_CONFIG_BYTES)
  const config = parseStrictJsonObject(decodeUtf8(configBytes, ADAPTER_CONFIG_FILE), ADAPTER_CONFIG_FILE)
  const form = parsePeftConfig(config)
  if (rank !== null && form.rank !== rank) throw invalid(`has r ${form.rank}, expected ${rank} as the job has it`)
  const covered = coveredModules(config['target_modules'], modules)
  const dataBytes = covered.reduce((sum, module) => sum + sizeOf(form, module), 0)
  const most = HEADER_PREFIX_BYTES + MAX_ADAPTER_HEADER_BYTES + dataBytes
  const weights = await readGiven(weightsPath, ADAPTER_WEIGHTS_FILE, most)
  assertFloat32(weights)
  const adapter = decodeAdapter(
    new Map([
      [ADAPTER_CONFIG_FILE, configBytes],
      [ADAPTER_WEIGHTS_FILE, weights],
    ]),
  )
  checkAdapterFits(adapter, modules)
  const paths = new Set(covered.map(({ path }) => path))
  for (const path of adapter.a.keys()) {
    if (!paths.has(path)) throw invalid(`adapts "${path.slice(0, 200)}", which target_modules does not name`)
  }
  const missing = covered.find(({ path }) => !adapter.a.has(path))
  if (missing !== undefined) throw invalid(`has no tensors for "${missing.path}", which target_modules names`)
}

/** The modules that the configuration names, by their last name as this service writes them. */
function coveredModules(targets: unknown, modules: readonly AdapterModule[]): readonly AdapterModule[] {
  const known = new Set(modules.map(({ path }) => lastNameOf(path)))
  if (!Array.isArray(targets) || targets.length === 0 || targets.length > known.size) {
    throw invalid(`has target_modules that is no list of ${[...known].join(', ')}`)
  }
  const unknown = targets.find((name) => typeof name !== 'string' || !known.has(name))
  if (unknown !== undefined) {
    const shown = JSON.stringify(unknown).slice(0, 200)
    throw invalid(`has target_modules with ${shown}, expected names of ${[...known].join(', ')}`)
  }
  return modules.filter(({ path }) => targets.includes(lastNameOf(path)))
}

function sizeOf(form: AdapterForm, { path, inputSize, outputSize }: AdapterModule): number {
  return rankOf(form, path) * (inputSize + outputSize) * FLOAT_BYTES
}

function assertFloat32(weights: Uint8Array): void {
  const what = ADAPTER_WEIGHTS_FILE
  const length = parseHeaderLength(
    weights.subarray(0, HEADER_PREFIX_BYTES),
    weights.length,
    what,
    MAX_ADAPTER_HEADER_BYTES,
  )
  const header = weights.subarray(HEADER_PREFIX_BYTES, HEADER_PREFIX_BYTES + length)
  for (const [name, { dtype }] of parseHeader(header, weights.length, what).entries) {
    if (dtype !== 'float32') throw invalid(`stores "${name.slice(0, 200)}" as ${dtype}, expected float32`)
  }
}

const lastNameOf = (path: string): string => path.slice(path.lastIndexOf('.') + 1)

function invalid(problem: string): WeightsError {
  return new WeightsError('invalid_adapter', `adapter ${problem}`)
}
