/**
 * Calls of a rollout → a trajectory as `train rl` takes it. What trains are the ids, with the prompt of each turn; messages
 * beside them are for people and for rewards that read.
 */
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { maxOf, minOf } from '#base/util/lists.js'
import { parseTrajectoryGroup } from '#formats/rows/parse.js'
import { joinCalls, type Turn } from './join.js'
import type { RecordedCall, RecordedChoice } from './recorder.js'
import { type RolloutResult, rewardOf } from './result.js'
import type { RolloutRecord } from './storage/rollouts.js'

/** What a trajectory says of its rollout beside what it was told. */
const METRIC = 'recording/'

/** @returns null where no answer was delivered */
export function toTrajectory(
  rollout: Pick<RolloutRecord, 'id' | 'undeliveredCalls' | 'overriddenCalls'>,
  calls: readonly RecordedCall[],
  { rewards, metrics }: Pick<RolloutResult, 'rewards' | 'metrics'>,
  metadata: JsonObject,
): JsonObject | null {
  const [main, ...additional] = joinCalls<RecordedChoice, RecordedCall>(calls)
  if (main === undefined) return null
  const steps = calls.map(({ step }) => step)
  const parts = Object.entries(rewards).map(([part, { score }]) => [`reward/${part}`, score] as const)
  const trajectory: JsonObject = {
    ...toHistory(main),
    additional_histories: additional.map(toHistory),
    reward: rewardOf(rewards) ?? 0,
    initial_policy_version: minOf(steps),
    final_policy_version: maxOf(steps),
    metrics: {
      ...Object.fromEntries(parts),
      [`${METRIC}turns`]: calls.length,
      [`${METRIC}additional_histories`]: additional.length / (1 + additional.length),
      [`${METRIC}undelivered_calls`]: rollout.undeliveredCalls,
      [`${METRIC}overridden_calls`]: rollout.overriddenCalls,
      [`${METRIC}model_seconds`]: calls.reduce((sum, call) => sum + call.endedAtMs - call.beganAtMs, 0) / 1000,
      ...metrics,
    },
    metadata: { ...metadata, rollout_id: rollout.id },
  }
  return isReadable(trajectory) ? trajectory : withoutMessages(trajectory)
}

type RecordedTurn = Turn<RecordedChoice, RecordedCall>

function toHistory(turns: readonly RecordedTurn[]): JsonObject {
  const items: JsonValue[] = []
  let tools: readonly JsonValue[] | null = null
  for (const { call, choice } of turns) {
    // what was said since: the answers before are among the items already
    for (const message of call.messages?.slice(items.length) ?? []) items.push(message)
    items.push(toChoice(call, choice))
    tools ??= call.tools
  }
  return { messages_and_choices: items, ...(tools === null ? {} : { tools: [...tools] }) }
}

function toChoice({ promptIds }: RecordedCall, choice: RecordedChoice): JsonObject {
  const { tokenIds, logprobs, sampling, finishReason, text } = choice
  return {
    message: { role: 'assistant', content: text },
    finish_reason: finishReason,
    prompt_token_ids: [...promptIds],
    token_ids: [...tokenIds],
    logprobs: { content: logprobs.map((logprob, t) => ({ token: `token_id:${tokenIds[t]}`, logprob })) },
    ...(sampling === undefined ? {} : { sampling: { ...sampling, kept: { ...sampling.kept } } as JsonObject }),
  }
}

/** Whether rows may hold it: messages that a chat takes may be more than a row does. */
function isReadable(trajectory: JsonObject): boolean {
  try {
    parseTrajectoryGroup({ trajectories: [trajectory] }, 'group')
    return true
  } catch {
    return false
  }
}

function withoutMessages(trajectory: JsonObject): JsonObject {
  const bare = (value: JsonValue | undefined): JsonObject => {
    const items = isJsonObject(value ?? null) ? (value as JsonObject)['messages_and_choices'] : []
    const choices = Array.isArray(items) ? items.filter((item) => isJsonObject(item) && 'message' in item) : []
    return { messages_and_choices: choices }
  }
  const { tools: _, additional_histories: additional, ...rest } = trajectory
  const others = Array.isArray(additional) ? additional.map((history) => bare(history)) : []
  return { ...rest, ...bare(trajectory), additional_histories: others }
}
