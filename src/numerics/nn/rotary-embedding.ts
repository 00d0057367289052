/**
 * Tables of rotary position embedding: cos and sin of position times frequency, for ONNX Runtime's RotaryEmbedding.
 *
 * Computed in float64, rounded once. Sources: RoPE (arXiv:2104.09864); Llama 3.1's reference code for its scaling;
 * linear scaling as Hugging Face's `rope_type: linear`; YaRN (arXiv:2309.00071) and LongRoPE (arXiv:2402.13753) as
 * `modeling_rope_utils.py` of transformers 5 computes them.
 */

/** YaRN: fast pairs turn as trained, slow ones are stretched by `factor`, those between by a ramp. */
export interface YarnScaling {
  readonly factor: number
  readonly originalContextLength: number
  /** Turns within the original context above which a pair is fast (32 in the paper). */
  readonly betaFast: number
  /** Turns below which it is slow (1 in the paper). */
  readonly betaSlow: number
  /** Whether the ramp begins and ends at whole pairs. */
  readonly isTruncated: boolean
}

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
  /** Left out: none. */
  readonly yarn?: YarnScaling
  /** LongRoPE's divisors of the frequencies for the trained context, [D/2]; left out: none. */
  readonly longropeDivisors?: readonly number[]
  /** What cos and sin are multiplied by (YaRN, LongRoPE); left out: 1. Queries and keys have it, so scores have its square. */
  readonly attentionFactor?: number
}

/** Radians per position of each pair: [D/2]. */
export function rotaryFrequencies(options: RotaryOptions, headSize: number): Float64Array {
  const frequencies = new Float64Array(headSize / 2)
  const { yarn, longropeDivisors } = options
  for (let i = 0; i < frequencies.length; i++) {
    const frequency = options.theta ** ((-2 * i) / headSize) / options.linearFactor
    const divisor = options.llama3Scaling === null ? 1 : llama3Divisor(frequency, options.llama3Scaling)
    const stretched = yarn === undefined ? 1 : yarnDivisor(i, { yarn, theta: options.theta, headSize })
    frequencies[i] = frequency / divisor / stretched / (longropeDivisors?.[i] ?? 1)
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

/** By how much YaRN divides the frequency of pair `i`: 1 when fast, the factor when slow, between them by a ramp over the pairs. */
function yarnDivisor(
  i: number,
  { yarn, theta, headSize }: { readonly yarn: YarnScaling; readonly theta: number; readonly headSize: number },
): number {
  const { factor, originalContextLength, betaFast, betaSlow, isTruncated } = yarn
  /** The pair that turns so often within the original context. */
  const pairOf = (turns: number): number =>
    (headSize * Math.log(originalContextLength / (turns * 2 * Math.PI))) / (2 * Math.log(theta))
  const first = isTruncated ? Math.floor(pairOf(betaFast)) : pairOf(betaFast)
  const last = isTruncated ? Math.ceil(pairOf(betaSlow)) : pairOf(betaSlow)
  const low = Math.max(first, 0)
  const high = Math.min(last, headSize - 1)
  const slowness = Math.min(1, Math.max(0, (i - low) / (high === low ? 0.001 : high - low)))
  return 1 / (slowness / factor + (1 - slowness))
}

/** What YaRN multiplies cos and sin by when a model says nothing else: 0.1 ln(factor) + 1. @param weight `mscale` of DeepSeek's models */
export function yarnAttentionFactor(factor: number, weight = 1): number {
  return factor <= 1 ? 1 : 0.1 * weight * Math.log(factor) + 1
}
