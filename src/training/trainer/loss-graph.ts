/**
 * The graph of a loss without the decoder: log-probabilities in; the loss and its gradient by each of them out.
 *
 * For engines that compute log-probabilities outside ONNX Runtime (the plugin `torch`). They use the
 * same formulas as the train graph, so every loss and option that it has works there too.
 */
import { backward } from '#numerics/autodiff/backward.js'
import { GraphBuilder } from '#numerics/graph/builder.js'
import type { Graph } from '#numerics/graph/graph.js'
import { reshape } from '#numerics/graph/ops/shape.js'
import { emitLoss, type LossKind, readsEntropy } from './train-graph.js'

/**
 * Builds the graph.
 *
 * Inputs: `logp` [Q, C], N in all, with an entropy bonus `entropy` [Q, C], and what the loss takes (see `buildTrainGraph`). Outputs: `loss` [],
 * `logp_gradient` [N], with an entropy bonus `entropy_gradient` [N], for RL `ratio` [N].
 */
export function buildLossGraph(loss: LossKind): Graph {
  const g = new GraphBuilder('loss')
  // in the chunks of the head, whose sizes the inputs of losses are products of
  const perToken = (name: string) => reshape(g, g.input(name, 'float32', ['Q', 'C']), [-1])
  const logp = perToken('logp')
  const isEntropyRead = readsEntropy(loss)
  // a loss that does not read it never asks for it
  const entropy = isEntropyRead ? perToken('entropy') : logp
  const total = emitLoss(g, { logp, entropy }, loss)
  const read = isEntropyRead ? [logp, entropy] : [logp]
  const [slope, entropySlope] = backward(g, [{ value: total.loss, gradient: g.scalar(1) }], read)
  if (slope === undefined) throw new Error('the loss does not depend on the log-probabilities')
  g.output(total.loss, 'loss')
  g.output(slope, 'logp_gradient')
  if (entropySlope !== undefined) g.output(entropySlope, 'entropy_gradient')
  if (total.ratio !== null) g.output(total.ratio, 'ratio')
  return g.build()
}
