/**
 * Training loops, request by request: what `trainyard/rl` says and hears, in the words of the client `tinker` 0.38.0.
 * Rows of training and answers of samples are protobuf (`formats/training-loop/`).
 */
import { z } from 'zod'
import { byBody, kept, label, MAX_LIST, MAX_TOKEN_IDS, word } from '../maxima.js'

const metadata = kept(z.record(z.string(), z.json())).nullish()
const id = z.string().min(1).max(200)
const count = z.number().int().min(0)
const ttl = z.number().int().min(1).max(315_360_000).nullish()
const kind = word().nullish()
/** Part of a path: no slash, nothing invisible. */
const name = z.string().regex(/^[\w.@=+ -]{1,200}$/)

/** Fields that several bodies of training loops have. */
export const LOOP_FIELDS = { metadata, id, count, ttl, kind, name } as const

export const createClientSessionSchema = z.object({
  tags: z.array(z.string().max(200)).max(100).nullish(),
  user_metadata: metadata,
  sdk_version: z.string().max(100).nullish(),
  project_id: z.string().max(200).nullish(),
  display_name: z.string().max(200).nullish(),
  type: kind,
})
export type CreateClientSession = z.output<typeof createClientSessionSchema>
export const clientSessionSchema = z.object({
  type: z.literal('create_session'),
  session_id: z.string(),
  info_message: z.string().nullable(),
  warning_message: z.string().nullable(),
  error_message: z.string().nullable(),
})

export const finishSessionSchema = z.object({ status: z.string().max(40).nullish() })

/** The answer to every request of work: what to ask for its result with. */
export const futureSchema = z.object({
  request_id: z.string(),
  model_id: z.string().optional(),
  sample_sequence_ids: z.array(z.string()).optional(),
})

const loraConfig = z.object({
  rank: z.number().int().min(1).max(1024),
  seed: z.number().int().nullish(),
  train_unembed: z.boolean().default(true),
  train_mlp: z.boolean().default(true),
  train_attn: z.boolean().default(true),
})
const optimizerConfig = z.object({ type: word() })

export const createTrainingSessionSchema = z.object({
  session_id: id,
  model_seq_id: count,
  base_model: z.string().max(500),
  user_metadata: metadata,
  lora_config: loraConfig.nullish(),
  optimizer_config: optimizerConfig.nullish(),
  /** Ours: the model here that weights saved for sampling are checkpoints of. */
  trainyard_model_id: id.nullish(),
  /** Ours: the checkpoint of that model whose adapter it begins with; there is no `lora_config` then. */
  trainyard_step: count.min(1).nullish(),
  type: kind,
})
export type CreateTrainingSession = z.output<typeof createTrainingSessionSchema>

export const optimStepSchema = z.object({
  model_id: id,
  seq_id: count,
  adam_params: z
    .object({
      learning_rate: z.number().min(0).default(1e-4),
      beta1: z.number().min(0).lt(1).default(0.9),
      beta2: z.number().min(0).lt(1).default(0.95),
      eps: z.number().gt(0).default(1e-12),
      weight_decay: z.number().min(0).default(0),
      grad_clip_norm: z.number().min(0).default(0),
    })
    .nullish(),
  /** Of optimizers that are not served. */
  optimizer_params: z.object({ type: word().nullish() }).nullish(),
  type: kind,
})
export type OptimStepRequest = z.output<typeof optimStepSchema>

export const saveWeightsSchema = z.object({
  model_id: id,
  path: name.nullish(),
  seq_id: count,
  ttl_seconds: ttl,
  overwrite: z.boolean().nullish(),
  user_metadata: metadata,
  type: kind,
})
export type SaveWeightsRequest = z.output<typeof saveWeightsSchema>

export const saveForSamplerSchema = z.object({
  model_id: id,
  path: name.nullish(),
  sampling_session_seq_id: count.nullish(),
  kind: z.enum(['snapshot', 'inflight']).nullish(),
  seq_id: count,
  ttl_seconds: ttl,
  user_metadata: metadata,
  type: kind,
})
export type SaveForSamplerRequest = z.output<typeof saveForSamplerSchema>

export const loadWeightsSchema = z.object({
  model_id: id.nullish(),
  seq_id: count.nullish(),
  session_id: id.nullish(),
  model_seq_id: count.nullish(),
  base_model: z.string().max(500).nullish(),
  user_metadata: metadata,
  path: z.string().max(1000),
  optimizer: z.boolean().default(false),
  optimizer_config: optimizerConfig.nullish(),
  weights_access_token: label().nullish(),
  /** As in `create_model`, of a run that begins with the weights. */
  trainyard_model_id: id.nullish(),
  type: kind,
})
export type LoadWeightsRequest = z.output<typeof loadWeightsSchema>

export const sampleRequestSchema = z.object({
  num_samples: z.number().int().min(1).max(128).default(1),
  prompt: z.object({
    chunks: z
      .array(byBody(z.looseObject({ type: word(), tokens: z.array(count).max(MAX_TOKEN_IDS).optional() })))
      .max(MAX_LIST),
  }),
  sampling_params: z.object({
    max_tokens: z.number().int().min(1).nullish(),
    seed: z.number().int().nullish(),
    stop: z.union([label(), z.array(label()).max(64), z.array(z.number().int().min(0)).max(64)]).nullish(),
    temperature: z.number().min(0).default(1),
    top_k: z.number().int().min(-1).default(-1),
    top_p: z.number().min(0).max(1).default(1),
  }),
  base_model: z.string().max(500).nullish(),
  model_path: z.string().max(1000).nullish(),
  sampling_session_id: id.nullish(),
  seq_id: count.nullish(),
  prompt_logprobs: z.boolean().nullish(),
  topk_prompt_logprobs: count.max(20).default(0),
  topk_sample_logprobs: count.max(20).default(0),
  target_prompt_logprobs: byBody(z.json()).nullish(),
  prompt_alt_tokens_k: count.default(0),
  prompt_logprobs_last_n: count.nullish(),
  record_stability_info: z.boolean().nullish(),
  type: kind,
})
export type SampleRequest = z.output<typeof sampleRequestSchema>

export const retrieveFutureSchema = z.object({
  request_id: z.string().min(1).max(400),
  allow_metadata_only: z.boolean().nullish(),
})
/** A result, an error, or that there is none yet. */
export const futureResultSchema = z.looseObject({})
