/**
 * An adapter from elsewhere as one of ours: checked against the base model and written in one form.
 *
 * That form adapts every projection, because training does: where the given adapter has none, A is fresh and B zero, which
 * changes nothing. Values become float32; rsLoRA's scale, alpha / sqrt(rank), becomes an alpha of plain LoRA.
 */
import { writeFile } from 'node:fs/promises'
import { WeightsError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import { ADAPTER_CONFIG_FILE, ADAPTER_WEIGHTS_FILE } from '#formats/checkpoint-manifest.js'
import { adapterModules } from '#model/architectures/decoder-config.js'
import { decoderConfigOf } from '#model/architectures/registry.js'
import {
  type AdapterWeights,
  checkAdapterFits,
  checkAdapterValues,
  createAdapter,
  decodeAdapter,
  encodeAdapter,
  MAX_CONFIG_BYTES,
} from '#model/weights/adapter.js'
import { openWeights } from '#model/weights/base-weights.js'
import { decodeUtf8, openByteFile } from '#model/weights/byte-file.js'
import { parseStrictJsonObject } from '#model/weights/strict-json.js'
import type { ImportedAdapter, ImportRequest } from '../../contract/processes/export.js'

const MAX_WEIGHTS_BYTES = 2 ** 31

/**
 * Reads the adapter, checks it and writes both files to `request.targets`.
 *
 * @throws {WeightsError} `invalid_adapter`, `unsupported_adapter`, `non_finite_weights`, each naming the tensor or setting
 */
export async function importAdapter(request: ImportRequest): Promise<ImportedAdapter> {
  const config = await readGiven(request.configPath, ADAPTER_CONFIG_FILE, MAX_CONFIG_BYTES)
  const weights = await readGiven(request.weightsPath, ADAPTER_WEIGHTS_FILE, MAX_WEIGHTS_BYTES)
  const json = parseStrictJsonObject(decodeUtf8(config, ADAPTER_CONFIG_FILE), ADAPTER_CONFIG_FILE)
  const given = decodeAdapter(
    new Map<string, Uint8Array>([
      [ADAPTER_CONFIG_FILE, new TextEncoder().encode(JSON.stringify(withPlainScale(json)))],
      [ADAPTER_WEIGHTS_FILE, weights],
    ]),
  )
  const source = await openWeights(request.sourcePath)
  const modules = adapterModules(decoderConfigOf(source))
  await source.close()
  checkAdapterFits(given, modules)
  checkAdapterValues(given)
  const whole = onAllModules(given, modules)
  const files = encodeAdapter(whole, { baseModelName: request.baseModel })
  for (const [name, path] of Object.entries(request.targets)) {
    await writeFile(path, files.get(name) ?? new Uint8Array(0))
  }
  return {
    rank: whole.config.rank,
    alpha: whole.config.alpha,
    addedModules: modules.length - given.a.size,
    namedBaseModel: typeof json['base_model_name_or_path'] === 'string' ? json['base_model_name_or_path'] : null,
  }
}

/** A given file; messages name it as the client does, never where it lies here. */
async function readGiven(path: string, name: string, maxBytes: number): Promise<Uint8Array> {
  const file = await openByteFile(path)
  try {
    if (file.sizeBytes <= maxBytes) return await file.read(0, file.sizeBytes)
    throw new WeightsError('invalid_adapter', `${name} has ${file.sizeBytes} bytes, expected at most ${maxBytes}`)
  } finally {
    await file.close()
  }
}

function withPlainScale(json: JsonObject): JsonObject {
  const { use_rslora: isRankStabilized, r: rank, lora_alpha: alpha } = json
  if (isRankStabilized !== true || typeof rank !== 'number' || typeof alpha !== 'number') return json
  return { ...json, use_rslora: false, lora_alpha: alpha * Math.sqrt(rank) }
}

function onAllModules(given: AdapterWeights, modules: ReturnType<typeof adapterModules>): AdapterWeights {
  const missing = modules.filter(({ path }) => !given.a.has(path))
  if (missing.length === 0) return given
  const { rank, alpha } = given.config
  const fresh = createAdapter(missing, { rank, alpha, seed: 'import' })
  const part =
    (side: 'a' | 'b') =>
    (path: string): [string, Float32Array] => {
      const values = given[side].get(path) ?? fresh[side].get(path)
      if (values === undefined) throw new Error(`no adapter for "${path}"`)
      return [path, values]
    }
  const paths = modules.map(({ path }) => path)
  const targets = [...new Set([...given.config.targets, ...fresh.config.targets])].sort()
  return { config: { rank, alpha, targets }, a: new Map(paths.map(part('a'))), b: new Map(paths.map(part('b'))) }
}
