/**
 * Which saved weights a training run may be given.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import type { LoadWeightsRequest } from '#contract/wire/training/training-loops.js'
import type { NewTrainingSession } from '#service/storage/training-sessions/training-sessions.js'
import { notServed } from './errors.js'

export function assertOwnWeights({ weights_access_token: token }: LoadWeightsRequest): void {
  if (token !== null && token !== undefined) {
    throw notServed('weights_access_token', 'weights of other accounts cannot be loaded')
  }
}

export function assertOptimizer({ optimizer, path }: LoadWeightsRequest, kind: string): void {
  if (!optimizer || kind === 'weights') return
  throw new InvalidRequestError('no_optimizer_state', `"${path.slice(0, 300)}" has no state of the optimizer`, {
    hint: 'weights saved with save_state have one',
  })
}

type Shape = Pick<NewTrainingSession, 'baseModel' | 'rank' | 'alpha'>

export function assertSameShape(target: Shape, source: Shape): void {
  if (target.baseModel === source.baseModel && target.rank === source.rank && target.alpha === source.alpha) return
  const name = ({ baseModel, rank }: Shape): string => `base model "${baseModel}" and rank ${rank}`
  throw new InvalidRequestError(
    'adapter_shape_fixed',
    `the weights are of ${name(source)}, the training run has ${name(target)}`,
    { hint: 'create a training client from the state instead' },
  )
}
