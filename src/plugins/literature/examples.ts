/**
 * Losses of a token of a good example.
 */
import type { LossDefinition } from '#contract/jobs/losses.js'

/**
 * DFT: cross-entropy times the probability of the token, which takes back how strongly it pulls at what is unlikely.
 *
 * Source: arXiv:2508.05629, equation 9; TRL's `dft_loss`.
 */
const dft: LossDefinition = {
  kind: 'sft',
  name: 'dft',
  summary: "cross-entropy times the token's probability",
  source: 'arXiv:2508.05629',
  like: 'nll',
  loss: ({ logp }, { mul, neg, exp, stop }) => neg(mul(stop(exp(logp)), logp)),
}

export const EXAMPLE_LOSSES: readonly LossDefinition[] = [dft]
