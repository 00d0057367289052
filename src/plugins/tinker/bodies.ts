/**
 * The body of a request for a loss: rows as protobuf, of which the server looks at the head before it stores them.
 */
import type { BinaryBody } from '#service/bodies/bodies.js'
import type { LossRead } from './read-loss.js'

export const LOSS_REQUEST: BinaryBody<LossRead> = {
  name: 'loss request',
  load: async () => (await import('./read-loss.js')).readLoss,
}
