/**
 * What every base model on disk looks like to the layers above, whatever its format.
 *
 * Tensor names and shapes are always Hugging Face's; `hf-directory.ts` and `gguf-source.ts` implement it.
 */
import { WeightsError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'

/** An open base model. Close it when done. */
export interface WeightSource {
  readonly kind: 'huggingface' | 'gguf'
  readonly path: string
  /** `config.json`; null for GGUF. */
  readonly hfConfig: JsonObject | null
  /** GGUF key/value pairs (arrays as plain arrays, 64-bit integers as numbers where exact); null for Hugging Face. */
  readonly ggufMetadata: ReadonlyMap<string, unknown> | null
  /** Divisors of the rotary frequencies [D/2] stored beside the weights (`rope_freqs.weight` of GGUF); null for none. */
  readonly ropeFrequencyDivisors: Float32Array | null
  /**
   * Whether it holds a head (`lm_head.weight`) that differs from its embedding. Such a head is used whatever the configuration says of
   * tied embeddings, which is often left over from the model it was trained from; transformers 5 does the same.
   */
  readonly hasOwnHead: boolean
  /** Whether it is the text part of a model for images and text, whose other parts are not read. */
  readonly isTextPart: boolean
  /** Whether shards and their index lie beside a whole file of weights, which counts alone, as in transformers. */
  readonly hasUnreadShards: boolean
  /** Hugging Face names; tensors with no such name keep their own. */
  readonly tensorNames: readonly string[]
  /** How a tensor is stored, in the format's own words: `BF16`, `Q4_K`. */
  tensorStorage(name: string): string
  /** Shape as in Hugging Face, row-major: a linear weight is [out, in]. */
  tensorShape(name: string): readonly number[]
  /**
   * Reads and dequantizes one tensor.
   *
   * @returns a fresh array of `tensorShape(name)` elements, all finite
   * @throws {WeightsError} `tensor_not_found`, `unsupported_dtype`, `truncated_file`, `non_finite_weights`
   */
  readFloat32(name: string): Promise<Float32Array>
  /**
   * Looks at the values of every tensor, a part at a time.
   *
   * @throws {WeightsError} as `readFloat32`
   */
  checkValues(): Promise<void>
  /** SHA-256 (hex) over everything that decides the numbers: configuration and weights. Reads every byte once. */
  digest(): Promise<string>
  close(): Promise<void>
}

/**
 * Refuses NaN and infinities.
 *
 * @param start where in the tensor the values begin
 * @throws {WeightsError} `non_finite_weights` naming tensor and position
 */
export function assertFinite(values: Float32Array, name: string, start = 0): Float32Array {
  // x * 0 is 0 for finite x and NaN otherwise, so one sum tells about all.
  let sum = 0
  for (let i = 0; i < values.length; i++) sum += (values[i] as number) * 0
  if (sum !== 0) {
    const position = values.findIndex((value) => !Number.isFinite(value))
    throw new WeightsError(
      'non_finite_weights',
      `tensor "${name}" has ${values[position]} at element ${start + position}`,
    )
  }
  return values
}
