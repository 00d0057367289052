/**
 * Tables of rotary position embedding: cos and sin of position times frequency, for ONNX Runtime's RotaryEmbedding.
 *
 * Computed in float64, rounded once. Sources: RoPE (arXiv:2104.09864); Llama 3.1's reference code for its scaling;
 * linear scaling as Hugging Face's `rope_type: linear`.
 */

/** How fast each pair of a head's elements turns. */
export interface RotaryOptions {
  /** Base of the frequencies (Llama 1e4, SmolLM2 1e5, Llama 3 5e5). */
  readonly theta: number
  /** Llama 3's frequency-dependent stretching; null for none. Fields as in Hugging Face's `rope_scaling`. */
  readonly llama3Scaling: {
    readonly factor: number
    readonly lowFrequencyFactor: number
    readonly highFrequencyFactor: number
    readonly originalContextLength: number
  } | null
  /** Positions are divided by this (linear scaling); 1 for none. */
  readonly linearFactor: number
}

/** Radians per position of each pair: [D/2]. */
export function rotaryFrequencies(options: RotaryOptions, headSize: number): Float64Array {
  const frequencies = new Float64Array(headSize / 2)
  for (let i = 0; i < frequencies.length; i++) {
    const frequency = options.theta ** ((-2 * i) / headSize) / options.linearFactor
    frequencies[i] =
      options.llama3Scaling === null ? frequency : frequency / llama3Divisor(frequency, options.llama3Scaling)
  }
  return frequencies
}

/**
 * cos and sin tables for positions 0 to `length - 1`.
 *
 * @param frequencies radians per position of each pair, [D/2]
 * @returns two arrays [length, D/2], row-major
 */
export function rotaryTables(
  frequencies: Float64Array,
  length: number,
): { readonly cos: Float32Array; readonly sin: Float32Array } {
  const half = frequencies.length
  const cos = new Float32Array(length * half)
  const sin = new Float32Array(length * half)
  for (let position = 0; position < length; position++) {
    for (let i = 0; i < half; i++) {
      const angle = position * (frequencies[i] as number)
      cos[position * half + i] = Math.cos(angle)
      sin[position * half + i] = Math.sin(angle)
    }
  }
  return { cos, sin }
}

/** By how much Llama 3 divides a frequency: 1 when fast, the factor when slow, smoothly between. */
export function llama3Divisor(frequency: number, scaling: NonNullable<RotaryOptions['llama3Scaling']>): number {
  const { factor, lowFrequencyFactor, highFrequencyFactor, originalContextLength } = scaling
  const turns = (originalContextLength * frequency) / (2 * Math.PI)
  if (turns > highFrequencyFactor) return 1
  if (turns < lowFrequencyFactor) return factor
  const smooth = (turns - lowFrequencyFactor) / (highFrequencyFactor - lowFrequencyFactor)
  return 1 / ((1 - smooth) / factor + smooth)
}
