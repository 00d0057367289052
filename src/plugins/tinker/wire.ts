/**
 * The Tinker API's JSON, as the client `tinker` 0.38.0 sends and reads it, besides what `trainyard/rl` says too
 * (`contract/wire/training/training-loops.ts`).
 */
import { z } from 'zod'
import { byBody, label, MAX_LIST } from '#contract/wire/maxima.js'
import { LOOP_FIELDS } from '#contract/wire/training/training-loops.js'

const { count, id, kind, name, ttl } = LOOP_FIELDS

/** What the client sends and nobody here reads. */
export const emptySchema = z.object({ sdk_version: label().nullish() })
export const configSchema = z.object({})
export const telemetrySchema = z.object({ events: byBody(z.array(z.json())).nullish() })
export const acceptedSchema = z.object({ status: z.literal('accepted') })
export const healthSchema = z.object({ status: z.literal('ok') })

export const heartbeatSchema = z.object({ session_id: id, type: kind })
export const heartbeatAnswerSchema = z.object({ type: z.literal('session_heartbeat') })
export const modelInfoRequestSchema = z.object({ model_id: id, type: kind })
export const modelInfoSchema = z.object({
  type: z.literal('get_info'),
  model_id: z.string(),
  model_name: z.string(),
  model_data: z.object({ arch: z.string(), model_name: z.string(), tokenizer_id: z.string() }),
  is_lora: z.boolean(),
  lora_rank: z.number(),
})

export const saveExternalSchema = z.object({
  model_id: id,
  path: name,
  seq_id: count,
  ttl_seconds: ttl,
  age_encryption_recipients: z.array(label()).max(MAX_LIST).nullish(),
  type: kind,
})
export type SaveExternalRequest = z.output<typeof saveExternalSchema>

export const weightsInfoRequestSchema = z.object({ tinker_path: z.string().max(1000) })
export const weightsInfoSchema = z.object({
  base_model: z.string(),
  is_lora: z.boolean(),
  lora_rank: z.number(),
  train_unembed: z.boolean(),
  train_mlp: z.boolean(),
  train_attn: z.boolean(),
})

export const createSamplerSchema = z.object({
  session_id: id,
  sampling_session_seq_id: count,
  base_model: z.string().max(500).nullish(),
  model_path: z.string().max(1000).nullish(),
  type: kind,
})
export const createdSamplerSchema = z.object({
  type: z.literal('create_sampling_session'),
  sampling_session_id: z.string(),
})
export const samplerSchema = z.object({
  sampler_id: z.string(),
  base_model: z.string(),
  model_path: z.string().nullable(),
})

export const capabilitiesSchema = z.object({
  supported_models: z.array(
    z.object({
      model_name: z.string(),
      max_context_length: z.number().nullable(),
      trainable: z.boolean(),
      sampleable: z.boolean(),
    }),
  ),
})

/** Pages by position. */
export const offsetPageQuerySchema = z.object({
  limit: z.coerce.number().int().min(1).max(1000).default(100),
  offset: z.coerce.number().int().min(0).default(0),
})
const cursorSchema = z.object({ offset: z.number(), limit: z.number(), total_count: z.number() })

export const savedWeightsSchema = z.object({
  checkpoint_id: z.string(),
  checkpoint_type: z.enum(['training', 'sampler', 'external']),
  time: z.string(),
  tinker_path: z.string(),
  size_bytes: z.number(),
  public: z.boolean(),
  user_metadata: z.record(z.string(), z.string()).nullable(),
  expires_at: z.string().nullable(),
})
export const savedWeightsListSchema = z.object({ checkpoints: z.array(savedWeightsSchema), cursor: cursorSchema })
export const trainingRunSchema = z.object({
  training_run_id: z.string(),
  base_model: z.string(),
  model_owner: z.string(),
  is_lora: z.boolean(),
  corrupted: z.boolean(),
  lora_rank: z.number(),
  last_request_time: z.string(),
  last_checkpoint: savedWeightsSchema.nullable(),
  last_sampler_checkpoint: savedWeightsSchema.nullable(),
  user_metadata: z.record(z.string(), z.string()).nullable(),
})
export const trainingRunListSchema = z.object({ training_runs: z.array(trainingRunSchema), cursor: cursorSchema })
/** Addresses by the names of files; each gives its file once, without a key. */
export const weightAddressesSchema = z.object({ urls: z.record(z.string(), z.string()), expires: z.string() })
export const setTtlSchema = z.object({ ttl_seconds: ttl })
export const clientSessionListSchema = z.object({ sessions: z.array(z.string()), cursor: cursorSchema })
export const clientSessionViewSchema = z.object({
  training_run_ids: z.array(z.string()),
  sampler_ids: z.array(z.string()),
  user_metadata: z.record(z.string(), z.string()).nullable(),
  display_name: z.string().nullable(),
})
