/**
 * A learning rate for those who gave none: the API's defaults suit models of billions of parameters, and a person at a
 * terminal trains small ones. Only what was measured is chosen here; programs that call the API keep the published default.
 */
import { plural } from '../terminal/format.js'

/** Parameters of models that come with the package. */
const BUILT_IN: Readonly<Record<string, number>> = { 'trainyard/spark': 4_500_000 }
/** Below it, spark's rates hold; nothing larger was swept. */
const TINY = 20_000_000
/** The published defaults are meant for more. */
const LARGE = 1_500_000_000
/** spark learns at 1e-3 within a few jobs by RL and by examples; at 4e-3 it collapses. */
const TINY_RATE = 1e-3

export interface RateAdvice {
  /** Sent instead of nothing; null leaves the service's default. */
  readonly learningRate: number | null
  /** Said to a person. */
  readonly said: string | null
}

/**
 * What to do when no rate was given.
 *
 * @param baseModel name of the base model; its size is read from a part such as `135m` or `0.5B`
 */
export function adviseLearningRate(baseModel: string, published: number): RateAdvice {
  const parameters = BUILT_IN[baseModel] ?? readParameters(baseModel)
  if (parameters === null || parameters >= LARGE) return { learningRate: null, said: null }
  const size = `a model of ${plural(Math.round(parameters / 1e5) / 10, 'million parameter')}`
  if (parameters < TINY) {
    return { learningRate: TINY_RATE, said: `learning rate ${TINY_RATE}, for ${size}; --learning-rate changes it` }
  }
  return {
    learningRate: null,
    said: `learning rate ${published.toExponential()} is the published default and small for ${size}; --learning-rate raises it`,
  }
}

/** Parameters named in a model's name: `Qwen2.5-0.5B-Instruct`, `smollm2-135m`. */
function readParameters(name: string): number | null {
  const match = /(?:^|[-_/])(\d+(?:\.\d+)?)([mb])(?=$|[-_.])/i.exec(name)
  if (match === null) return null
  return Number(match[1]) * (match[2]?.toLowerCase() === 'b' ? 1e9 : 1e6)
}
