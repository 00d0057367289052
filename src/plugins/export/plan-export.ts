/**
 * What an export consists of: the files of a checkpoint in the form that other programs load.
 *
 *     merged        a Hugging Face directory, the adapter inside the weights: transformers, vLLM
 *     gguf          the same as one GGUF file, with a Modelfile: llama.cpp, LM Studio, Ollama
 *     gguf-adapter  the adapter alone as GGUF, with a Modelfile
 *     peft          the adapter as PEFT keeps it; only of step 0, whose adapter changes nothing, for other steps are stored so
 *
 * Nothing is written to disk. Weights are read when their file is read, one tensor at a time.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { WeightsError } from '#base/errors/errors.js'
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import { readCheckpoint, type StoredCheckpoint } from '#formats/checkpoint-manifest.js'
import { adapterModules, type DecoderConfig } from '#model/architectures/decoder-config.js'
import { checkDecoderTensors, decoderConfigOf, decoderTensorShapes } from '#model/architectures/registry.js'
import { loadTextModel, type TextModel } from '#model/text/text-model.js'
import {
  type AdapterModule,
  type AdapterWeights,
  createAdapter,
  decodeStoredAdapter,
  encodeAdapter,
} from '#model/weights/adapter.js'
import { openWeights } from '#model/weights/base-weights.js'
import { openByteFile } from '#model/weights/byte-file.js'
import { readGgufMetadata } from '#model/weights/gguf-metadata.js'
import { parseJsonText } from '#model/weights/strict-json.js'
import type { WeightSource } from '#model/weights/weight-source.js'
import { type ExportFile, wholeFile } from './export-file.js'
import type { FloatStorage } from './float-bytes.js'
import { ggufAdapterFile } from './gguf/gguf-adapter.js'
import { decoderEntries, generalEntries, ggufTensors, isNorm } from './gguf/gguf-description.js'
import { type GgufEntries, type GgufValue, ggufFile } from './gguf/gguf-file.js'
import { vocabularyEntries } from './gguf/gguf-vocabulary.js'
import { type DescriptionOptions, descriptionFiles } from './huggingface/description-files.js'
import { safetensorsFile } from './huggingface/safetensors-file.js'
import { type ExportTensor, mergedTensors } from './merged-tensors.js'
import { modelfile } from './modelfile.js'
import type { ExportRequest } from './requests.js'

/** Sizes of the adapter of step 0, which changes nothing: those a model is trained with unless told otherwise. */
const FRESH_ADAPTER = { rank: 8, alpha: 16, seed: 'step 0' }
const MODELFILE = 'Modelfile'

/** The files of an export. `close` when they have been read. */
export interface ExportPlan {
  readonly files: readonly ExportFile[]
  close(): Promise<void>
}

/**
 * Looks at base model and adapter and says what their export consists of.
 *
 * @throws {WeightsError} `unsupported_export`, and what opening the base model throws; {CheckpointError} `checkpoint_corrupt`
 */
export async function planExport(request: ExportRequest): Promise<ExportPlan> {
  const source = await openWeights(request.sourcePath)
  try {
    const config = decoderConfigOf(source)
    checkDecoderTensors(source, config)
    return { files: await filesOf(request, source, config), close: () => source.close() }
  } catch (error) {
    await source.close()
    throw error
  }
}

async function readStored(stored: StoredCheckpoint, modules: readonly AdapterModule[]): Promise<AdapterWeights> {
  return decodeStoredAdapter(stored.checkpoint, await readCheckpoint(stored), modules)
}

