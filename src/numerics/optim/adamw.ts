/**
 * AdamW with decoupled weight decay, on host arrays in float32.
 *
 * Knows nothing of models: named parameters and gradients in, parameters changed in place. Moments are float32 as in
 * PyTorch, so that a saved state is exact. Source: Loshchilov and Hutter (arXiv:1711.05101), algorithm 2, in the order of
 * operations of `torch.optim.AdamW`; checked against it in `test/unit/numerics/optim/adamw.test.ts`.
 */
import { TrainingError } from '#base/errors/errors.js'

/** Settings of one update. */
export interface AdamWOptions {
  readonly learningRate: number
  readonly weightDecay: number
  /** Names of parameters that decay; default all. PyTorch's two parameter groups: norms and biases are usually left out. */
  readonly isDecayed?: (name: string) => boolean
  /** Decay of the first moment; default 0.9. */
  readonly beta1?: number
  /** Decay of the second moment; default 0.99, what ART trains with (PyTorch: 0.999). */
  readonly beta2?: number
  /** Default 1e-8. */
  readonly epsilon?: number
  /** Rate of a parameter as a multiple of the learning rate, as PyTorch's groups have rates of their own; default 1 for all. */
  readonly rateRatioOf?: (name: string) => number
}

/** Moments of one parameter, the same length as the parameter. */
export interface Moments {
  readonly first: Float32Array
  readonly second: Float32Array
}

/** The state an optimizer carries from update to update. */
export interface AdamWState {
  /** Updates made so far. */
  stepCount: number
  readonly moments: Map<string, Moments>
}

/** A state before the first update: moments are zero and made when a parameter is first seen. */
export function createAdamWState(): AdamWState {
  return { stepCount: 0, moments: new Map() }
}

/**
 * Makes one update: parameters and state change in place.
 *
 * @param parameters by name
 * @param gradients by the same names, same lengths; not changed
 * @throws {TrainingError} `parameter_mismatch` if a gradient or a stored moment is missing or has another length
 */
export function adamWStep(
  state: AdamWState,
  parameters: ReadonlyMap<string, Float32Array>,
  gradients: ReadonlyMap<string, Float32Array>,
  options: AdamWOptions,
): void {
  const { learningRate, weightDecay, isDecayed = () => true, beta1 = 0.9, beta2 = 0.99, epsilon = 1e-8 } = options
  const { rateRatioOf = () => 1 } = options
  state.stepCount++
  const correction1 = 1 - beta1 ** state.stepCount
  const correction2 = Math.sqrt(1 - beta2 ** state.stepCount)
  for (const [name, parameter] of parameters) {
    const gradient = gradients.get(name)
    let moments = state.moments.get(name)
    if (moments === undefined) {
      moments = { first: new Float32Array(parameter.length), second: new Float32Array(parameter.length) }
      state.moments.set(name, moments)
    }
    const { first, second } = moments
    if (gradient === undefined || gradient.length !== parameter.length || first.length !== parameter.length) {
      throw new TrainingError(
        'parameter_mismatch',
        `parameter "${name}" has ${parameter.length} elements, its gradient ${gradient?.length ?? 'none'}, its moments ${first.length}`,
      )
    }
    const rate = learningRate * rateRatioOf(name)
    const stepSize = rate / correction1
    const decay = isDecayed(name) ? 1 - rate * weightDecay : 1
    for (let i = 0; i < parameter.length; i++) {
      const g = gradient[i] as number
      const m = (first[i] as number) * beta1 + g * (1 - beta1)
      const v = (second[i] as number) * beta2 + g * g * (1 - beta2)
      first[i] = m
      second[i] = v
      parameter[i] = (parameter[i] as number) * decay - (stepSize * m) / (Math.sqrt(v) / correction2 + epsilon)
    }
  }
}
