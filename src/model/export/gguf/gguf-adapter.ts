/**
 * An adapter as GGUF, the form that llama.cpp's `--lora` and Ollama's `ADAPTER` take.
 *
 * Source: `convert_lora_to_gguf` of llama.cpp: `adapter.type`, `adapter.lora.alpha`, and `<tensor>.lora_a` [R, in] and
 * `<tensor>.lora_b` [out, R] for each adapted tensor; rows of B follow the order of the base weight's rows.
 */
import type { DecoderConfig } from '#model/architectures/decoder-config.js'
import type { AdapterWeights } from '#model/weights/adapter.js'
import { permuteRows, toGgufName } from '#model/weights/gguf/names.js'
import type { ExportFile } from '../export-file.js'
import type { FloatStorage } from '../float-bytes.js'
import { float32, generalEntries, ggufArchitecture, interleavedHeadCount, string } from './gguf-description.js'
import { type GgufOutputTensor, ggufFile } from './gguf-file.js'

/** An adapter file for a base model of this decoder. */
export function ggufAdapterFile(
  adapter: AdapterWeights,
  options: {
    readonly fileName: string
    readonly modelName: string
    readonly config: DecoderConfig
    readonly storage: FloatStorage
  },
): ExportFile {
  const { fileName, modelName, config, storage } = options
  const entries = new Map([
    ...generalEntries(modelName, storage),
    ['general.type', string('adapter')],
    ['general.architecture', string(ggufArchitecture(config))],
    ['adapter.type', string('lora')],
    ['adapter.lora.alpha', float32(adapter.config.alpha)],
  ] as const)
  const { rank } = adapter.config
  const tensors: GgufOutputTensor[] = []
  for (const [path, a] of adapter.a) {
    const b = adapter.b.get(path)
    const name = toGgufName(`${path}.weight`, ggufArchitecture(config))
    if (b === undefined || name === null) throw new Error(`adapter tensor "${path}" has no name in GGUF`)
    const headCount = interleavedHeadCount(config, `${path}.weight`)
    const rows = headCount === null ? b : permuteRows(b, headCount, rank)
    tensors.push({ name: `${name}.lora_a`, shape: [rank, a.length / rank], storage, read: () => Promise.resolve(a) })
    tensors.push({ name: `${name}.lora_b`, shape: [b.length / rank, rank], storage, read: () => Promise.resolve(rows) })
  }
  return ggufFile(fileName, entries, tensors)
}
