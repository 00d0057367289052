/**
 * Base models as Hugging Face directories: `config.json` plus safetensors, in one file or in shards.
 *
 * Pickle files are never opened: loading one can run code. File names in a shard index are plain names inside the
 * directory, never paths.
 */

import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { WeightsError } from '#base/errors/errors.js'
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import { elementCount } from '#numerics/tensor/host-tensor.js'
import { digestParts, readTextFile } from './byte-file.js'
import { checkValues } from './check-values.js'
import { applyScale, type Float8Scale, isBesideFloat8, layScale, scaleNameOf } from './float8.js'
import { unwrappedName } from './given/tensor-names.js'
import { openSafetensors, type SafetensorsFile } from './safetensors.js'
import type { SafetensorsEntry } from './safetensors-header.js'
import { parseStrictJsonObject } from './strict-json.js'
import { textPartOf, textTensorName } from './text-part.js'
import { assertFinite, type WeightSource } from './weight-source.js'

const MAX_CONFIG_BYTES = 10_000_000
/** Of 100,000 tensors it has some 10 MB; the tightest JSON of this size becomes 0.5 GB of objects. */
const MAX_INDEX_BYTES = 25_000_000
const MAX_SHARDS = 10_000
const SINGLE_FILE = 'model.safetensors'
const INDEX_FILE = 'model.safetensors.index.json'
/** Endings of files that hold Python pickles, mostly inside a zip. */
const PICKLE_FILE = /\.(bin|pt|pth|ckpt|pkl|pickle)$/i

/** Whether a file name is that of a pickle. */
export function isPickleName(name: string): boolean {
  return PICKLE_FILE.test(name)
}

/** The error for pickle files. */
export function pickleError(path: string): WeightsError {
  return new WeightsError('pickle_refused', `"${path}" is a pickle file, which can run code when it is loaded`, {
    hint: 'convert the model to safetensors, for example with save_pretrained(..., safe_serialization=True)',
  })
}

/**
 * Opens a directory with `config.json` and safetensors weights; headers of all shards are checked at once. Of a model for images and
 * text the text part is opened, under the names that it has alone.
 *
 * @throws {WeightsError} `pickle_refused` if only pickle weights exist; `invalid_index` for a shard index that names
 *   paths, missing files or missing tensors; and everything `openSafetensors` throws
 */
export async function openHfDirectory(path: string): Promise<WeightSource> {
  const names = await readdir(path)
  if (!names.includes('config.json')) {
    throw new WeightsError('file_not_found', `model directory "${path}" has no config.json`, { hint: whatElse(names) })
  }
  const configText = await readTextFile(join(path, 'config.json'), MAX_CONFIG_BYTES)
  const config = parseStrictJsonObject(configText, `"${join(path, 'config.json')}"`)
  const hfConfig = textPartOf(config)
  const { files, placement } = await openShards(path, names)
  const unwrapped = await withoutWrappers(path, placement).catch(async (error: unknown) => {
    await closeAll(files)
    throw error
  })
  const named = hfConfig === config ? toHfNames(unwrapped) : toTextNames(unwrapped)
  const located = withoutScales(named)
  const locate = (name: string): Location => {
    const location = located.get(name)
    if (location === undefined) throw new WeightsError('tensor_not_found', `model "${path}" has no tensor "${name}"`)
    return location
  }
  const scaleOf = (name: string): Promise<Float8Scale | null> => readScale(name, named, hfConfig)
  const [head, embedding] = [located.get('lm_head.weight'), located.get('model.embed_tokens.weight')]
  const isComparable = head !== undefined && embedding !== undefined && hfConfig['tie_word_embeddings'] !== false
  const hasOwnHead = isComparable ? await differ(head, embedding, files) : head !== undefined
  return {
    kind: 'huggingface',
    path,
    hfConfig,
    ggufMetadata: null,
    ropeFrequencyDivisors: null,
    hasOwnHead,
    isTextPart: hfConfig !== config,
    hasUnreadShards: names.includes(SINGLE_FILE) && names.includes(INDEX_FILE),
    tensorNames: [...located.keys()],
    tensorStorage: (name) => entryOf(locate(name)).dtype,
    tensorShape: (name) => entryOf(locate(name)).shape,
    readFloat32: async (name) => {
      const { file, storedName } = locate(name)
      const [values, scale] = [await file.readFloat32(storedName), await scaleOf(name)]
      return assertFinite(scale === null ? values : applyScale(values, scale), name)
    },
    async checkValues() {
      for (const [name, { file, storedName }] of located) {
        const { shape } = entryOf({ file, storedName })
        const scale = await scaleOf(name)
        await checkValues(name, elementCount(shape), async (start, count) => {
          const values = await file.readPart(storedName, start, count)
          return scale === null ? values : applyScale(values, scale, start)
        })
      }
    },
    digest: () => digestParts(['huggingface', configText, ...files.map(({ file }) => file)]),
    close: () => closeAll(files),
  }
}

