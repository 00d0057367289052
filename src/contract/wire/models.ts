/**
 * Models: a named policy that is trained from a base model. The form is the hosted service's.
 *
 * `step` and `created_at` are additions of ours. List and get do not exist upstream.
 */
import { z } from 'zod'
import { laxBoolean, laxInteger } from './lax.js'
import { listSchema, pageQuerySchema } from './list.js'
import { MODEL_ORDERS } from './model-orders.js'

const nameSchema = z.string().min(1).max(256)

/** Ids of two uploaded files: `adapter_config.json`, and `adapter_model.safetensors` (of mlx-lm `adapters.safetensors`). */
const adapterFilesSchema = z.object({ adapter_config: z.string().max(200), adapter_model: z.string().max(200) })

export const createModelRequestSchema = z
  .object({
    project: nameSchema,
    name: nameSchema,
    /** Required unless `from_checkpoint` names a model, whose base model it then is. */
    base_model: z.string().min(1).max(1024).nullish(),
    /** An addition of ours: the new model begins as this checkpoint, named as in a chat request (`name:step3`). */
    from_checkpoint: z.string().min(1).max(1024).nullish(),
    /** An addition of ours: the new model begins as this adapter, in the layout of PEFT or mlx-lm; ids of two uploaded files. */
    from_adapter: adapterFilesSchema.nullish(),
    /** Must be the key's own entity when given. */
    entity: z.string().max(256).nullish(),
    /** True: a model of that name is returned instead of a conflict. Default false. */
    return_existing: laxBoolean().nullish(),
  })
  .superRefine((request, issues) => {
    const problem = (path: string, type: string, message: string): void =>
      issues.addIssue({ code: 'custom', path: [path], message, params: { type } })
    const hasCheckpoint = (request.from_checkpoint ?? null) !== null
    if ((request.base_model ?? null) === null && !hasCheckpoint) problem('base_model', 'missing', 'Field required')
    if (hasCheckpoint && (request.from_adapter ?? null) !== null) {
      problem('from_adapter', 'value_error', 'Give from_checkpoint or from_adapter, not both')
    }
  })
export type CreateModelRequest = z.infer<typeof createModelRequestSchema>

export const modelSchema = z.object({
  id: z.string(),
  entity: z.string(),
  project: z.string(),
  name: z.string(),
  base_model: z.string(),
  run_id: z.string().nullable(),
  /** Step of the newest checkpoint ever made; 0 before the first training job ends. */
  step: z.number().int(),
  /** ISO 8601, UTC. */
  created_at: z.string(),
  /** In the answer that made it from an adapter: sentences, what of the adapter was not read. */
  warnings: z.array(z.string()).optional(),
})
export type Model = z.infer<typeof modelSchema>

const tagSchema = z.string().trim().min(1).max(40)

/** Body of `PUT /v1/preview/models/{model_id}/note`: what somebody writes about a model, for people. An addition of ours. */
export const setModelNoteSchema = z.object({
  description: z.string().trim().max(2000),
  /** Words to find it by; one that comes twice counts once. */
  tags: z
    .array(tagSchema)
    .max(16)
    .transform((tags) => [...new Set(tags)]),
})

export const modelNoteSchema = z.object({
  model_id: z.string(),
  /** Empty where nobody wrote one. */
  description: z.string(),
  tags: z.array(z.string()),
})
export type ModelNote = z.infer<typeof modelNoteSchema>

/** How a metric of a model went. */
const metricSummarySchema = z.object({
  last: z.number(),
  last_step: z.number().int(),
  /** The lowest of losses, errors and divergences, the highest of everything else; of equals the newest. */
  best: z.number(),
  best_step: z.number().int(),
  /** Up to 30 values in the order of their steps, peaks among them. */
  spark: z.array(z.number()),
})

/** What a list of models shows beside a name, with `include=summary`. */
export const modelSummarySchema = z.object({
  /** Those that exist. */
  checkpoints: z.number().int(),
  /** Of their files; models may share some. */
  size_bytes: z.number().int(),
  /** When its newest job moved or its newest log came, else when it was made; of a running job the time of the answer. */
  last_active_at: z.string(),
  /** The job that runs, else the one that comes next; null for none. */
  running_job: z
    .object({
      id: z.string(),
      kind: z.string(),
      status: z.string(),
      gradient_steps: z.number().int(),
      num_sequences: z.number().int().nullable(),
    })
    .nullable(),
  /** Rewards of every split, and losses of training and validation, by full name. */
  metrics: z.record(z.string(), metricSummarySchema),
  /** Sentences of the newest job's report. */
  warnings: z.array(z.string()),
  /** What somebody wrote about it; empty where nobody did. Absent from older servers, as `tags`. */
  description: z.string().optional(),
  tags: z.array(z.string()).optional(),
  /** With `include=options`: every option of its newest job; null without one. */
  options: z.record(z.string(), z.json()).nullable().optional(),
})
export type ModelSummary = z.infer<typeof modelSummarySchema>
export type MetricSummary = z.infer<typeof metricSummarySchema>

/** A model of a list. */
export const listedModelSchema = modelSchema.extend({ summary: modelSummarySchema.optional() })
export type ListedModel = z.infer<typeof listedModelSchema>

export const modelListSchema = listSchema(listedModelSchema)

export const listModelsQuerySchema = pageQuerySchema.extend({
  query: z.string().max(256).optional(),
  sort: z.enum(MODEL_ORDERS).optional(),
  include: z.enum(['summary', 'options']).optional(),
  entity: z.string().max(256).optional(),
  project: z.string().max(256).optional(),
  name: z.string().max(256).optional(),
  base_model: z.string().max(1024).optional(),
})
export type ListModelsQuery = z.infer<typeof listModelsQuerySchema>

