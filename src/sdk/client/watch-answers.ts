/**
 * What the client needs of further answers, as `answers.ts` has it: sessions of browsers, activity, metrics, training
 * options and sessions, logs, probes, usage of keys.
 */

import type { CreatedSession, Download, Session, SessionCode } from '#contract/wire/access/sessions.js'
import type { KeyUsageResponse, KeyUsageRow } from '#contract/wire/access/usage.js'
import type { Activity } from '#contract/wire/activity.js'
import type { KeepRuleView } from '#contract/wire/checkpoints.js'
import type { Probe, ProbeAnswer } from '#contract/wire/inference/probes.js'
import type { LogComparison, LoggedPair } from '#contract/wire/log-comparison.js'
import type { ModelMetrics } from '#contract/wire/model-metrics.js'
import type { DeleteModelResponse, ModelNote } from '#contract/wire/models.js'
import type { KindOptions, TrainingOption, TrainingOptions } from '#contract/wire/training/option-list.js'
import type { TrainingSession } from '#contract/wire/training/training-sessions.js'
import type { TrajectoryLog } from '#contract/wire/trajectories.js'
import { anything, listOf, mapOf, maybe, nullOr, number, objectOf, text, truth } from './shape.js'

export const keepRule = objectOf<KeepRuleView>({
  model_id: maybe(text),
  rule: maybe(text),
  server_rule: text,
  keep_optimizers: number,
  drops: listOf(number),
})
export const deletedModel = objectOf<DeleteModelResponse>({
  model_id: maybe(text),
  deleted_checkpoints: maybe(number),
  deleted_run: maybe(truth),
})
export const modelNote = objectOf<ModelNote>({ model_id: maybe(text), description: text, tags: listOf(text) })
const sessionFields = {
  object: anything,
  id: text,
  name: maybe(text),
  key_id: maybe(text),
  entity: maybe(text),
  project: maybe(text),
  scope: maybe(text),
  created_at: maybe(text),
  expires_at: maybe(text),
  is_current: maybe(truth),
}
export const session = objectOf<Session>(sessionFields)
export const createdSession = objectOf<CreatedSession>({ ...sessionFields, token: text })
export const sessionCode = objectOf<SessionCode>({ object: anything, code: text, url: text, expires_at: maybe(text) })
export const download = objectOf<Download>({ object: anything, url: text, expires_at: maybe(text) })

export const activity = objectOf<Activity>({
  id: maybe(text),
  type: text,
  created_at: maybe(text),
  project: maybe(text),
  model_id: maybe(text),
  data: maybe(mapOf(anything)),
})

export const modelMetrics = objectOf<ModelMetrics>({
  object: anything,
  model_id: maybe(text),
  steps: listOf(number),
  times: listOf(text),
  tokens: listOf(maybe(number)),
  job_ids: maybe(listOf(maybe(text))),
  session_ids: maybe(listOf(maybe(text))),
  series: mapOf(listOf(maybe(number))),
  keys: listOf(
    objectOf<ModelMetrics['keys'][number]>({
      key: text,
      source: maybe(text),
      split: maybe(text),
      count: maybe(number),
    }),
  ),
})

export const trainingOptions = objectOf<TrainingOptions>({
  object: anything,
  base_model: maybe(text),
  parameters: maybe(number),
  data: listOf(
    objectOf<KindOptions>({
      kind: text,
      root: maybe(text),
      row: maybe(text),
      options: listOf(
        objectOf<TrainingOption>({
          name: text,
          type: maybe(text),
          summary: text,
          default: anything,
          suggested: anything,
          suggested_by: maybe(text),
          otherwise: maybe(text),
          bounds: anything,
          choices: anything,
          word: maybe(text),
          takes_list: maybe(truth),
          is_common: maybe(truth),
          needs: maybe(text),
          options: anything,
        }),
      ),
    }),
  ),
})

/** A session of the list, or one that was ended. */
export const trainingSession = objectOf<TrainingSession>({
  object: text,
  id: text,
  entity: text,
  project: text,
  base_model: text,
  model_id: nullOr(text),
  status: text,
  error: nullOr(text),
  lora_rank: number,
  requests: number,
  waiting_requests: number,
  optimizer_steps: number,
  created_at: text,
  last_request_at: text,
})

export const trajectoryLog = objectOf<TrajectoryLog>({
  id: text,
  model_id: maybe(text),
  split: text,
  step: number,
  groups: maybe(number),
  trajectories: maybe(number),
  metrics: mapOf(number),
  created_at: maybe(text),
})

export const logComparison = objectOf<LogComparison>({
  object: anything,
  model_id: maybe(text),
  b_model_id: maybe(text),
  split: maybe(text),
  a: anything,
  b: anything,
  prompts: number,
  wins: number,
  ties: number,
  losses: number,
  rewards: anything,
  difference: number,
  interval: anything,
  unpaired: maybe(number),
  skipped: maybe(number),
  pairs: listOf(
    objectOf<LoggedPair>({
      id: maybe(text),
      messages: listOf(mapOf(anything)),
      outcome: maybe(text),
      rewards: anything,
      counts: anything,
      answers: anything,
    }),
  ),
  has_more: maybe(truth),
})

export const probeAnswer = objectOf<ProbeAnswer>({
  id: text,
  object: anything,
  probe_id: maybe(text),
  step: number,
  status: text,
  text: nullOr(text),
  finish_reason: maybe(text),
  completion_tokens: maybe(number),
  checkpoint: maybe(text),
  error: maybe(text),
  created_at: maybe(text),
  answered_at: maybe(text),
})

export const probe = objectOf<Probe>({
  id: text,
  object: anything,
  model_id: maybe(text),
  messages: listOf(objectOf<Probe['messages'][number]>({ role: text, content: text })),
  max_tokens: maybe(number),
  created_at: maybe(text),
  answers: listOf(probeAnswer),
})

export const keyUsage = objectOf<KeyUsageResponse>({
  object: anything,
  entity: maybe(text),
  from: text,
  to: text,
  data: listOf(
    objectOf<KeyUsageRow>({
      key_id: text,
      name: maybe(text),
      key_prefix: maybe(text),
      project: maybe(text),
      requests: number,
      prompt_tokens: number,
      cached_tokens: maybe(number),
      completion_tokens: number,
    }),
  ),
  is_truncated: maybe(truth),
})
