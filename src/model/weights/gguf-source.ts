/**
 * Base models as GGUF files: Hugging Face names, dequantized values, Llama's rows in Hugging Face's order.
 */
import { WeightsError } from '#base/errors/errors.js'
import { elementCount } from '#numerics/tensor/host-tensor.js'
import { digestParts, openByteFile } from './byte-file.js'
import { checkValues } from './check-values.js'
import { dequantizeGguf } from './gguf/dequantize.js'
import { toHfName, unpermuteRows } from './gguf/names.js'
import { isReadableGgufType, READABLE_GGUF_TYPES } from './gguf/types.js'
import { type GgufTensor, readGgufMetadata } from './gguf-metadata.js'
import { assertFinite, type WeightSource } from './weight-source.js'

/** llama.cpp's architectures whose converter interleaves query and key rows. */
const INTERLEAVED_ARCHITECTURES = ['llama', 'smollm3']
const ROPE_DIVISORS = 'rope_freqs.weight'
const QUERY_OR_KEY = /^model\.layers\.\d+\.self_attn\.([qk])_proj\.(weight|bias)$/

/**
 * Opens a GGUF file.
 *
 * @throws {WeightsError} see `readGgufMetadata`; `split_gguf` for one part of a split model
 */
export async function openGgufSource(path: string): Promise<WeightSource> {
  const { metadata, tensors } = await readGgufMetadata(path)
  const partCount = metadata.get('split.count')
  if (typeof partCount === 'number' && partCount > 1) {
    throw new WeightsError('split_gguf', `"${path}" is one of ${partCount} parts, expected a whole model`, {
      hint: 'merge the parts with llama.cpp: llama-gguf-split --merge',
    })
  }
  const byName = indexTensors(tensors, String(metadata.get('general.architecture')))
  const locate = (name: string): GgufTensor => {
    const tensor = byName.get(name)
    if (tensor === undefined) throw new WeightsError('tensor_not_found', `model "${path}" has no tensor "${name}"`)
    return tensor
  }
  const file = await openByteFile(path)
  async function readPart(tensor: GgufTensor, name: string, start: number, count: number): Promise<Float32Array> {
    const { name: type, blockLength, blockBytes } = tensor.type
    if (!isReadableGgufType(type)) {
      throw new WeightsError(
        'unsupported_dtype',
        `tensor "${name}" is stored as ${type}, expected one of ${READABLE_GGUF_TYPES.join(', ')}`,
      )
    }
    const offsetBytes = tensor.offsetBytes + (start / blockLength) * blockBytes
    return dequantizeGguf(type, await file.read(offsetBytes, (count / blockLength) * blockBytes), count)
  }
  async function readStored(tensor: GgufTensor, name: string): Promise<Float32Array> {
    return assertFinite(await readPart(tensor, name, 0, elementCount(tensor.shape)), name)
  }
  try {
    const divisors = byName.get(ROPE_DIVISORS)
    return {
      kind: 'gguf',
      path,
      hfConfig: null,
      ggufMetadata: metadata,
      ropeFrequencyDivisors: divisors === undefined ? null : await readStored(divisors, ROPE_DIVISORS),
      hasOwnHead: byName.has('lm_head.weight'),
      // parts for images lie in a file of their own
      isTextPart: false,
      hasUnreadShards: false,
      tensorNames: [...byName.keys()].filter((name) => name !== ROPE_DIVISORS),
      tensorStorage: (name) => locate(name).type.name,
      tensorShape: (name) => locate(name).shape,
      async readFloat32(name) {
        const tensor = locate(name)
        const values = await readStored(tensor, name)
        const headCount = interleavedHeadCount(metadata, name)
        if (headCount === null) return values
        const [rows = 0] = tensor.shape
        if (rows % (2 * headCount) !== 0) {
          throw new WeightsError('invalid_shape', `tensor "${name}" has ${rows} rows, expected ${headCount} even heads`)
        }
        return unpermuteRows(values, headCount, values.length / rows)
      },
      async checkValues() {
        for (const [name, tensor] of byName) {
          await checkValues(name, elementCount(tensor.shape), (start, count) => readPart(tensor, name, start, count))
        }
      },
      digest: () => digestParts(['gguf', file]),
      close: () => file.close(),
    }
  } catch (error) {
    await file.close()
    throw error
  }
}

function indexTensors(tensors: readonly GgufTensor[], architecture: string): ReadonlyMap<string, GgufTensor> {
  const byName = new Map<string, GgufTensor>()
  for (const tensor of tensors) {
    const name = toHfName(tensor.name, architecture)
    if (byName.has(name)) throw new WeightsError('duplicate_key', `GGUF file has the tensor "${name}" under two names`)
    byName.set(name, tensor)
  }
  return byName
}

/** Heads of an interleaved query or key tensor; null if the rows are in Hugging Face's order already. */
function interleavedHeadCount(metadata: ReadonlyMap<string, unknown>, name: string): number | null {
  const match = QUERY_OR_KEY.exec(name)
  const architecture = String(metadata.get('general.architecture'))
  if (match === null || !INTERLEAVED_ARCHITECTURES.includes(architecture)) return null
  const queryHeads = metadata.get(`${architecture}.attention.head_count`)
  const keyHeads = metadata.get(`${architecture}.attention.head_count_kv`) ?? queryHeads
  const headCount = match[1] === 'q' ? queryHeads : keyHeads
  if (typeof headCount !== 'number' || !Number.isInteger(headCount) || headCount < 1) {
    throw new WeightsError('invalid_gguf', `GGUF file has no usable ${architecture}.attention.head_count`)
  }
  return headCount
}
