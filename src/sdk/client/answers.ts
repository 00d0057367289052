/**
 * What the client needs of each answer: the types of `contract/wire` once more as checks, which the compiler compares.
 *
 * Only what some reader cannot do without is demanded. What other or older servers lack is `maybe`; words that may grow are any text.
 */
import type { WorkerClaim } from '#contract/processes/worker-claim.js'
import type { ApiKey, CreatedKey } from '#contract/wire/access/keys.js'
import type { UsageResponse, UsageRow } from '#contract/wire/access/usage.js'
import type { ChatChunk, ChatResponse } from '#contract/wire/chat-completions.js'
import type { Checkpoint, CheckpointFiles, DeleteCheckpointsResponse } from '#contract/wire/checkpoints.js'
import type { FileObject } from '#contract/wire/files.js'
import type * as healthWire from '#contract/wire/health.js'
import type { CompletionResponse } from '#contract/wire/inference/completions.js'
import type { PromptResponse, TokenizeResponse } from '#contract/wire/inference/tokens.js'
import type { List } from '#contract/wire/list.js'
import type {
  BaseModel,
  ListedModel,
  MetricSummary,
  Model,
  ModelSummary,
  ServedModel,
  ServedModelList,
} from '#contract/wire/models.js'
import type { JobReport } from '#contract/wire/training/job-report.js'
import type { TrainingPlan } from '#contract/wire/training/plan.js'
import type { TrainingEvent, TrainingJob } from '#contract/wire/training-jobs.js'
import type { LogTrajectoriesResponse } from '#contract/wire/trajectories.js'
import type { CreatedWebhook, Webhook, WebhookDelivery } from '#contract/wire/webhooks/webhooks.js'
import { sampling } from './rollout-answers.js'
import { anything, type Check, listOf, mapOf, maybe, nullOr, number, objectOf, text, truth } from './shape.js'

/** A page of items. */
export function pageOf<T>(item: Check<T>): Check<List<T>> {
  return objectOf<List<T>>({
    object: anything,
    data: listOf(item),
    first_id: maybe(text),
    last_id: maybe(text),
    has_more: maybe(truth),
  })
}

/** Of a deletion nothing is read but that it is one. */
export const deletion: Check<object> = objectOf<object>({})

const modelFields = {
  id: text,
  entity: text,
  project: text,
  name: text,
  base_model: text,
  run_id: maybe(text),
  step: maybe(number),
  created_at: maybe(text),
  warnings: maybe(listOf(text)),
}
export const model = objectOf<Model>(modelFields)
const metricSummary = objectOf<MetricSummary>({
  last: number,
  last_step: maybe(number),
  best: number,
  best_step: maybe(number),
  spark: maybe(listOf(number)),
})
const runningJob = objectOf<NonNullable<ModelSummary['running_job']>>({
  id: text,
  kind: maybe(text),
  status: text,
  gradient_steps: maybe(number),
  num_sequences: maybe(number),
})
/** Of a list, which may hold summaries. */
export const listedModel = objectOf<ListedModel>({
  ...modelFields,
  summary: maybe(
    objectOf<ModelSummary>({
      checkpoints: maybe(number),
      size_bytes: maybe(number),
      last_active_at: maybe(text),
      running_job: maybe(runningJob),
      metrics: mapOf(metricSummary),
      warnings: maybe(listOf(text)),
      description: maybe(text),
      tags: maybe(listOf(text)),
      options: maybe(nullOr(mapOf(anything))),
    }),
  ),
})
export const baseModelNames = listOf(text)
const baseModelFields = {
  object: anything,
  source: maybe(text),
  repository: maybe(text),
  commit: maybe(text),
  architecture: maybe(text),
  parameters: maybe(number),
  context_length: maybe(number),
  size_bytes: maybe(number),
  precision: maybe(text),
  serving_precision: maybe(text),
  device: maybe(text),
  tool_format: maybe(text),
  sampling: maybe(nullOr(mapOf(number))),
  lost_tokens: maybe(listOf(objectOf<{ id: number; text: string }>({ id: number, text }))),
  downloaded_bytes: maybe(number),
  total_bytes: maybe(number),
  models: maybe(number),
  error: maybe(text),
  warnings: maybe(listOf(text)),
  added_at: maybe(text),
}
export const baseModel = objectOf<BaseModel>({ ...baseModelFields, id: text, name: text, status: text })
/** Of one that was asked for by name: the name is known. */
export const baseModelFacts = objectOf<BaseModel>({
  ...baseModelFields,
  id: maybe(text),
  name: maybe(text),
  status: maybe(text),
})
export const servedModels = objectOf<ServedModelList>({
  object: anything,
  first_id: anything,
  last_id: anything,
  has_more: anything,
  data: listOf(
    objectOf<ServedModel>({
      id: text,
      object: anything,
      created: anything,
      owned_by: anything,
      root: maybe(text),
      parent: maybe(text),
      max_model_len: maybe(number),
      permission: anything,
    }),
  ),
})

