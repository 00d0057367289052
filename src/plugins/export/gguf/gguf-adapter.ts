/**
 * An adapter as GGUF, the form that llama.cpp's `--lora` and Ollama's `ADAPTER` take.
 *
 * Source: `convert_lora_to_gguf` of llama.cpp: `adapter.type`, `adapter.lora.alpha`, and `<tensor>.lora_a` [R, in] and
 * `<tensor>.lora_b` [out, R] for each adapted tensor; rows of B follow the order of the base weight's rows. It scales by alpha /
 * R with the tensor's own R, so rsLoRA's alpha / sqrt(R) stands in alpha, and in B of modules of another rank.
 */
import type { DecoderConfig } from '#model/architectures/decoder-config.js'
import type { AdapterWeights } from '#model/weights/adapter.js'
import { rankOf } from '#model/weights/adapter-config.js'
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
  const { usesRslora = false, rank: usualRank } = adapter.config
  const alpha = adapter.config.alpha * (usesRslora ? Math.sqrt(usualRank) : 1)
  const entries = new Map([
    ...generalEntries(modelName, storage),
    ['general.type', string('adapter')],
    ['general.architecture', string(ggufArchitecture(config))],
    ['adapter.type', string('lora')],
    ['adapter.lora.alpha', float32(alpha)],
  ] as const)
  const tensors: GgufOutputTensor[] = []
  for (const [path, a] of adapter.a) {
    const b = adapter.b.get(path)
    const name = toGgufName(`${path}.weight`, ggufArchitecture(config))
    if (b === undefined || name === null) throw new Error(`adapter tensor "${path}" has no name in GGUF`)
    const rank = rankOf(adapter.config, path)
    const headCount = interleavedHeadCount(config, `${path}.weight`)
    const factor = usesRslora ? Math.sqrt(rank / usualRank) : 1
    const scaled = factor === 1 ? b : b.map((value) => value * factor)
    const rows = headCount === null ? scaled : permuteRows(scaled, headCount, rank)
    tensors.push({ name: `${name}.lora_a`, shape: [rank, a.length / rank], storage, read: () => Promise.resolve(a) })
    tensors.push({ name: `${name}.lora_b`, shape: [b.length / rank, rank], storage, read: () => Promise.resolve(rows) })
  }
  return ggufFile(fileName, entries, tensors)
}
