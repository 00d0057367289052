/**
 * The rotary parameters of a `config.json`: `rope_theta` beside `rope_scaling`, or `rope_parameters` as transformers 5 writes them.
 *
 * Two kinds change with the length of a text: `dynamic` beyond the trained context, `longrope` at it. Here keys are computed once, so the
 * context of such a model ends where the change begins; up to there nothing differs.
 * Source: `modeling_rope_utils.py` of transformers 5.24.
 */
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import { type RotaryOptions, yarnAttentionFactor } from '#numerics/nn/rotary-embedding.js'
import { type ConfigReader, createConfigReader, invalidConfig, unsupportedModel } from './config-reader.js'

const WHAT = 'config.json'

const TYPES = ['default', 'linear', 'dynamic', 'llama3', 'yarn', 'longrope'] as const

export interface Rotary {
  readonly options: RotaryOptions
  /** Tokens for which the rotation is the model's own. */
  readonly contextLength: number
}

/** @throws {WeightsError} `unsupported_model`, `invalid_config` naming the key */
export function rotaryOf(
  json: JsonObject,
  sizes: { readonly trainedLength: number; readonly headSize: number },
): Rotary {
  const { trainedLength } = sizes
  const key = isJsonObject(json['rope_parameters'] ?? null) ? 'rope_parameters' : 'rope_scaling'
  const scaling = json[key] ?? {}
  if (!isJsonObject(scaling)) throw invalidConfig(WHAT, key, scaling, 'an object')
  const reader = createConfigReader((name) => scaling[name], `${WHAT} "${key}"`)
  const outer = createConfigReader((name) => json[name], WHAT)
  const partial = reader.raw('partial_rotary_factor') ?? 1
  if (partial !== 1) throw unsupportedModel(WHAT, `has partial_rotary_factor ${JSON.stringify(partial)}, expected 1`)
  const plain = {
    theta: reader.positive('rope_theta', outer.positive('rope_theta', 10_000)),
    llama3Scaling: null,
    linearFactor: 1,
  }
  // Phi's files have the length beside the parameters, and there it counts first
  const originalLength = outer.size(
    'original_max_position_embeddings',
    reader.size('original_max_position_embeddings', trainedLength),
  )
  const type = reader.text('rope_type') ?? reader.text('type') ?? 'default'
  switch (type) {
    case 'default':
    case 'dynamic':
      return { options: plain, contextLength: trainedLength }
    case 'linear':
      return { options: { ...plain, linearFactor: reader.positive('factor') }, contextLength: trainedLength }
    case 'llama3': {
      const llama3Scaling = {
        factor: reader.positive('factor'),
        lowFrequencyFactor: reader.positive('low_freq_factor'),
        highFrequencyFactor: reader.positive('high_freq_factor'),
        originalContextLength: reader.size('original_max_position_embeddings', trainedLength),
      }
      return { options: { ...plain, llama3Scaling }, contextLength: trainedLength }
    }
    case 'yarn':
      return yarnOf(reader, plain, { trainedLength, originalLength })
    case 'longrope':
    case 'su':
      return longropeOf(reader, plain, { ...sizes, originalLength })
    default:
      throw unsupportedModel(WHAT, `has rope type "${type}", expected one of ${TYPES.join(', ')}`)
  }
}

interface Lengths {
  readonly trainedLength: number
  readonly originalLength: number
}

function yarnOf(reader: ConfigReader, plain: RotaryOptions, { trainedLength, originalLength }: Lengths): Rotary {
  const factor = reader.positive('factor', trainedLength / originalLength)
  // 0 is as left out, as in transformers
  const weights = ['mscale', 'mscale_all_dim'].map((name) =>
    (reader.raw(name) ?? 0) === 0 ? 0 : reader.positive(name),
  )
  const [own = 0, all = 0] = weights
  const usual =
    own !== 0 && all !== 0
      ? yarnAttentionFactor(factor, own) / yarnAttentionFactor(factor, all)
      : yarnAttentionFactor(factor)
  const yarn = {
    factor,
    originalContextLength: originalLength,
    betaFast: reader.positive('beta_fast', 32),
    betaSlow: reader.positive('beta_slow', 1),
    isTruncated: reader.flag('truncate', true),
  }
  return {
    options: { ...plain, yarn, attentionFactor: reader.positive('attention_factor', usual) },
    // files of Qwen name the context before stretching, others the one behind it
    contextLength: Math.max(trainedLength, Math.floor(originalLength * factor)),
  }
}

/** Up to the original context the short factors count, beyond it the long ones, for all of a text at once. */
function longropeOf(
  reader: ConfigReader,
  plain: RotaryOptions,
  { trainedLength, originalLength, headSize }: Lengths & { readonly headSize: number },
): Rotary {
  const divisors = reader.raw('short_factor')
  const isList = Array.isArray(divisors) && divisors.every((value) => typeof value === 'number' && value > 0)
  if (!isList || divisors.length !== headSize / 2) {
    throw invalidConfig(`${WHAT} rope parameters`, 'short_factor', divisors, `${headSize / 2} positive numbers`)
  }
  const factor = reader.positive('factor', trainedLength / originalLength)
  const usual = factor <= 1 ? 1 : Math.sqrt(1 + Math.log(factor) / Math.log(originalLength))
  return {
    options: {
      ...plain,
      longropeDivisors: divisors as readonly number[],
      attentionFactor: reader.positive('attention_factor', usual),
    },
    contextLength: Math.min(trainedLength, originalLength),
  }
}
