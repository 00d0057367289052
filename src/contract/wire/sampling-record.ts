/**
 * `sampling` of a choice: the distribution that its tokens were drawn from. Stands wherever a choice's token ids do, and only where they
 * were not drawn plainly: at temperature 1, from the whole vocabulary, by nothing but the model's own logits.
 *
 * Only shapes and bounds are described here. That counts sum to the ids, and that a set holds the token drawn from it, is checked where rows
 * are read (`formats/rows/sampling-record.ts`), with the path of what is wrong.
 */
import { z } from 'zod'
import {
  LONGEST_UNMODELLED_NAME,
  MOST_KEPT_IDS,
  MOST_RECORDED_IDS,
  MOST_RECORDED_TOKENS,
  MOST_UNMODELLED_NAMES,
} from '#base/sampling-record.js'

export const samplingRecordSchema = z.object({
  /** What logits were divided by; 0: the most likely token was taken. */
  temperature: z.number().min(0),
  /** 1: off. */
  top_p: z.number().min(0).max(1),
  /** 0: off. */
  top_k: z.number().int().min(0),
  /** 0: off. */
  min_p: z.number().min(0).max(1),
  /**
   * log q of each token of the choice: q(a) = exp(z_a / T) / sum of exp(z_k / T) over the tokens k that could be drawn.
   * Null: the engine told those of the raw logits alone.
   */
  logprobs: z.array(z.number().max(0)).max(MOST_RECORDED_TOKENS).nullable(),
  /** The tokens that could be drawn. */
  kept: z.object({
    /** Of each token of the choice: how many of `ids` are its set, itself among them; 0: all tokens. */
    counts: z.array(z.number().int().min(0).max(MOST_KEPT_IDS)).max(MOST_RECORDED_TOKENS),
    /** The sets, one behind the other. */
    ids: z.array(z.number().int().min(0)).max(MOST_RECORDED_IDS),
  }),
  /** Fields whose effect temperature and sets do not say; those that only leave tokens out mean the tokens without a set. */
  unmodelled: z.array(z.string().max(LONGEST_UNMODELLED_NAME)).max(MOST_UNMODELLED_NAMES),
})
export type SamplingRecord = z.infer<typeof samplingRecordSchema>