export const deleteModelResponseSchema = z.object({
  model_id: z.string(),
  deleted_checkpoints: z.number().int(),
  deleted_run: z.boolean(),
})
export type DeleteModelResponse = z.infer<typeof deleteModelResponseSchema>

/** `GET /v1/preview/base-models`: names a model may be created from. */
export const baseModelsResponseSchema = z.array(z.string())

/** Body of `POST /v1/preview/base-models`: one of `hub`, `path`, and `base_model` with `from_adapter`. An addition of ours, as all that follows it. */
export const addBaseModelRequestSchema = z.strictObject({
  /** Name that models are created from it by. Default: the hub's. Required with `path`. */
  name: z.string().min(1).max(200).nullish(),
  /** Repository of a model hub, `organisation/name`. The server downloads it from the hub that its operator chose. */
  hub: z.string().min(1).max(200).nullish(),
  /** Branch, tag or commit of the repository. Default `main`. */
  revision: z.string().min(1).max(200).nullish(),
  /** One GGUF file of the repository: its name, or its quantization (`Q8_0`). */
  file: z.string().min(1).max(200).nullish(),
  /** A folder, a GGUF file or a link to one that lies in the data directory as `base-models/incoming-…`; its plain name. */
  path: z.string().min(1).max(200).nullish(),
  /** With `from_adapter`: the base model that the adapter is merged into; the result is a base model of its own. */
  base_model: z.string().min(1).max(1024).nullish(),
  /** Any adapter of the layouts of PEFT and mlx-lm: LoRA, DoRA, trained embeddings and heads. Needs `name`. */
  from_adapter: adapterFilesSchema.nullish(),
})
export type AddBaseModelRequest = z.infer<typeof addBaseModelRequestSchema>

/** A base model with what is known of it. */
export const baseModelSchema = z.object({
  /** The name again: what lists are read by. */
  id: z.string(),
  object: z.literal('base_model'),
  name: z.string(),
  /**
   * `ready`; `downloading`; `interrupted`: adding it again goes on; `failed`: it cannot be used, `error` says why. Only the
   * first may be trained and asked.
   */
  status: z.enum(['ready', 'downloading', 'interrupted', 'failed']),
  /** Given when the server was started, added from its disk, or added from a hub. */
  source: z.enum(['server', 'local', 'hub']),
  repository: z.string().nullable(),
  /** Commit of the repository. */
  commit: z.string().nullable(),
  architecture: z.string().nullable(),
  parameters: z.number().int().nullable(),
  /** Tokens. */
  context_length: z.number().int().nullable(),
  /** Of the weight files. */
  size_bytes: z.number().int().nullable(),
  /** How most weights are stored: `bfloat16`, `Q8_0`. */
  precision: z.string().nullable(),
  /** What it is served in: `f32`, `int8` or `int4`; null until its engine has been started. */
  serving_precision: z.string().nullable(),
  /** What its answers are computed on: `cpu`, an accelerator with its card, `engine nodes`; null until its engine has been started. */
  device: z.string().nullable(),
  /** How its calls of tools are written: `hermes`, `glm`, …; null where its template shows none that are read. */
  tool_format: z.string().nullable(),
  /**
   * How its makers sample it, as its `generation_config.json` says: `temperature`, `top_p`, `top_k`. Requests that say
   * nothing are sampled at temperature 1 all the same.
   */
  sampling: z.record(z.string(), z.number()).nullish(),
  /**
   * Signs that it can neither read nor write, whatever it is shown: its weights do not tell these tokens from others. Null where
   * nobody has looked, because the model is large or not there yet.
   */
  lost_tokens: z.array(z.object({ id: z.number().int(), text: z.string() })).nullish(),
  downloaded_bytes: z.number().int().nullable(),
  total_bytes: z.number().int().nullable(),
  /** Your models that are trained from it. */
  models: z.number().int(),
  error: z.string().nullable(),
  /** Sentences: what its files lack or say otherwise than it is served. */
  warnings: z.array(z.string()),
  /** ISO 8601, UTC; null for one given at the start. */
  added_at: z.string().nullable(),
})
export type BaseModel = z.infer<typeof baseModelSchema>

export const baseModelListSchema = listSchema(baseModelSchema)

export const deleteBaseModelResponseSchema = z.object({
  id: z.string(),
  object: z.literal('base_model'),
  deleted: z.literal(true),
})
export type DeleteBaseModelResponse = z.infer<typeof deleteBaseModelResponseSchema>

/** A card of `GET /v1/models`, in vLLM's form: base models first, then every model's latest checkpoint. */
export const servedModelSchema = z.object({
  id: z.string(),
  object: z.literal('model'),
  created: z.number().int(),
  owned_by: z.string(),
  root: z.string(),
  parent: z.string().nullable(),
  max_model_len: z.number().int().nullable(),
  permission: z.array(z.json()),
})
export type ServedModel = z.infer<typeof servedModelSchema>

/** All of them; with `limit` or `after` a page. */
export const servedModelListSchema = z.object({
  object: z.literal('list'),
  data: z.array(servedModelSchema),
  first_id: z.string().optional(),
  last_id: z.string().optional(),
  has_more: z.boolean().optional(),
})
export type ServedModelList = z.infer<typeof servedModelListSchema>

/** Names and not ids are its cursors, as clients know nothing else of a card. */
export const servedListQuerySchema = z.object({
  after: z.string().max(1000).optional(),
  limit: laxInteger({ min: 1, max: 1000 }).optional(),
})
export type ServedListQuery = z.infer<typeof servedListQuerySchema>
