/**
 * Options of training jobs as `GET /v1/preview/training-options` lists them, made of the tables of `contract/jobs/`: a form or a program
 * shows each with its default and writes none of them down.
 */
import { z } from 'zod'
import { JOB_KINDS } from '../job-words.js'

export const trainingOptionsQuerySchema = z.object({
  kind: z.enum(JOB_KINDS).optional(),
  base_model: z.string().min(1).max(512).optional(),
})
export type TrainingOptionsQuery = z.infer<typeof trainingOptionsQuerySchema>

/** An option that is an object holds others; those hold none. */
const innerOptionSchema = z.object({
  name: z.string(),
  /** `names`: a list of choices, or one text with commas; `fields`: an object of the caller's own. */
  type: z.enum(['number', 'integer', 'boolean', 'choice', 'names', 'text', 'object', 'fields']),
  summary: z.string(),
  /** What the API takes where nothing is said; null: nothing, or what `otherwise` says. */
  default: z.json(),
  /** What the command line and the page ask for where nobody says otherwise; null: the default. */
  suggested: z.json(),
  /** Why: the size of the base model, or advice for every model. */
  suggested_by: z.enum(['size', 'advice']).nullable(),
  /** What counts where nothing is given, in words. */
  otherwise: z.string().nullable(),
  /** Of a number, inclusive. */
  bounds: z.object({ min: z.number().nullable(), max: z.number().nullable() }).nullable(),
  /** Of a choice, and of names. */
  choices: z.array(z.string()).nullable(),
  /** May be given instead of a number. */
  word: z.string().nullable(),
  /** One number a batch may be given instead. */
  takes_list: z.boolean(),
  /** Whether most jobs are told it. */
  is_common: z.boolean(),
  /** It has no effect without this. */
  needs: z.string().nullable(),
})
export const trainingOptionSchema = innerOptionSchema.extend({ options: z.array(innerOptionSchema).nullable() })
export type TrainingOption = z.infer<typeof trainingOptionSchema>

const kindOptionsSchema = z.object({
  kind: z.enum(JOB_KINDS),
  /** Key of the request that the options stand in. */
  root: z.string(),
  /** What it counts in its data, as `example`. */
  row: z.string(),
  options: z.array(trainingOptionSchema),
})
export type KindOptions = z.infer<typeof kindOptionsSchema>

export const trainingOptionsSchema = z.object({
  object: z.literal('training_options'),
  base_model: z.string().nullable(),
  /** Of the base model; null where none was named, or nobody knows them. */
  parameters: z.number().nullable(),
  data: z.array(kindOptionsSchema),
})
export type TrainingOptions = z.infer<typeof trainingOptionsSchema>
