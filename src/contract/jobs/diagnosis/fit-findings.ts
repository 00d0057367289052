/**
 * Rows of the table of findings about jobs on examples: what their losses say of whole answers, and what lowers them.
 *
 * A loss in nats per token says little to anybody; that of an answer as a whole is exp(-loss * tokens), the share of sampled
 * answers that come out as the example has them. Informal dates of 11 tokens at 0.165: 0.16, and 0.13 to 0.25 were right.
 */
import { type JobNumbers, short } from './course.js'
import type { Row } from './finding.js'

/** Answers that are longer are texts, of which none needs to come out as written. */
const LONGEST_ANSWER = 40
/** A loss that fell by less stands still. */
const STILL_FALLS = 0.98
/**
 * Share of whole answers above which a job did what it could, and below which one that stopped by itself says what is missing.
 */
const [NEARLY_ALL, HALF] = [0.9, 0.5]
/** Where as many answers hold what the base model cannot write, their loss says nothing else, and that was said of the rows. */
const MOSTLY_LOST = 0.5
/** Rows that were trained on are at this share of the held-out loss where they are known by heart. */
const BY_HEART = 0.5

interface Fit {
  readonly tokens: number
  readonly loss: number
  readonly before: number | undefined
  /** Loss of the rows that were trained on; that of held-out rows is `loss` where there are any. */
  readonly trained: number | undefined
  readonly isHeldOut: boolean
  /** Share of whole answers that come as the examples have them. */
  readonly whole: number
  readonly isFalling: boolean
}

function fitOf({ facts }: JobNumbers): Fit | null {
  const {
    answer_tokens: tokens = 0,
    trained,
    trained_before: trainedBefore,
    held_out: heldOut,
    lost_share: lostShare = 0,
    ...others
  } = facts['fit'] ?? {}
  const isHeldOut = heldOut !== undefined
  const [loss, before] = isHeldOut ? [heldOut, others['held_out_before']] : [trained, trainedBefore]
  if (loss === undefined || tokens === 0 || tokens > LONGEST_ANSWER || lostShare >= MOSTLY_LOST) return null
  const isFalling = before !== undefined && loss < STILL_FALLS * before
  return { tokens, loss, before, trained, isHeldOut, whole: Math.exp(-loss * tokens), isFalling }
}

/** @example '11 tokens come out as shown in about 16 of 100' */
const sayWhole = ({ tokens, whole }: Fit): string => {
  const right = 100 * whole
  const share = right < 1 ? 'less than 1' : `about ${Math.round(right)}`
  return `whole answers of ${Math.round(tokens)} token${Math.round(tokens) === 1 ? '' : 's'} come out as shown in ${share} of 100`
}

export const FIT_ROWS: readonly Row[] = [
  {
    name: 'cut_while_learning',
    about: 'job',
    when: ({ job }) => {
      const fit = fitOf(job)
      if (fit === null || !fit.isFalling || fit.whole >= NEARLY_ALL) return null
      return {
        says: `the ${fit.isHeldOut ? 'held-out ' : ''}loss still fell when the passes were over (from ${short(fit.before ?? 0)} to ${short(fit.loss)}): ${sayWhole(fit)}`,
        next: 'the same train sft again goes on from here',
      }
    },
  },
  {
    name: 'examples_used_up',
    about: 'job',
    when: ({ job }) => {
      const fit = fitOf(job)
      if (fit === null || !fit.isHeldOut || fit.isFalling || fit.whole >= HALF) return null
      const isByHeart = (fit.trained ?? 0) < BY_HEART * fit.loss
      return {
        says: `the held-out loss fell no further than ${short(fit.loss)}: ${sayWhole(fit)}${isByHeart ? `, while those it trained on are at ${short(fit.trained ?? 0)}` : ''}`,
        next: isByHeart
          ? 'more different examples lower it, more passes do not; rewards raise what is right now and then (rollout, train rl)'
          : 'the examples it trained on are hardly better: see that each prompt holds what its answer follows from, or take a larger base model',
      }
    },
  },
  {
    name: 'validation_worse',
    about: 'job',
    when: ({ job: { validation } }) => {
      const [before, ...after] = validation
      if (before === undefined || after.length === 0 || after.some((loss) => loss < before)) return null
      return {
        says: `validation loss never fell below ${before.toPrecision(4)}, its value before training`,
        next: 'lower the rate or look at the validation rows',
      }
    },
  },
]
