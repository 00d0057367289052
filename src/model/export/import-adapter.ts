/**
 * An adapter from elsewhere as one of ours: checked against the base model and written in one form.
 *
 * That form adapts every projection, because training does: where the given adapter has none, A is fresh and B zero, which
 * changes nothing. Values become float32; rsLoRA's scale, alpha / sqrt(rank), becomes an alpha of plain LoRA.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { WeightsError } from '#base/errors.js'
import type { JsonObject } from '#base/util/json.js'
import { adapterModules } from '#model/architectures/decoder-config.js'
import { decoderConfigOf } from '#model/architectures/registry.js'
import {
  ADAPTER_CONFIG_FILE,
  ADAPTER_WEIGHTS_FILE,
  type AdapterWeights,
  checkAdapterFits,
  createAdapter,
  decodeAdapter,
  encodeAdapter,
} from '#model/weights/adapter.js'
import { openWeights } from '#model/weights/base-weights.js'
import { decodeUtf8 } from '#model/weights/byte-file.js'
import { parseStrictJsonObject } from '#model/weights/strict-json.js'
import type { ImportedAdapter, ImportRequest } from './protocol.js'

const MAX_FILE_BYTES = 2 ** 31

/**
 * Reads the adapter, checks it and writes both files to `request.targets`.
 *
 * @throws {WeightsError} `invalid_adapter`, `unsupported_adapter`, `non_finite_weights`, each naming the tensor or setting
 */
export async function importAdapter(request: ImportRequest): Promise<ImportedAdapter> {
  const [config, weights] = [await readFile(request.configPath), await readFile(request.weightsPath)]
  if (weights.length > MAX_FILE_BYTES) {
    throw new WeightsError('invalid_adapter', `adapter has ${weights.length} bytes, expected at most ${MAX_FILE_BYTES}`)
  }
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