/** What to do with a directory that is no model itself. */
function whatElse(names: readonly string[]): string | undefined {
  if (names.includes('adapter_config.json')) {
    return 'it holds an adapter alone: trainyard base-models add <folder> --base-model <base model> merges it'
  }
  if (names.includes('snapshots')) {
    return "it is a model's folder in the hub's cache: give the folder below snapshots/, for example snapshots/$(cat refs/main)"
  }
  const gguf = names.find((name) => /\.gguf$/i.test(name) && !/mmproj/i.test(name))
  return gguf === undefined ? undefined : `give the GGUF file itself, for example "${gguf}"`
}

interface Location {
  readonly file: SafetensorsFile
  readonly storedName: string
}

interface Shards {
  /** In the order of their names. */
  readonly files: readonly SafetensorsFile[]
  readonly placement: ReadonlyMap<string, Location>
}

async function openShards(path: string, names: readonly string[]): Promise<Shards> {
  // transformers looks for the whole file first
  if (names.includes(SINGLE_FILE)) {
    const file = await openSafetensors(join(path, SINGLE_FILE))
    const placement = new Map([...file.entries.keys()].map((name) => [name, { file, storedName: name }]))
    return { files: [file], placement }
  }
  if (names.includes(INDEX_FILE)) return openIndexed(path, names)
  const pickle = names.find(isPickleName)
  if (pickle !== undefined) throw pickleError(join(path, pickle))
  throw new WeightsError('file_not_found', `model directory "${path}" has neither ${SINGLE_FILE} nor ${INDEX_FILE}`)
}

async function openIndexed(path: string, names: readonly string[]): Promise<Shards> {
  const indexPath = join(path, INDEX_FILE)
  const weightMap = parseIndex(await readTextFile(indexPath, MAX_INDEX_BYTES), indexPath)
  const shardNames = [...new Set(weightMap.values())].sort()
  if (shardNames.length > MAX_SHARDS) throw invalidIndex(indexPath, `names ${shardNames.length} files`)
  for (const shardName of shardNames) {
    if (!names.includes(shardName)) throw invalidIndex(indexPath, `names "${shardName}", which is not in the directory`)
  }
  const files = new Map<string, SafetensorsFile>()
  try {
    for (const shardName of shardNames) files.set(shardName, await openSafetensors(join(path, shardName)))
    const placement = new Map<string, Location>()
    for (const [tensorName, shardName] of weightMap) {
      const file = files.get(shardName)
      if (file === undefined || !file.entries.has(tensorName)) {
        throw invalidIndex(indexPath, `places tensor "${tensorName}" in "${shardName}", which does not have it`)
      }
      placement.set(tensorName, { file, storedName: tensorName })
    }
    return { files: [...files.values()], placement }
  } catch (error) {
    await closeAll([...files.values()])
    throw error
  }
}

function parseIndex(text: string, indexPath: string): ReadonlyMap<string, string> {
  const { weight_map: weightMap } = parseStrictJsonObject(text, `"${indexPath}"`)
  if (!isJsonObject(weightMap)) throw invalidIndex(indexPath, 'has no object "weight_map"')
  const shardOf = new Map<string, string>()
  for (const [tensorName, shardName] of Object.entries(weightMap)) {
    if (typeof shardName !== 'string') throw invalidIndex(indexPath, `places tensor "${tensorName}" in no file name`)
    if (isPickleName(shardName)) throw pickleError(shardName)
    if (!/^[\w.-]+\.safetensors$/.test(shardName)) {
      throw invalidIndex(indexPath, `names the file "${shardName}", expected a plain name ending in .safetensors`)
    }
    shardOf.set(tensorName, shardName)
  }
  return shardOf
}

/** Of a layer that an adapter still wraps. */
const UNMERGED = /\.base_layer\.|\.lora_[AB]\./

