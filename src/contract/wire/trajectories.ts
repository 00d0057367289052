/**
 * Trajectories and groups as openpipe-art serializes them.
 *
 * Unknown fields are kept, null is absent. Only the outer shape is described here; token ids, logprobs and messages are
 * checked by `formats/rows/parse.ts`, which names the path of the element that is wrong.
 */
import { z } from 'zod'
import { laxInteger, laxNumber } from './lax.js'
import { listSchema, pageQuerySchema } from './list.js'
import { byBody, MAX_GROUPS, word } from './maxima.js'

/** A message: any role, content as text, parts or null. */
export const messageSchema = byBody(z.looseObject({ role: word() }))

/** A sampled answer: told from a message by the presence of `message`. */
export const choiceSchema = z.looseObject({
  message: z.looseObject({}),
  finish_reason: z.string().nullish(),
  index: laxInteger().nullish(),
})

export const messageOrChoiceSchema = z.union([choiceSchema, messageSchema])

export const historySchema = z.looseObject({
  messages_and_choices: z.array(messageOrChoiceSchema),
  tools: z.array(z.looseObject({})).nullish(),
})

export const trajectorySchema = z.looseObject({
  messages_and_choices: z.array(messageOrChoiceSchema).nullish(),
  tools: z.array(z.looseObject({})).nullish(),
  additional_histories: z.array(historySchema).nullish(),
  reward: laxNumber().nullish(),
  initial_policy_version: laxInteger({ min: 0 }).nullish(),
  final_policy_version: laxInteger({ min: 0 }).nullish(),
  metrics: z.record(z.string(), z.union([z.number(), z.boolean()])).nullish(),
  metadata: z.record(z.string(), z.unknown()).nullish(),
  logs: z.array(z.unknown()).nullish(),
  start_time: z.string().nullish(),
})
export type TrajectoryBody = z.input<typeof trajectorySchema>

export const trajectoryGroupSchema = z.looseObject({
  trajectories: z.array(trajectorySchema),
  /** What a reward of the group can be, an addition of ours: only with the most can anybody say that it was earned. */
  min_reward: z.number().nullish(),
  max_reward: z.number().nullish(),
  exceptions: z.array(z.looseObject({})).nullish(),
  metadata: z.record(z.string(), z.unknown()).nullish(),
  metrics: z.record(z.string(), z.union([z.number(), z.boolean()])).nullish(),
  logs: z.array(z.unknown()).nullish(),
})
export type TrajectoryGroupBody = z.input<typeof trajectoryGroupSchema>

/** Groups are checked one by one as they arrive, not by this schema, so that an error names its element. */
export const logTrajectoriesRequestSchema = z.object({
  /** openpipe-art sends it; the model is that of the path. */
  model_id: byBody(z.unknown()).optional(),
  split: z.string().min(1).max(256),
  /**
   * Names what was measured (prompts, reward, sampling), an addition of ours: the newest log of the same replaces those before
   * it in the metrics of its split and step, and another is refused there. Without it logs are pooled.
   */
  measurement: z.string().min(1).max(128).nullish(),
  trajectory_groups: z.array(byBody(z.unknown())).max(MAX_GROUPS),
})
export type LogTrajectoriesRequest = z.infer<typeof logTrajectoriesRequestSchema>

/** Upstream leaves the body open; ours says what was computed and where it was attached. */
export const logTrajectoriesResponseSchema = z.object({
  model_id: z.string(),
  split: z.string(),
  /** Step of the checkpoint the metrics were attached to; 0: the base model. */
  step: z.number().int(),
  groups: z.number().int(),
  trajectories: z.number().int(),
  /** Of this call alone; the checkpoint has those of all calls at its step, pooled. */
  metrics: z.record(z.string(), z.number()),
})
export type LogTrajectoriesResponse = z.infer<typeof logTrajectoriesResponseSchema>

/** One log call, an addition of ours: what was logged can be read back. Its groups are below `…/log/{id}/groups`. */
export const trajectoryLogSchema = z.object({
  id: z.string(),
  model_id: z.string(),
  split: z.string(),
  /** Step of the model when it was logged. */
  step: z.number().int(),
  groups: z.number().int(),
  trajectories: z.number().int(),
  /** Of this call alone. */
  metrics: z.record(z.string(), z.number()),
  created_at: z.string(),
})
export type TrajectoryLog = z.infer<typeof trajectoryLogSchema>

export const trajectoryLogListSchema = listSchema(trajectoryLogSchema)

export const listTrajectoryLogsQuerySchema = pageQuerySchema.extend({
  split: z.string().min(1).max(256).optional(),
  step: laxInteger({ min: 0 }).optional(),
})
export type ListTrajectoryLogsQuery = z.infer<typeof listTrajectoryLogsQuerySchema>