export const checkpoint = objectOf<Checkpoint>({
  id: text,
  step: number,
  metrics: mapOf(maybe(number)),
  chat_template_kwargs: maybe(mapOf(anything)),
  created_at: maybe(text),
  size_bytes: maybe(number),
})
export const deletedCheckpoints = objectOf<DeleteCheckpointsResponse>({
  deleted_count: number,
  not_found_steps: listOf(number),
  in_use_steps: maybe(listOf(number)),
})
export const checkpointFiles = objectOf<CheckpointFiles>({
  model_id: maybe(text),
  step: number,
  format: maybe(text),
  files: listOf(objectOf<CheckpointFiles['files'][number]>({ name: text, size_bytes: number, sha256: maybe(text) })),
})

const leftOut = objectOf<JobReport['left_out'][number]>({ reason: text, count: number, examples: listOf(text) })
const jobReport = objectOf<JobReport>({
  trainer: maybe(objectOf<NonNullable<JobReport['trainer']>>({ name: text, description: text })),
  left_out: listOf(leftOut),
  tokens: number,
  trained_tokens: number,
  seconds: mapOf(number),
  validation: listOf(objectOf<{ gradient_step: number; loss: number }>({ gradient_step: number, loss: number })),
  kept_gradient_step: maybe(number),
  stopped_early: maybe(truth),
  facts: mapOf(mapOf(number)),
  remaining_seconds: maybe(number),
  warnings: listOf(text),
})
const workerFacts = objectOf<NonNullable<TrainingJob['worker']>>({
  name: text,
  trainer: text,
  device: text,
  versions: mapOf(text),
})
export const trainingJob = objectOf<TrainingJob>({
  id: text,
  model_id: text,
  kind: text,
  status: text,
  attempt: maybe(number),
  is_cancel_requested: maybe(truth),
  is_stop_requested: maybe(truth),
  config: maybe(mapOf(anything)),
  resolved_config: maybe(mapOf(anything)),
  warnings: maybe(listOf(text)),
  created_at: text,
  queue_position: maybe(number),
  expected_start: maybe(text),
  training_start: maybe(text),
  training_end: maybe(text),
  worker: maybe(workerFacts),
  error_code: maybe(text),
  error_message: maybe(text),
  num_gradient_steps: maybe(number),
  num_sequences: maybe(number),
  step: maybe(number),
  data_kept_until: maybe(text),
  group_count: maybe(number),
  trajectory_count: maybe(number),
  report: maybe(jobReport),
  predicted_end: maybe(text),
})
export const workerClaim = objectOf<WorkerClaim>({
  claim: nullOr(
    objectOf<NonNullable<WorkerClaim['claim']>>({
      job_id: text,
      attempt: number,
      token: text,
      model_id: text,
      is_session: truth,
    }),
  ),
})
export const trainingEvent = objectOf<TrainingEvent>({
  id: text,
  type: text,
  data: maybe(mapOf(anything)),
  created_at: maybe(text),
})

