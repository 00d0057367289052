/**
 * The train, score and logits graphs of a decoder: rows and adapters in, losses and adapter gradients out.
 *
 * The backward pass is part of the graph. The loss is differentiated to the log-probabilities, the head's own rule takes that
 * to the hidden states (`numerics/nn/fused-head.ts`), and autodiff from there to the adapters.
 */
import type { Formula } from '#base/formula/formula.js'
import { frozenLinearRule } from '#model/architectures/integer/frozen-integer.js'
import { backward } from '#numerics/autodiff/backward.js'
import { blocksByScope } from '#numerics/autodiff/recompute.js'
import { GraphBuilder } from '#numerics/graph/builder.js'
import type { Graph, Value } from '#numerics/graph/graph.js'
import { neg } from '#numerics/graph/ops/elementwise.js'
import { gemm } from '#numerics/graph/ops/matmul.js'
import { crossEntropy } from '#numerics/nn/cross-entropy.js'
import { emitFormula } from '#numerics/nn/formula.js'
import { fusedHead, type HeadOutputs, type HeadSlopes, headGradient } from '#numerics/nn/fused-head.js'
import { type PolicyLossOptions, policyLoss, readsSequences } from '#numerics/nn/policy-loss.js'
import { type PreferenceLossOptions, preferenceLoss } from '#numerics/nn/preference-loss.js'
import { type SummedLossForm, summedLoss } from '#numerics/nn/summed-loss.js'
import { type EmittedDecoder, emitDecoder, type RowModel } from './row-decoder.js'

/** Gradients of what only our frozen layers are made of. */
const FROZEN_RULES = new Map([['FrozenLinear', frozenLinearRule]])

/** Which loss a train graph has. */
export type LossKind =
  | { readonly kind: 'cross_entropy'; readonly formula?: Formula | null }
  | { readonly kind: 'policy'; readonly options: PolicyLossOptions }
  | { readonly kind: 'preference'; readonly options: PreferenceLossOptions }
  | { readonly kind: 'summed'; readonly form: SummedLossForm }

/** What is made again from the joined products where layers are kept: norms and activations, a hundredth of the time for two fifths of the memory. */
const CHEAP_BLOCKS: ReadonlyMap<string, string> = new Map([
  ['attention_norm', 'qkv'],
  ['qkv', 'qkv'],
  ['mlp_norm', 'gate_up'],
  ['gate_up', 'gate_up'],
  ['activation', 'down'],
  ['down', 'down'],
])

function cheapBlocks(scope: string): string | null {
  const [layer = '', part = ''] = scope.split('/')
  const block = CHEAP_BLOCKS.get(part)
  return block === undefined ? null : `${layer}/${block}`
}

/** Name of the output that carries an adapter tensor's gradient. */
export function gradientName(tensorName: string): string {
  return `gradient:${tensorName}`
}

/**
 * Builds the train graph.
 *
 * Inputs: those of `toRowBatch`, rotary tables `cos` and `sin`, the adapter tensors, `denominator` []; `weight` [N], but for
 * preferences `pairs` [N, Pairs], `reference_margin` [Pairs] (but for ORPO; of formulas `reference_chosen` and
 * `reference_rejected`), of KTO `answer_weights` [Pairs], and, with an SFT term, `chosen_share` [N]; for RL
 * also `old_logp`, `advantage`, `mask` [N] and, where the options need them, `segments` [N, G], `reference_logp`, `kl_mean` [],
 * `sampler_logp`; for a summed loss neither weight nor denominator, but `old_logp`, `advantage`, `mask` [N] and `low`, `high`,
 * `half_beta` []. Outputs: `loss` [], `logp` and `entropy` [N], for RL `ratio` [N], and one gradient per adapter tensor.
 *
 * @param options.isRecomputed whole layers are computed again in the backward pass, not only norms and activations; same numbers. Default false
 */
export function buildTrainGraph(
  model: RowModel,
  loss: LossKind,
  options: { readonly isRecomputed?: boolean } = {},
): Graph {
  const g = new GraphBuilder('train')
  const decoder = emitDecoder(g, model)
  const isEntropyTrained = readsEntropy(loss)
  const head = emitHead(g, decoder, {
    slopes: isEntropyTrained ? 'logp_and_entropy' : 'logp',
    hasKeptSets: model.hasKeptSets,
  })
  const total = emitLoss(g, head, loss)
  const one = g.scalar(1)
  const read = [head.logp, ...(isEntropyTrained ? [head.entropy] : [])]
  const slopes = [head.slope, ...(isEntropyTrained ? [head.entropySlope] : [])]
  const outputGradients = backward(g, [{ value: total.loss, gradient: one }], read)
  const rowOfPosition = g.input('row_of_position', 'int64', ['B*T'])
  const parts = outputGradients.map((gradient, i) => {
    const slope = slopes[i] ?? null
    if (slope === null) throw new Error('the train graph needs the slope of the head')
    return { gradient, slope }
  })
  if (parts.length !== read.length) throw new Error('the loss does not depend on the log-probabilities')
  const hiddenGradient = headGradient(g, parts, rowOfPosition)
  const parameters = [...decoder.adapter]
  const gradients = backward(
    g,
    [{ value: decoder.hidden, gradient: hiddenGradient }],
    parameters.map(([, value]) => value),
    {
      rules: FROZEN_RULES,
      recompute: options.isRecomputed === true ? blocksByScope((first) => first.startsWith('layers.')) : cheapBlocks,
    },
  )
  g.output(total.loss, 'loss')
  g.output(head.logp, 'logp')
  g.output(head.entropy, 'entropy')
  if (total.ratio !== null) g.output(total.ratio, 'ratio')
  parameters.forEach(([name], index) => {
    const gradient = gradients[index]
    if (gradient === undefined) throw new Error(`no gradient for ${name}`)
    g.output(gradient, gradientName(name))
  })
  return g.build()
}

