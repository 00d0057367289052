/**
 * LoRA adapters in the layout of the PEFT library: `adapter_config.json` and `adapter_model.safetensors`.
 *
 * The layer computes y = x W^T + scale * (x A^T) B^T, with rank and scale of the module (`adapter-config.ts`). What comes from elsewhere
 * is read by whoever takes adapters of other programs in.
 * Source: https://huggingface.co/docs/peft, "LoRA" and "Checkpoint format"; LoRA is arXiv:2106.09685.
 */
import { join } from 'node:path'
import { WeightsError } from '#base/errors/errors.js'
import { copyOf, type FileContent, sizeOf } from '#base/util/file-content.js'
import { createRng } from '#base/util/rng.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import { ADAPTER_CONFIG_FILE, ADAPTER_WEIGHTS_FILE, checkpointCorrupt } from '../../formats/checkpoint-manifest.js'
import { checkAdaptedModules } from './adapted-modules.js'
import {
  type AdapterConfig,
  type AdapterForm,
  isAdapted,
  parsePeftConfig,
  peftConfig,
  rankOf,
  scaleOf,
} from './adapter-config.js'
import { decodeUtf8, openByteFile, readTextFile } from './byte-file.js'
import { decodeSafetensors, encodeSafetensors, toFloat32, writeFlushed } from './safetensors.js'
import { parseStrictJsonObject } from './strict-json.js'
import { assertFinite } from './weight-source.js'

/** Largest configuration read, bytes: PEFT writes some hundred. */
export const MAX_CONFIG_BYTES = 1_000_000
/** Largest header of an adapter's weights, bytes: 200 for each of its tensors, of which the largest models have some thousand. */
export const MAX_ADAPTER_HEADER_BYTES = 2_000_000
/**
 * The largest number of half precision, which models are trained and merged in. A value or a change of a weight beyond it can be
 * finite here and makes every answer NaN a few products later.
 */
const MAX_VALUE = 65_504
const KEY_PREFIX = 'base_model.model.'
const TENSOR_KEY = /^base_model\.model\.(.+)\.lora_([AB])\.weight$/

/** An adapter in memory, keyed by module path (`model.layers.0.self_attn.q_proj`). */
export interface AdapterWeights {
  readonly config: AdapterConfig
  /** [R, in] each. */
  readonly a: ReadonlyMap<string, Float32Array>
  /** [out, R] each. */
  readonly b: ReadonlyMap<string, Float32Array>
}

/** A linear module that can be adapted; its weight is [outputSize, inputSize]. */
export interface AdapterModule {
  readonly path: string
  readonly outputSize: number
  readonly inputSize: number
}

/** An adapter's two files as bytes. */
export type AdapterFiles = ReadonlyMap<string, Uint8Array>

/**
 * A fresh adapter that changes nothing: A uniform in ±1/sqrt(in) (Kaiming uniform with a = sqrt 5, as PEFT), B zero.
 *
 * Each module draws from its own stream, so its values do not depend on which other modules are adapted.
 *
 * @param modules those that `options.targets` names, and others, which are left out
 * @param options.seed same seed, same adapter, on every machine
 */
export function createAdapter(
  modules: readonly AdapterModule[],
  { seed, ...form }: AdapterForm & { readonly seed: string | number },
): AdapterWeights {
  const a = new Map<string, Float32Array>()
  const b = new Map<string, Float32Array>()
  for (const { path, outputSize, inputSize } of modules) {
    if (!isAdapted(form, path)) continue
    const rank = rankOf(form, path)
    const rng = createRng(`adapter ${seed} ${path}`)
    const bound = 1 / Math.sqrt(inputSize)
    a.set(
      path,
      Float32Array.from({ length: rank * inputSize }, () => (2 * rng.uniform() - 1) * bound),
    )
    b.set(path, new Float32Array(outputSize * rank))
  }
  return { config: { ...form, targets: targetsOf(a.keys()) }, a, b }
}

/**
 * Serializes an adapter; the same input gives the same bytes.
 *
 * @param options.baseModelName goes to `base_model_name_or_path`
 * @throws {WeightsError} `invalid_adapter` if A and B do not fit each other
 */
