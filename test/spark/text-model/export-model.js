/**
 * Turns a trained Hugging Face directory into the built-in model: F16 weights, and the digests that the server checks.
 */
import { createHash } from 'node:crypto'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { checkDecoderTensors, decoderConfigOf } from '#model/architectures/registry.js'
import { DIGESTS_FILE } from '#model/built-in/spark.js'
import { loadTextModel } from '#model/text/text-model.js'
import { openWeights } from '#model/weights/base-weights.js'
import { encodeSafetensors } from '#model/weights/safetensors.js'
import { float16ToFloat32, float32ToFloat16 } from '#numerics/tensor/half.js'

/** Copied as they are; the others are there or not. */
const NEEDED_TEXT_FILES = ['tokenizer.json', 'tokenizer_config.json']
const OTHER_TEXT_FILES = ['generation_config.json', 'chat_template.jinja']

/**
 * Writes `config.json`, `model.safetensors` (F16, nearest even), the tokenizer's files and `digests.json`; leaves anything else,
 * such as the model card, as it is. Nothing is written if the source is no whole chat model.
 *
 * @param {string} from
 * @param {string} to made if missing
 * @returns {Promise<{ parameters: number, sizeBytes: number, largestError: number, digests: Record<string, string> }>}
 *   `largestError` is the largest difference that rounding made
 * @throws {Error} if a weight does not fit in F16, or the vocabulary is larger than the embedding
 */
export async function exportModel(from, to) {
  const { tensors, hfConfig, parameters, largestError } = await readHalves(from)
  const { tokenizer, chatTemplate, eosTokenIds } = await loadTextModel(from)
  if (tokenizer.vocabularySize > Number(hfConfig.vocab_size)) {
    throw new Error(`tokenizer has ${tokenizer.vocabularySize} tokens, the model only ${hfConfig.vocab_size}`)
  }
  if (chatTemplate === null || eosTokenIds.length === 0)
    throw new Error(`"${from}" has no chat template or no end of turn`)

  /** @type {Map<string, Uint8Array>} */
  const files = new Map()
  files.set('config.json', Buffer.from(`${JSON.stringify({ ...hfConfig, torch_dtype: 'float16' }, null, 2)}\n`))
  for (const name of [...NEEDED_TEXT_FILES, ...OTHER_TEXT_FILES]) {
    const content = await readFile(join(from, name)).catch(() => null)
    if (content !== null) files.set(name, content)
    else if (NEEDED_TEXT_FILES.includes(name)) throw new Error(`"${from}" has no ${name}`)
  }
  files.set('model.safetensors', encodeSafetensors(tensors, { format: 'pt' }))
  const digests = Object.fromEntries(
    [...files].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, bytes]) => [name, sha256(bytes)]),
  )
  await mkdir(to, { recursive: true })
  // A template or a setting of an earlier export would go on deciding answers.
  for (const name of OTHER_TEXT_FILES) if (!files.has(name)) await rm(join(to, name), { force: true })
  for (const [name, bytes] of files) await writeFile(join(to, name), bytes)
  await writeFile(join(to, DIGESTS_FILE), `${JSON.stringify({ files: digests }, null, 2)}\n`)
  const sizeBytes = [...files.values()].reduce((sum, bytes) => sum + bytes.length, 0)
  return { parameters, sizeBytes, largestError, digests }
}

/** @param {string} from */
async function readHalves(from) {
  const source = await openWeights(from)
  try {
    if (source.hfConfig === null) throw new Error(`"${from}" is no Hugging Face directory`)
    checkDecoderTensors(source, decoderConfigOf(source))
    const tensors = new Map()
    let parameters = 0
    let largestError = 0
    for (const name of source.tensorNames) {
      const values = await source.readFloat32(name)
      const data = float32ToFloat16(values)
      float16ToFloat32(data).forEach((rounded, i) => {
        if (!Number.isFinite(rounded)) throw new Error(`tensor "${name}" has ${values[i]}, which does not fit in F16`)
        largestError = Math.max(largestError, Math.abs(rounded - values[i]))
      })
      parameters += values.length
      tensors.set(name, { dtype: 'float16', shape: source.tensorShape(name), data })
    }
    return { tensors, hfConfig: source.hfConfig, parameters, largestError }
  } finally {
    await source.close()
  }
}

/** @param {Uint8Array} bytes */
function sha256(bytes) {
  return createHash('sha256').update(bytes).digest('hex')
}
