/**
 * What a training job tells about itself on its record: what was left out and why, tokens, where the time went, validation,
 * and sentences about what looks wrong.
 */
import { z } from 'zod'
import { TRAINER_NAMES } from '../../settings/service.js'
import { atMost, numbersByName } from '../maxima.js'

/** Measurements that a report has at most: of a job that measures more often, the last ones. */
export const MAX_MEASUREMENTS = 2000
/** Sentences and examples of one report. */
const MAX_SENTENCES = 100
const sentence = z.string().max(4000)

const fieldsSchema = z.object({
  /** What computes the gradients, and with which versions on which device; null before that is known. */
  trainer: z
    .object({ name: z.enum(TRAINER_NAMES), description: z.string().max(500) })
    .nullable()
    .default(null),
  /** What of the data did not train. */
  left_out: z
    .array(
      z.object({
        /** For example `overlength`, `zero_advantage`, `untrainable`, `validation_overlength`. */
        reason: z.string().max(100),
        count: z.number().int(),
        /** The first of them: `line 3`, `trajectory_groups[0].trajectories[2]`. */
        examples: z.array(z.string().max(500)).max(MAX_SENTENCES),
      }),
    )
    .max(MAX_SENTENCES),
  /** Tokens that went through the train graph, without padding, and those of them that trained; epochs count. */
  tokens: z.number().int(),
  trained_tokens: z.number().int(),
  /** Seconds by part, of the attempt that runs or ran last. `gradient` is forward and backward pass together: one graph. */
  seconds: numbersByName(50),
  /**
   * What the validation rows said after so many gradient steps: the mean loss, of preferences `rewards/margins` and the like
   * too. The first is before training.
   */
  validation: z
    .array(atMost(z.object({ gradient_step: z.number().int(), loss: z.number() }).catchall(z.number()), 50))
    .max(MAX_MEASUREMENTS),
  /** Gradient steps behind the checkpoint's weights, when they are not all of the job's. */
  kept_gradient_step: z.number().int().nullable(),
  stopped_early: z.boolean(),
  /** Further figures by topic. */
  facts: atMost(z.record(z.string(), numbersByName(100)), 100),
  /** Estimated seconds to the end when this was written; null before the first gradient step. */
  remaining_seconds: z.number().nullable(),
  /** Sentences; they stand among the job's `warnings`. */
  warnings: z.array(sentence).max(MAX_SENTENCES),
})
/** Characters of a report as JSON: the trainer's own have some thousands. */
const MAX_REPORT = 512 * 1024

export const jobReportSchema = fieldsSchema.refine((report) => JSON.stringify(report).length <= MAX_REPORT, {
  error: `must have at most ${MAX_REPORT} characters`,
})
export type JobReport = z.infer<typeof jobReportSchema>