export function encodeAdapter(
  adapter: AdapterWeights,
  { baseModelName }: { readonly baseModelName: string },
): AdapterFiles {
  const tensors = new Map<string, HostTensor>()
  for (const [path, a] of adapter.a) {
    const rank = rankOf(adapter.config, path)
    const b = adapter.b.get(path)
    if (b === undefined || a.length % rank !== 0 || b.length % rank !== 0) {
      throw new WeightsError('invalid_adapter', `adapter has no matching A and B of rank ${rank} for "${path}"`)
    }
    tensors.set(`${KEY_PREFIX}${path}.lora_A.weight`, float32Tensor(a, [rank, a.length / rank]))
    tensors.set(`${KEY_PREFIX}${path}.lora_B.weight`, float32Tensor(b, [b.length / rank, rank]))
  }
  const config = `${JSON.stringify(peftConfig(adapter.config, baseModelName), null, 2)}\n`
  return new Map([
    [ADAPTER_CONFIG_FILE, new TextEncoder().encode(config)],
    [ADAPTER_WEIGHTS_FILE, encodeSafetensors(tensors, { format: 'pt' })],
  ])
}

/**
 * Parses an adapter's files.
 *
 * @throws {WeightsError} `invalid_adapter`, `unsupported_adapter`, `non_finite_weights`, and what safetensors throws
 */
export function decodeAdapter(files: ReadonlyMap<string, FileContent>): AdapterWeights {
  const configBytes = files.get(ADAPTER_CONFIG_FILE)
  const weightBytes = files.get(ADAPTER_WEIGHTS_FILE)
  if (configBytes === undefined || weightBytes === undefined) {
    throw new WeightsError('invalid_adapter', `adapter needs ${ADAPTER_CONFIG_FILE} and ${ADAPTER_WEIGHTS_FILE}`)
  }
  const configSizeBytes = sizeOf(configBytes)
  if (configSizeBytes > MAX_CONFIG_BYTES) {
    throw invalid(`has ${ADAPTER_CONFIG_FILE} of ${configSizeBytes} bytes, expected at most ${MAX_CONFIG_BYTES}`)
  }
  const json = parseStrictJsonObject(decodeUtf8(copyOf(configBytes), ADAPTER_CONFIG_FILE), ADAPTER_CONFIG_FILE)
  const form = parsePeftConfig(json)
  const a = new Map<string, Float32Array>()
  const b = new Map<string, Float32Array>()
  const { tensors } = decodeSafetensors(weightBytes, ADAPTER_WEIGHTS_FILE, MAX_ADAPTER_HEADER_BYTES)
  for (const [key, tensor] of tensors) {
    const match = TENSOR_KEY.exec(key)
    if (match?.[1] === undefined) {
      throw invalid(
        `has the unknown tensor "${key}", expected names as ${KEY_PREFIX}model.layers.0.self_attn.q_proj.lora_A.weight`,
      )
    }
    const isA = match[2] === 'A'
    const rank = rankOf(form, match[1])
    if (tensor.shape.length !== 2 || tensor.shape[isA ? 0 : 1] !== rank) {
      throw invalid(`has "${key}" of shape [${tensor.shape.join(', ')}], expected rank ${rank}`)
    }
    const target = isA ? a : b
    target.set(match[1], assertFinite(toFloat32(tensor, key), key))
  }
  for (const path of a.keys()) if (!b.has(path)) throw invalid(`has lora_A but no lora_B for "${path}"`)
  for (const path of b.keys()) if (!a.has(path)) throw invalid(`has lora_B but no lora_A for "${path}"`)
  if (a.size === 0) throw invalid('has no tensors')
  checkAdaptedModules(
    json,
    Array.from(a.keys(), (path) => ({ given: path, path })),
  )
  return { config: { ...form, targets: targetsOf(a.keys()) }, a, b }
}

/**
 * The adapter among a stored checkpoint's files, which were checked against its manifest.
 *
 * @param modules as of `checkAdapterFits`
 * @throws {CheckpointError} `checkpoint_corrupt`: with the right digests it is what this server stored, and no request's fault
 */
export function decodeStoredAdapter(
  checkpoint: string,
  files: ReadonlyMap<string, FileContent>,
  modules: readonly AdapterModule[],
): AdapterWeights {
  try {
    const adapter = decodeAdapter(files)
    checkAdapterFits(adapter, modules)
    return adapter
  } catch (cause) {
    const reason = cause instanceof WeightsError ? cause.message : 'its adapter cannot be read'
    throw checkpointCorrupt(checkpoint, reason, cause)
  }
}

/**
 * Checks that an adapter belongs to a base model.
 *
 * @param modules everything that can be adapted there, see `adapterModules` in `model/architectures/decoder-config.ts`
 * @throws {WeightsError} `invalid_adapter` naming the module that is unknown or of another size
 */
