/**
 * A prepared model as the Python process is told of it: transformers' configuration, and where each of its tensors lies in the prepared
 * float32 file. So every file that can be prepared trains, GGUF too, and both engines compute with the same numbers.
 */
import { WeightsError } from '#base/errors/errors.js'
import { adapterModules } from '#model/architectures/decoder-config.js'
import { hfConfigOf, hfLayerTypes } from '#model/architectures/hf-config-of.js'
import type { PreparedModel } from '#model/architectures/prepare.js'
import { readRotaryFrequencies, readSlidingFrequencies } from '#model/architectures/rotary-frequencies.js'
import type { PreparedTensor } from '#model/architectures/tensor-file.js'
import type { HostTensor } from '#numerics/tensor/host-tensor.js'
import type { Message } from './frames.js'
import { decoderParameters } from './parameters.js'

/** What the frozen layers are computed in; the adapter, the log-softmax and the loss are float32 always. */
export type TorchDtype = 'float32' | 'bfloat16'

export interface ModelMessageOptions {
  readonly dtype: TorchDtype
  /** `auto`: a graphics card where there is one. */
  readonly device: 'auto' | 'cuda' | 'mps' | 'cpu'
  /** Threads inside one operator; null: PyTorch's default. */
  readonly threads: number | null
}

/** Norm weights of these families are stored by transformers smaller by one than what is multiplied with. */
const OFFSET_NORMS: ReadonlySet<string> = new Set(['gemma3_text'])

/** @throws {WeightsError} `unsupported_model` for layers that differ in a way only our own graphs have */
export async function modelMessage(prepared: PreparedModel, options: ModelMessageOptions): Promise<Message> {
  const { config } = prepared
  const tensors = prepared.tensors('f32')
  const layerTypes = hfLayerTypes(config)
  if (new Set(layerTypes).size > 1 && config.family !== 'gemma3_text') {
    throw new WeightsError('unsupported_model', `PyTorch cannot train a ${config.family} model whose layers differ`, {
      hint: 'train with --trainer onnx',
    })
  }
  const sliding = await readSlidingFrequencies(tensors)
  const arrays: Record<string, HostTensor> = { full: float64(await readRotaryFrequencies(tensors)) }
  if (sliding !== null) arrays['sliding'] = float64(sliding)
  const header = {
    type: 'open',
    ...options,
    config: hfConfigOf(config, config.contextLength),
    weights_file: tensorOf(tensors, 'embedding').file,
    tensors: placedTensors(prepared),
    has_head: !config.isEmbeddingTied,
    modules: adapterModules(config).map(({ path }) => path),
    layer_types: layerTypes,
    sliding_window: config.slidingWindow ?? null,
    rotary_factor: config.rotary.attentionFactor ?? 1,
    embedding_scale: config.embeddingScale ?? 1,
  }
  return { header, arrays }
}

/** Every parameter by transformers' name: where it begins in the file, in elements, and what is subtracted from it. */
function placedTensors(prepared: PreparedModel): readonly Record<string, unknown>[] {
  const { config } = prepared
  const tensors = prepared.tensors('f32')
  const offset = OFFSET_NORMS.has(config.family) ? 1 : 0
  return decoderParameters(config).flatMap(({ name, shape, kind, parts }) => {
    const [, ...inner] = shape
    const width = inner.reduce((product, size) => product * size, 1)
    let at = tensorOf(tensors, name).offsetBytes / Float32Array.BYTES_PER_ELEMENT
    return parts.map((part) => {
      const placed = {
        name: part.name,
        offset: at,
        shape: [part.rows, ...inner],
        subtract: kind === 'norm' ? offset : 0,
      }
      at += part.rows * width
      return placed
    })
  })
}

function tensorOf(tensors: ReadonlyMap<string, PreparedTensor>, name: string): PreparedTensor {
  const tensor = tensors.get(name)
  if (tensor === undefined) throw new Error(`the prepared model has no tensor "${name}"`)
  return tensor
}

function float64(data: Float64Array): HostTensor {
  return { dtype: 'float64', shape: [data.length], data }
}