/** Builds the score graph: the inputs of `toRowBatch` and the adapter in, `logp` and `entropy` [N] out. */
export function buildScoreGraph(model: RowModel): Graph {
  const g = new GraphBuilder('score')
  const head = emitHead(g, emitDecoder(g, model), { slopes: null, hasKeptSets: model.hasKeptSets })
  g.output(head.logp, 'logp')
  g.output(head.entropy, 'entropy')
  return g.build()
}

/** Builds a graph that returns all logits [B*T, V]; for checks on small models. */
export function buildLogitsGraph(model: RowModel): Graph {
  const g = new GraphBuilder('logits')
  const decoder = emitDecoder(g, model)
  g.output(gemm(g, decoder.hidden, decoder.headWeight, { transB: true }), 'logits')
  return g.build()
}

function emitHead(
  g: GraphBuilder,
  decoder: EmittedDecoder,
  { slopes, hasKeptSets = false }: { readonly slopes: HeadSlopes; readonly hasKeptSets: boolean | undefined },
): HeadOutputs {
  const labelPositions = g.input('label_positions', 'int64', ['Q', 'C'])
  const labels = g.input('labels', 'int64', ['Q', 'C'])
  const inverseTemperature = g.input('inverse_temperature', 'float32', ['Q', 'C'])
  const kept = hasKeptSets
    ? { ids: g.input('kept_ids', 'int64', ['Q', 'C', 'Kept']), isLimited: g.input('is_limited', 'bool', ['Q', 'C']) }
    : undefined
  const { hidden, headWeight: weight } = decoder
  return fusedHead(g, { hidden, weight, labelPositions, labels, inverseTemperature, kept }, { slopes })
}

/** Whether a loss reads the entropy of the distributions, besides the log-probabilities. */
export function readsEntropy(loss: LossKind): boolean {
  return loss.kind === 'policy' && loss.options.entropyCoefficient > 0
}

/** Emits a loss of the log-probabilities [N] of the trained tokens and, where it reads them, their entropies [N]; further inputs as `buildTrainGraph` says. */
export function emitLoss(
  g: GraphBuilder,
  { logp, entropy }: Pick<HeadOutputs, 'logp' | 'entropy'>,
  loss: LossKind,
): { readonly loss: Value; readonly ratio: Value | null } {
  const perToken = (name: string): Value => g.input(name, 'float32', ['C*Q'])
  if (loss.kind === 'summed') return { loss: emitSummedLoss(g, logp, loss.form), ratio: null }
  const denominator = g.input('denominator', 'float32', [])
  if (loss.kind === 'preference') {
    const pairs = g.input('pairs', 'float32', ['C*Q', 'Pairs'])
    const { loss: name } = loss.options
    const perPair = (input: string): Value => g.input(input, 'float32', ['Pairs'])
    const reference =
      name === 'formula' ? { chosen: perPair('reference_chosen'), rejected: perPair('reference_rejected') } : null
    const inputs = {
      logp,
      pairs,
      referenceMargin: name === 'orpo' || reference !== null ? null : perPair('reference_margin'),
      reference,
      denominator,
      answerWeights: name === 'kto' ? perPair('answer_weights') : null,
      chosenShare: loss.options.sftWeight === 0 ? null : perToken('chosen_share'),
    }
    return { loss: preferenceLoss(g, inputs, loss.options), ratio: null }
  }
  const weight = perToken('weight')
  if (loss.kind === 'cross_entropy') {
    const gain = loss.formula == null ? logp : neg(g, emitFormula(g, loss.formula, { inputs: { logp } }))
    return { loss: crossEntropy(g, gain, weight, denominator), ratio: null }
  }
  const { options } = loss
  const inputs = {
    logp,
    weight,
    denominator,
    oldLogp: perToken('old_logp'),
    advantage: perToken('advantage'),
    mask: perToken('mask'),
    segments: readsSequences(options) ? g.input('segments', 'float32', ['C*Q', 'G']) : null,
    entropy: options.entropyCoefficient > 0 ? entropy : null,
    referenceLogp: options.kl === null && options.klBeta === 0 ? null : perToken('reference_logp'),
    klMean: options.kl?.isMeanGiven === true ? g.input('kl_mean', 'float32', []) : null,
    samplerLogp: options.truncation?.source === 'precalculated' ? perToken('sampler_logp') : null,
  }
  return policyLoss(g, inputs, options)
}

function emitSummedLoss(g: GraphBuilder, logp: Value, form: SummedLossForm): Value {
  const perToken = (name: string): Value => g.input(name, 'float32', ['C*Q'])
  const setting = (name: string): Value => g.input(name, 'float32', [])
  const inputs = {
    logp,
    oldLogp: perToken('old_logp'),
    advantage: perToken('advantage'),
    mask: perToken('mask'),
    low: setting('low'),
    high: setting('high'),
    halfBeta: setting('half_beta'),
  }
  return summedLoss(g, inputs, form)
}