export function checkAdapterFits({ config, a, b }: AdapterWeights, modules: readonly AdapterModule[]): void {
  const known = new Map(modules.map((module) => [module.path, module]))
  for (const path of a.keys()) {
    const module = known.get(path)
    if (module === undefined) {
      const names = [...new Set(modules.map((each) => each.path.slice(each.path.lastIndexOf('.') + 1)))].join(', ')
      throw invalid(`adapts "${path}", expected a projection of one of the base model's layers: ${names}`)
    }
    const rank = rankOf(config, path)
    const inputSize = (a.get(path)?.length ?? 0) / rank
    const outputSize = (b.get(path)?.length ?? 0) / rank
    if (inputSize !== module.inputSize || outputSize !== module.outputSize) {
      const expected = `[${module.outputSize}, ${module.inputSize}]`
      throw invalid(`adapts "${path}" as [${outputSize}, ${inputSize}], expected ${expected}`)
    }
  }
}

/**
 * Checks that a model can be computed with an adapter from elsewhere. What training made here may go beyond it: a job that asks for a
 * strange alpha has seen its losses.
 *
 * @throws {WeightsError} `invalid_adapter` naming the module and the number
 */
export function checkAdapterValues({ config, a, b }: AdapterWeights): void {
  for (const [path, aValues] of a) {
    const rank = rankOf(config, path)
    const scale = Math.abs(scaleOf(config, path))
    if (scale > MAX_VALUE) {
      const most = (MAX_VALUE * Math.abs(config.alpha)) / scale
      throw invalid(`has lora_alpha ${config.alpha} with r ${rank}, expected at most ${most}`)
    }
    const bValues = b.get(path) ?? new Float32Array()
    const [largestA, largestB] = [largestOf(aValues), largestOf(bValues)]
    for (const [side, largest] of [
      ['A', largestA],
      ['B', largestB],
    ] as const) {
      if (largest <= MAX_VALUE) continue
      throw invalid(
        `has values up to ${shortNumber(largest)} in "${path}.lora_${side}.weight", expected at most ${MAX_VALUE}`,
      )
    }
    // at most this much, by the largest values alone; the products themselves only where that may be too much
    if (scale * rank * largestA * largestB <= MAX_VALUE) continue
    const change = largestChange(aValues, bValues, rank) * scale
    if (change <= MAX_VALUE) continue
    throw invalid(`changes weights of "${path}" by up to ${shortNumber(change)}, expected at most ${MAX_VALUE}`)
  }
}

function largestOf(values: Float32Array): number {
  let largest = 0
  for (const value of values) largest = Math.max(largest, Math.abs(value))
  return largest
}

/** A bound of |B A|'s largest element: for each row of B, with the largest value of each row of A. */
function largestChange(a: Float32Array, b: Float32Array, rank: number): number {
  const inputSize = a.length / rank
  const largestOfRow = Array.from({ length: rank }, (_, r) => largestOf(a.subarray(r * inputSize, (r + 1) * inputSize)))
  let largest = 0
  for (let row = 0; row < b.length; row += rank) {
    const sum = largestOfRow.reduce((total, value, r) => total + Math.abs(b[row + r] ?? 0) * value, 0)
    largest = Math.max(largest, sum)
  }
  return largest
}

function shortNumber(value: number): string {
  return String(Number(value.toPrecision(3)))
}

/** Writes both files into an existing directory and flushes them; see `encodeAdapter`. */
export async function writeAdapter(
  directory: string,
  adapter: AdapterWeights,
  options: { readonly baseModelName: string },
): Promise<void> {
  for (const [name, bytes] of encodeAdapter(adapter, options)) await writeFlushed(join(directory, name), bytes)
}

/** Reads an adapter from a directory in PEFT layout; see `decodeAdapter`. */
export async function readAdapter(directory: string): Promise<AdapterWeights> {
  const config = await readTextFile(join(directory, ADAPTER_CONFIG_FILE), MAX_CONFIG_BYTES)
  const file = await openByteFile(join(directory, ADAPTER_WEIGHTS_FILE))
  try {
    return decodeAdapter(
      new Map([
        [ADAPTER_CONFIG_FILE, new TextEncoder().encode(config)],
        [ADAPTER_WEIGHTS_FILE, await file.read(0, file.sizeBytes)],
      ]),
    )
  } finally {
    await file.close()
  }
}

function targetsOf(paths: Iterable<string>): readonly string[] {
  return [...new Set([...paths].map((path) => path.slice(path.lastIndexOf('.') + 1)))].sort()
}

function invalid(problem: string): WeightsError {
  return new WeightsError('invalid_adapter', `adapter ${problem}`)
}