const plannedSequence = objectOf<TrainingPlan['sequences'][number]>({
  source: text,
  tokens: number,
  trained_tokens: number,
  advantage: maybe(number),
  weight: maybe(number),
  spans: listOf(
    objectOf<{ is_trained: boolean; tokens: number; text: string }>({ is_trained: truth, tokens: number, text }),
  ),
  omitted_spans: number,
})
const plannedGroup = objectOf<TrainingPlan['groups'][number]>({
  index: number,
  mean_reward: number,
  reward_std_dev: number,
  advantages: listOf(number),
  left_out: maybe(text),
})
export const trainingPlan = objectOf<TrainingPlan>({
  object: anything,
  model_id: maybe(text),
  kind: text,
  config: maybe(mapOf(anything)),
  resolved_config: maybe(mapOf(anything)),
  chat_template_kwargs: maybe(mapOf(anything)),
  num_gradient_steps: number,
  num_rows: number,
  tokens: number,
  trained_tokens: number,
  started: mapOf(number),
  left_out: listOf(leftOut),
  warnings: listOf(text),
  groups: listOf(plannedGroup),
  num_groups: number,
  sequences: listOf(plannedSequence),
  num_sequences: number,
  memory: objectOf<TrainingPlan['memory']>({
    needed_bytes: maybe(number),
    available_bytes: maybe(number),
    is_recomputed: maybe(truth),
    rows: number,
    row_length: number,
  }),
  refusal: maybe(objectOf<{ code: string; message: string }>({ code: text, message: text })),
  time: objectOf<TrainingPlan['time']>({
    predicted_seconds: maybe(number),
    basis: maybe(text),
    tokens_per_second: maybe(number),
  }),
})
export const loggedTrajectories = objectOf<LogTrajectoriesResponse>({
  model_id: maybe(text),
  split: maybe(text),
  step: maybe(number),
  groups: maybe(number),
  trajectories: maybe(number),
  metrics: mapOf(number),
})
export const uploadedFile: Check<FileObject> = objectOf<Pick<FileObject, 'id'>>({ id: text })

type ChatChoice = ChatResponse['choices'][number]
type ToolCall = ChatChoice['message']['tool_calls'][number]
type TokenLogprob = NonNullable<NonNullable<ChatChoice['logprobs']>['content']>[number]
const alternative = { token: text, logprob: maybe(number), bytes: maybe(listOf(number)) }
const logprobs = maybe(
  objectOf<NonNullable<ChatChoice['logprobs']>>({
    content: maybe(
      listOf(
        objectOf<TokenLogprob>({
          ...alternative,
          top_logprobs: maybe(listOf(objectOf<Omit<TokenLogprob, 'top_logprobs'>>(alternative))),
        }),
      ),
    ),
    refusal: anything,
  }),
)
const usage = maybe(
  objectOf<ChatResponse['usage']>({
    prompt_tokens: maybe(number),
    total_tokens: maybe(number),
    completion_tokens: maybe(number),
    prompt_tokens_details: maybe(objectOf<{ cached_tokens: number }>({ cached_tokens: maybe(number) })),
  }),
)
const toolCall = objectOf<ToolCall>({
  id: maybe(text),
  type: anything,
  function: objectOf<ToolCall['function']>({ name: text, arguments: maybe(text) }),
})
export const chatResponse: Check<ChatResponse> = objectOf<Pick<ChatResponse, 'choices' | 'usage'>>({
  choices: listOf<ChatChoice>(
    objectOf<Omit<ChatChoice, 'index' | 'stop_reason'>>({
      message: objectOf<Pick<ChatChoice['message'], 'role' | 'content' | 'tool_calls' | 'reasoning'>>({
        role: maybe(text),
        content: maybe(text),
        tool_calls: maybe(listOf(toolCall)),
        reasoning: maybe(text),
      }),
      logprobs,
      finish_reason: maybe(text),
      token_ids: maybe(listOf(number)),
      sampling,
      'x-trainyard-schema-violations': maybe(listOf(text)),
    }),
  ),
  usage,
})
type ChunkChoice = ChatChunk['choices'][number]
type CallPiece = NonNullable<ChunkChoice['delta']['tool_calls']>[number]
export const chatChunk: Check<ChatChunk> = objectOf<Pick<ChatChunk, 'choices' | 'usage'>>({
  choices: listOf<ChunkChoice>(
    objectOf<Omit<ChunkChoice, 'stop_reason'>>({
      index: maybe(number),
      delta: objectOf<ChunkChoice['delta']>({
        role: maybe(text),
        content: maybe(text),
        reasoning: maybe(text),
        reasoning_content: maybe(text),
        function_call: maybe(
          objectOf<NonNullable<ChunkChoice['delta']['function_call']>>({ name: maybe(text), arguments: maybe(text) }),
        ),
        tool_calls: maybe(
          listOf(
            objectOf<CallPiece>({
              index: maybe(number),
              id: maybe(text),
              type: anything,
              function: maybe(
                objectOf<CallPiece['function']>({
                  name: maybe(text),
                  arguments: maybe(text),
                }),
              ),
            }),
          ),
        ),
      }),
      logprobs,
      finish_reason: maybe(text),
      token_ids: maybe(listOf(number)),
      sampling,
      'x-trainyard-schema-violations': maybe(listOf(text)),
    }),
  ),
  usage,
})
export const completion: Check<CompletionResponse> = objectOf<Pick<CompletionResponse, 'choices'>>({
  choices: listOf<CompletionResponse['choices'][number]>(objectOf<{ text: string }>({ text })),
})
export const tokens: Check<TokenizeResponse> = objectOf<Pick<TokenizeResponse, 'tokens' | 'token_strs'>>({
  tokens: listOf(number),
  token_strs: maybe(listOf(text)),
})
export const prompt = objectOf<PromptResponse>({ prompt: text })

