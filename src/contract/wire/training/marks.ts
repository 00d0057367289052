/**
 * Marks: what a reader thinks of an answer, kept with a copy of the conversation, and the training file that is made of them. All
 * additions of ours.
 *
 * A mark stands on a trajectory a job trained on, on one that was logged, or on an answer of a chat. It outlives the trajectory,
 * because it has a copy of it, and goes with its model.
 */
import { z } from 'zod'
import { fileObjectSchema } from '../files.js'
import { laxInteger } from '../lax.js'
import { listSchema, pageQuerySchema } from '../list.js'
import { byBody } from '../maxima.js'
import { messageSchema } from '../trajectories.js'
import { MARK_FORMS, MARK_LEFT_OUT, MARK_SOURCES, MARKS, MAX_EDITED, MAX_NOTE } from './mark-words.js'

const count = z.number().int().nonnegative()
const index = laxInteger({ min: 0, max: 1_000_000_000 })

const said = {
  mark: z.enum(MARKS),
  /** What should have been said in the place of its last answer; only with `bad`. */
  edited: z.string().min(1).max(MAX_EDITED).nullish(),
  note: z.string().max(MAX_NOTE).nullish(),
}

/** Of a trajectory: the whole mark, in the place of one that is there. */
export const putMarkRequestSchema = z.object({
  ...said,
  /** Index of another trajectory of its group: this one is better (`good`) or worse (`bad`). */
  pair_with: index.nullish(),
})
export type PutMarkRequest = z.infer<typeof putMarkRequestSchema>

/** Of an answer of a chat, which nothing keeps but its mark. */
export const createMarkRequestSchema = z.object({
  ...said,
  /** All that was said before the answer. */
  messages: z.array(messageSchema).min(1).max(10_000),
  /** The message of the assistant that is marked. */
  answer: messageSchema,
  /** Another answer to the same: the marked one is better (`good`) or worse (`bad`). */
  other: messageSchema.nullish(),
  tools: z
    .array(byBody(z.looseObject({})))
    .max(1000)
    .nullish(),
  /** Step of the model that answered; 0 is the base model. */
  step: index.nullish(),
})
export type CreateMarkRequest = z.infer<typeof createMarkRequestSchema>

const messages = z.array(z.record(z.string(), z.json()))

export const markSchema = z.object({
  id: z.string(),
  object: z.literal('mark'),
  model_id: z.string(),
  mark: z.enum(MARKS),
  source: z.enum(MARK_SOURCES),
  /** Of a trajectory a job trained on. */
  training_job_id: z.string().nullable(),
  /** Of a logged one. */
  log_id: z.string().nullable(),
  /** Where it stands in its job or log; null for an answer of a chat. */
  group: count.nullable(),
  trajectory: count.nullable(),
  pair_with: count.nullable(),
  /** Step of the model that answered; null where nobody said. */
  step: count.nullable(),
  /** What stood before the first answer. */
  prompt: messages,
  /** From the first answer to the last; `weight: 0` stands in messages of the assistant that were not sampled. */
  answer: messages,
  edited: z.string().nullable(),
  /** The answer that it is compared with. */
  other: messages.nullable(),
  tools: messages.nullable(),
  note: z.string().nullable(),
  created_at: z.string(),
  updated_at: z.string(),
})
export type Mark = z.infer<typeof markSchema>

export const markListSchema = listSchema(markSchema)

export const listMarksQuerySchema = pageQuerySchema.extend({
  mark: z.enum(MARKS).optional(),
  training_job_id: z.string().max(200).optional(),
  log_id: z.string().max(200).optional(),
  group: index.optional(),
  trajectory: index.optional(),
})
export type ListMarksQuery = z.infer<typeof listMarksQuerySchema>

export const deletedMarkSchema = z.object({ id: z.string(), object: z.literal('mark'), deleted: z.literal(true) })
export type DeletedMark = z.infer<typeof deletedMarkSchema>

export const fileFromMarksRequestSchema = z.object({
  model_id: z.string().min(1).max(200),
  /** `sft`: good answers, and bad ones as they were edited. `dpo`: edited over bad ones, pairs, and good over bad ones of one prompt. */
  form: z.enum(MARK_FORMS),
})
export type FileFromMarksRequest = z.infer<typeof fileFromMarksRequestSchema>

export const fileFromMarksSchema = fileObjectSchema.extend({
  rows: count,
  marks: count,
  left_out: z.array(z.object({ reason: z.enum(MARK_LEFT_OUT), count })),
})
export type FileFromMarks = z.infer<typeof fileFromMarksSchema>