async function filesOf(
  request: ExportRequest,
  source: WeightSource,
  config: DecoderConfig,
): Promise<readonly ExportFile[]> {
  const stored = request.adapter === null ? null : await readStored(request.adapter, adapterModules(config))
  const fresh = (): AdapterWeights => createAdapter(adapterModules(config), FRESH_ADAPTER)
  if (request.format === 'peft') {
    const files = encodeAdapter(stored ?? fresh(), { baseModelName: request.baseModel })
    return [...files].map(([name, bytes]) => wholeFile(name, bytes))
  }
  const text = await loadTextModel(request.sourcePath)
  const storage = request.storage ?? defaultStorage(request.format, source)
  const fileName = `${request.fileStem}-${storage}.gguf`
  const ollama = (from: string, adapter: string | null): ExportFile =>
    wholeFile(MODELFILE, modelfile({ from, adapter, text, contextLength: config.contextLength }))
  switch (request.format) {
    case 'gguf-adapter': {
      const options = { fileName, modelName: request.modelName, config, storage: asMatrixStorage(storage) }
      const base = `${request.baseModel.replace(/.*\//, '').replace(/[^\w.-]/g, '_')}.gguf`
      return [ggufAdapterFile(stored ?? fresh(), options), ollama(base, fileName)]
    }
    case 'gguf': {
      const tensors = mergedTensors(source, new Set(decoderTensorShapes(config).keys()), stored)
      const entries = new Map([
        ...(source.kind === 'gguf' ? await ownEntries(source) : await hfEntries(source, config, text)),
        ...generalEntries(request.modelName, storage),
      ])
      return [ggufFile(fileName, entries, ggufTensors(tensors, config, storage)), ollama(fileName, null)]
    }
    case 'merged': {
      if (storage === 'q8_0') {
        throw new WeightsError('unsupported_export', 'precision q8_0 exists in GGUF only', {
          hint: 'use format gguf, or precision f32, f16 or bf16',
        })
      }
      const tensors = mergedTensors(source, new Set(decoderTensorShapes(config).keys()), stored)
      return await mergedFiles({ source, config, text, storage }, tensors)
    }
  }
}

/** A Hugging Face directory: description, tokenizer and weights in one file. */
export async function mergedFiles(
  options: DescriptionOptions,
  tensors: readonly ExportTensor[],
): Promise<readonly ExportFile[]> {
  const weights = safetensorsFile('model.safetensors', inHfForm(tensors, options.config), options.storage)
  return [...(await descriptionFiles(options)), weights]
}

/** transformers' Gemma multiplies with 1 + weight; a GGUF file stores the sum. */
function inHfForm(tensors: readonly ExportTensor[], config: DecoderConfig): readonly ExportTensor[] {
  if (config.family !== 'gemma3_text' || config.normOffset !== undefined) return tensors
  return tensors.map((tensor) =>
    isNorm(tensor.name) ? { ...tensor, read: async () => (await tensor.read()).map((value) => value - 1) } : tensor,
  )
}

/** Merged weights keep the base model's own precision; GGUF is float16, which every program reads. */
function defaultStorage(format: ExportRequest['format'], source: WeightSource): FloatStorage {
  if (format !== 'merged') return 'f16'
  const stored = source.tensorStorage('model.layers.0.mlp.down_proj.weight')
  if (['F32', 'F64', 'float32', 'float64'].includes(stored)) return 'f32'
  return ['BF16', 'bfloat16', 'float8_e4m3fn'].includes(stored) ? 'bf16' : 'f16'
}

/** llama.cpp reads adapters in floats; rows of a small rank are no whole blocks. */
function asMatrixStorage(storage: FloatStorage): FloatStorage {
  if (storage !== 'q8_0') return storage
  throw new WeightsError('unsupported_export', 'an adapter is exported in floats, not in precision q8_0', {
    hint: 'use precision f16 or f32',
  })
}

/** All metadata of a GGUF base model, byte for byte. */
async function ownEntries({ path }: WeightSource): Promise<GgufEntries> {
  const { valueRanges } = await readGgufMetadata(path)
  const entries = new Map<string, GgufValue>()
  const file = await openByteFile(path)
  try {
    for (const [key, { offsetBytes, sizeBytes }] of valueRanges) {
      // our file has borders of its own
      if (key === 'general.alignment' || key.startsWith('split.')) continue
      entries.set(key, { type: 'raw', value: await file.read(offsetBytes, sizeBytes) })
    }
  } finally {
    await file.close()
  }
  return entries
}

async function hfEntries(source: WeightSource, config: DecoderConfig, text: TextModel): Promise<GgufEntries> {
  const tokenizer = parseJsonText(
    await readFile(join(source.path, 'tokenizer.json'), 'utf8'),
    'tokenizer.json',
  ) as JsonObject
  if (!isJsonObject(tokenizer)) throw new WeightsError('unsupported_export', 'tokenizer.json is not an object')
  return new Map([...decoderEntries(config), ...vocabularyEntries(tokenizer, text, config.vocabularySize)])
}
