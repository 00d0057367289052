/**
 * A learning rate for those who gave none: the API's defaults suit models of billions of parameters, and a person at a
 * terminal trains small ones. Only what was measured is chosen here; who calls the API itself keeps the published default.
 */
import { measuredLearningRate, parametersOf, TINY } from '#api/settings/learning-rate.js'
import { plural } from '../terminal/format.js'

/** The published defaults are meant for more. */
const LARGE = 1_500_000_000

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
 * @param tinyRate rate for the smallest models instead of the one measured for rewards and examples
 */
export function adviseLearningRate(baseModel: string, published: number, tinyRate: number | null = null): RateAdvice {
  const parameters = parametersOf(baseModel)
  if (parameters === null || parameters >= LARGE) return { learningRate: null, said: null }
  const size = `a model of ${plural(Math.round(parameters / 1e5) / 10, 'million parameter')}`
  const rate = tinyRate === null ? measuredLearningRate(baseModel) : parameters < TINY ? tinyRate : null
  if (rate !== null)
    return { learningRate: rate, said: `learning rate ${rate}, for ${size}; --learning-rate changes it` }
  return {
    learningRate: null,
    said: `learning rate ${published.toExponential()} is the published default and small for ${size}; --learning-rate raises it`,
  }
}