/** Names as they are in the model itself, when it was saved with what wrapped it in training. */
async function withoutWrappers(
  path: string,
  placement: ReadonlyMap<string, Location>,
): Promise<ReadonlyMap<string, Location>> {
  const unmerged = [...placement.keys()].find((name) => UNMERGED.test(name))
  if (unmerged !== undefined) {
    throw new WeightsError(
      'unmerged_adapter',
      `model "${path}" has the tensor "${unmerged}": its adapter was not merged`,
      {
        hint: 'save it as PEFT does: model.merge_and_unload().save_pretrained(...), or the adapter alone by model.save_pretrained(...)',
      },
    )
  }
  const plain = new Map([...placement].map(([name, location]) => [unwrappedName(name), location]))
  if (plain.size === placement.size) return plain
  throw new WeightsError(
    'unexpected_tensor',
    `model "${path}" has tensors twice, with and without a prefix such as module.`,
  )
}

/** Checkpoints saved from the bare decoder lack the prefix `model.`; give it back. */
function toHfNames(placement: ReadonlyMap<string, Location>): ReadonlyMap<string, Location> {
  if (!placement.has('embed_tokens.weight')) return placement
  return new Map(
    [...placement].map(([name, location]) => [name.startsWith('lm_head.') ? name : `model.${name}`, location]),
  )
}

/** The model's own tensors: scales of weights of eight bits are read with what they scale. */
function withoutScales(named: ReadonlyMap<string, Location>): ReadonlyMap<string, Location> {
  const isFloat8 = (name: string): boolean => isFloat8At(named.get(name))
  return new Map([...named].filter(([name]) => !isBesideFloat8(name, isFloat8)))
}

/** @throws {WeightsError} `invalid_scale`, and as `readFloat32` */
async function readScale(
  name: string,
  named: ReadonlyMap<string, Location>,
  config: JsonObject,
): Promise<Float8Scale | null> {
  const location = named.get(name)
  if (location === undefined || !isFloat8At(location)) return null
  const scale = named.get(scaleNameOf(name, (each) => named.has(each)) ?? '')
  if (scale === undefined) return null
  const values = await scale.file.readFloat32(scale.storedName)
  return layScale({ name, shape: entryOf(location).shape }, { shape: entryOf(scale).shape, values }, config)
}

function isFloat8At(location: Location | undefined): boolean {
  return location !== undefined && entryOf(location).dtype === 'float8_e4m3fn'
}

/** Bytes compared at a time. */
const COMPARED_BYTES = 4 * 1024 ** 2

/** Whether two tensors hold other values; those that differ mostly do so in their first bytes. */
async function differ(a: Location, b: Location, opened: readonly SafetensorsFile[]): Promise<boolean> {
  const [entryA, entryB] = [entryOf(a), entryOf(b)]
  if (entryA.dtype !== entryB.dtype || entryA.sizeBytes !== entryB.sizeBytes) return true
  try {
    for (let start = 0; start < entryA.sizeBytes; start += COMPARED_BYTES) {
      const length = Math.min(COMPARED_BYTES, entryA.sizeBytes - start)
      const partA = await a.file.file.read(entryA.offsetBytes + start, length)
      const partB = await b.file.file.read(entryB.offsetBytes + start, length)
      if (Buffer.compare(partA, partB) !== 0) return true
    }
    return false
  } catch (error) {
    await closeAll(opened)
    throw error
  }
}

/** The tensors of the text part, named as if there were nothing else. */
function toTextNames(placement: ReadonlyMap<string, Location>): ReadonlyMap<string, Location> {
  const renamed = [...placement].map(([name, location]): [string | null, Location] => [textTensorName(name), location])
  return new Map(renamed.filter((entry): entry is [string, Location] => entry[0] !== null))
}

function entryOf({ file, storedName }: Location): SafetensorsEntry {
  const entry = file.entries.get(storedName)
  if (entry === undefined) throw new WeightsError('tensor_not_found', `"${file.path}" has no tensor "${storedName}"`)
  return entry
}

async function closeAll(files: readonly SafetensorsFile[]): Promise<void> {
  await Promise.all(files.map((file) => file.close()))
}

function invalidIndex(indexPath: string, problem: string): WeightsError {
  return new WeightsError('invalid_index', `shard index "${indexPath}" ${problem}`)
}