export const apiKey: Check<ApiKey> = objectOf<Omit<ApiKey, 'object'>>({
  id: text,
  name: text,
  key_prefix: text,
  entity: maybe(text),
  project: maybe(text),
  scope: text,
  created_at: maybe(text),
  expires_at: maybe(text),
  last_used_at: maybe(text),
  is_current: maybe(truth),
})
export const createdKey: Check<CreatedKey> = both(apiKey, objectOf<Pick<CreatedKey, 'key'>>({ key: text }))
export const webhook: Check<Webhook> = objectOf<Omit<Webhook, 'object'>>({
  id: text,
  url: text,
  events: listOf(text),
  project: maybe(text),
  created_at: maybe(text),
})
export const createdWebhook: Check<CreatedWebhook> = both(
  webhook,
  objectOf<Pick<CreatedWebhook, 'secret'>>({ secret: text }),
)
export const webhookDelivery: Check<WebhookDelivery> = objectOf<Omit<WebhookDelivery, 'payload'>>({
  id: text,
  message_id: maybe(text),
  type: text,
  status: text,
  attempts: number,
  response_status: maybe(number),
  error: maybe(text),
  next_attempt_at: maybe(text),
  created_at: maybe(text),
  delivered_at: maybe(text),
})
const counters = {
  requests: maybe(number),
  prompt_tokens: maybe(number),
  cached_tokens: maybe(number),
  completion_tokens: maybe(number),
  training_seconds: maybe(number),
}
export const usageReport = objectOf<UsageResponse>({
  object: anything,
  entity: maybe(text),
  from: text,
  to: text,
  data: listOf(objectOf<UsageRow>({ ...counters, day: text, project: text, model: text })),
  total: objectOf<UsageResponse['total']>(counters),
  is_truncated: maybe(truth),
})

export const health = objectOf<healthWire.HealthResponse>({ status: text, version: text })
const checkResult = objectOf<healthWire.CheckResult>({
  success: truth,
  duration_ms: maybe(number),
  errors: maybe(listOf(text)),
})
export const systemCheck = objectOf<healthWire.SystemCheckResponse>({
  api: anything,
  database: truth,
  cpu_queue: maybe(checkResult),
  gpu_queue: maybe(checkResult),
  checks: maybe(
    listOf(
      objectOf<NonNullable<healthWire.SystemCheckResponse['checks']>[number]>({
        name: text,
        success: truth,
        duration_ms: number,
        errors: listOf(text),
        is_slow: maybe(truth),
        message: maybe(text),
        warnings: maybe(listOf(text)),
      }),
    ),
  ),
  slow: maybe(text),
})
export const whoami = objectOf<healthWire.WhoamiResponse>({
  entity: text,
  project: maybe(text),
  scope: maybe(text),
  key_id: maybe(text),
  key_prefix: maybe(text),
  session_id: maybe(text),
  version: maybe(text),
})
export const verifyProgress = objectOf<healthWire.VerifyProgress>({ object: anything, blobs: number, bytes: number })
export const storageReport = objectOf<healthWire.StorageReport>({
  object: anything,
  ok: truth,
  database: objectOf<healthWire.StorageReport['database']>({ state: text, message: text }),
  blobs: number,
  bytes: number,
  missing: listOf(objectOf<healthWire.StorageReport['missing'][number]>({ sha256: text, named_by: listOf(text) })),
  damaged: listOf(
    objectOf<healthWire.StorageReport['damaged'][number]>({
      sha256: text,
      size_bytes: number,
      actual_sha256: maybe(text),
      problem: maybe(text),
      named_by: listOf(text),
    }),
  ),
  orphans: listOf(
    objectOf<healthWire.StorageReport['orphans'][number]>({
      sha256: text,
      size_bytes: number,
      modified_at: number,
      is_kept: truth,
    }),
  ),
})

function both<A, B>(one: Check<A>, other: Check<B>): Check<A & B> {
  return { find: (value, path) => one.find(value, path) ?? other.find(value, path) }
}
