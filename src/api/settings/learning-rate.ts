/**
 * A learning rate and a limit on updates by the size of a model, where they were measured: the published defaults suit models of
 * billions of parameters.
 */
import { SFT_DEFAULTS } from './training.js'

/** Parameters of models that come with the package. */
const BUILT_IN: Readonly<Record<string, number>> = { 'trainyard/spark': 4_500_000 }
/** Below so many parameters a model counts as tiny. */
export const TINY = 20_000_000
/**
 * Rates by size, smallest first; nothing larger was measured. spark learns at 1e-3 within a few jobs by RL and by examples, and falls
 * back at 4e-3; SmolLM2-135M learned at 3e-4 by RL, and by examples at rates up to 1e-3 that fall.
 */
const MEASURED = [
  { below: TINY, rate: 1e-3 },
  { below: 300_000_000, rate: 3e-4 },
]

/** The rate that was measured for a model of this size; null where none was. */
export function measuredLearningRate(baseModel: string): number | null {
  const parameters = parametersOf(baseModel)
  return MEASURED.find(({ below }) => parameters !== null && parameters < below)?.rate ?? null
}

/** Preferences push an answer away without end: at 1e-3 spark forgot to speak, at 1e-4 it learned eight pairs in twelve steps and still answers. */
export const TINY_PREFERENCE_RATE = 1e-4

/** The same for preferences. */
export function measuredPreferenceRate(baseModel: string): number | null {
  const parameters = parametersOf(baseModel)
  return parameters !== null && parameters < TINY ? TINY_PREFERENCE_RATE : null
}

/** The rate for examples when nobody gives one: the measured one, else the published default. */
export function learningRateFor(baseModel: string): number {
  return measuredLearningRate(baseModel) ?? SFT_DEFAULTS.learning_rate
}

/** Nats per token: at the rate above tiny models fall without a limit, and come back within a few jobs with this one. */
const TINY_TARGET_KL = 0.2

/**
 * `target_kl` of an RL job when nobody gives one: a limit where falls were seen; null for none, the published default. Larger models
 * were not seen to fall at their rate, and would pay for the measurement.
 */
export function targetKlFor(baseModel: string): number | null {
  const parameters = parametersOf(baseModel)
  return parameters !== null && parameters < TINY ? TINY_TARGET_KL : null
}

/** Parameters of a model that comes with the package, or those its name tells: `Qwen2.5-0.5B-Instruct`, `smollm2-135m`. */
export function parametersOf(name: string): number | null {
  const known = BUILT_IN[name]
  if (known !== undefined) return known
  const match = /(?:^|[-_/])(\d+(?:\.\d+)?)([mb])(?=$|[-_.])/i.exec(name)
  if (match === null) return null
  return Number(match[1]) * (match[2]?.toLowerCase() === 'b' ? 1e9 : 1e6)
}
