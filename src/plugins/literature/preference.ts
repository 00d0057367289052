/**
 * Losses of a preference pair, by TRL's names. `chosen` and `rejected` are how much more likely each answer is than under the
 * reference; β is the job's `beta`. Compared in `test/plugins/literature` with formulas of their own and with TRL's `DPOTrainer`.
 */
import type { FormulaMath, Term } from '#base/formula/formula.js'
import type { LossDefinition } from '#contract/jobs/losses.js'

/**
 * Robust DPO: DPO's loss without the bias that wrong labels, a share ε of all, put on it.
 *
 * Source: arXiv:2403.00409, equation 12. ε is `label_smoothing`, 0.1 where nothing is said: at 0 it is DPO.
 */
const robust: LossDefinition = {
  kind: 'dpo',
  name: 'robust',
  summary: 'DPO where a share label_smoothing of the pairs is labelled wrongly',
  source: 'arXiv:2403.00409',
  like: 'sigmoid',
  sets: { label_smoothing: 0.1 },
  loss({ chosen, rejected }, { sub, mul, div, neg, logSigmoid }, { beta = 0.1, label_smoothing: share = 0.1 }) {
    const z = mul(sub(chosen, rejected), beta)
    const loss = sub(mul(logSigmoid(neg(z)), share), mul(logSigmoid(z), 1 - share))
    return div(loss, 1 - 2 * share)
  },
}

/**
 * EXO: the reverse divergence between the two answers' shares under the policy and those of a preference that is 1 − ε sure.
 *
 * Source: arXiv:2402.00856, equation 16; ε 1e-3, the `label_smoothing` of TRL where nothing is said.
 */
const exo: LossDefinition = {
  kind: 'dpo',
  name: 'exo_pair',
  summary: 'the reverse divergence from the preference (EXO)',
  source: 'arXiv:2402.00856',
  like: 'sigmoid',
  sets: { label_smoothing: 1e-3 },
  loss(
    { chosen, rejected },
    { add, sub, mul, neg, sigmoid, logSigmoid },
    { beta = 0.1, label_smoothing: share = 1e-3 },
  ) {
    const z = mul(sub(chosen, rejected), beta)
    const right = mul(sigmoid(z), sub(logSigmoid(z), Math.log(1 - share)))
    return add(right, mul(sigmoid(neg(z)), sub(logSigmoid(neg(z)), Math.log(share))))
  },
}

/**
 * BCO: a classifier of good and bad answers whose logit is an answer's gain.
 *
 * Source: arXiv:2404.04656, equation 8, as TRL has it: without the running shift of rewards of its section 4.
 */
const bco: LossDefinition = {
  kind: 'dpo',
  name: 'bco_pair',
  summary: 'a classifier of good and bad answers (BCO)',
  source: 'arXiv:2404.04656',
  like: 'hinge',
  loss: ({ chosen, rejected }, { sub, mul, neg, logSigmoid }, { beta = 0.1 }) =>
    sub(neg(logSigmoid(mul(chosen, beta))), logSigmoid(neg(mul(rejected, beta)))),
}

/**
 * NCA: each answer's own likelihood counts, so that the chosen one's does not fall with the rejected one's.
 *
 * Source: arXiv:2402.05369, equation 11, for two answers.
 */
const nca: LossDefinition = {
  kind: 'dpo',
  name: 'nca_pair',
  summary: "noise contrast of each answer's own likelihood (NCA)",
  source: 'arXiv:2402.05369',
  like: 'hinge',
  loss({ chosen, rejected }, { add, mul, neg, logSigmoid }, { beta = 0.1 }) {
    const [good, bad] = [mul(chosen, beta), mul(rejected, beta)]
    const pushed = add(logSigmoid(neg(good)), logSigmoid(neg(bad)))
    return neg(add(logSigmoid(good), mul(pushed, 0.5)))
  },
}

/**
 * SPPO: each answer's gain is drawn to half of 1/β, up or down, as if the preference were sure.
 *
 * Source: arXiv:2405.00675, equation 4.7.
 */
const sppo: LossDefinition = {
  kind: 'dpo',
  name: 'sppo_hard',
  summary: 'gains are drawn to half of 1/beta and its negative (SPPO)',
  source: 'arXiv:2405.00675',
  like: 'hinge',
  loss({ chosen, rejected }, { add, sub, mul }, { beta = 0.1 }) {
    const [good, bad] = [sub(chosen, 0.5 / beta), add(rejected, 0.5 / beta)]
    return add(mul(good, good), mul(bad, bad))
  },
}

/**
 * APO: anchored. `apo_zero` raises the chosen answer and lowers the rejected one, `apo_down` lowers both, the rejected one more.
 *
 * Source: arXiv:2408.06266, section 4.
 */
const apoZero: LossDefinition = {
  kind: 'dpo',
  name: 'apo_zero',
  summary: 'the chosen answer up, the rejected one down (APO)',
  source: 'arXiv:2408.06266',
  like: 'hinge',
  loss: ({ chosen, rejected }, { add, sub, mul, sigmoid }, { beta = 0.1 }) =>
    add(sub(1, sigmoid(mul(chosen, beta))), sigmoid(mul(rejected, beta))),
}
const apoDown: LossDefinition = {
  ...apoZero,
  name: 'apo_down',
  summary: 'both answers down, the rejected one more: for models better than the chosen answers (APO)',
  loss: ({ chosen, rejected }, { add, sub, mul, sigmoid }, { beta = 0.1 }) =>
    add(sigmoid(mul(chosen, beta)), sub(1, sigmoid(mul(sub(chosen, rejected), beta)))),
}

/** `sigmoid`'s loss of a distance, a share of the pairs labelled wrongly. */
function logistic(
  distance: Term,
  { mul, neg, add, logSigmoid }: FormulaMath,
  o: Readonly<Record<string, number>>,
): Term {
  const { beta = 0.1, label_smoothing: share = 0 } = o
  const z = mul(distance, beta)
  return neg(add(mul(logSigmoid(z), 1 - share), mul(logSigmoid(neg(z)), share)))
}

/**
 * AOT: the margins of a step's pairs shall be larger than the reference's at every quantile. The k-th smallest of the one is
 * compared with the k-th smallest of the other, whichever pairs they are of.
 *
 * Source: arXiv:2406.05882, section 3; the paired form, and below the one that needs no pairs.
 */
const aot: LossDefinition = {
  kind: 'dpo',
  name: 'aot',
  summary: "margins above the reference's at every quantile of the step (AOT)",
  source: 'arXiv:2406.05882',
  like: 'sigmoid',
  loss({ chosen, rejected, chosenReference, rejectedReference }, math, o) {
    const reference = math.sub(chosenReference, rejectedReference)
    const margin = math.add(math.sub(chosen, rejected), reference)
    return logistic(math.sub(math.batchSort(margin), math.batchSort(reference)), math, o)
  },
}
const aotUnpaired: LossDefinition = {
  ...aot,
  name: 'aot_unpaired',
  summary: 'gains of chosen answers above those of rejected ones at every quantile of the step (AOT)',
  loss: ({ chosen, rejected }, math, o) =>
    logistic(math.sub(math.batchSort(chosen), math.batchSort(rejected)), math, o),
}

export const PREFERENCE_LOSSES: readonly LossDefinition[] = [
  ...[robust, exo, bco, nca, sppo, apoZero, apoDown],
  ...[aot, aotUnpaired],
]
