/**
 * A plan in words of the contract: what the job's own code says it would do, whether it fits, and how long it takes.
 */

import { AppError, fullMessage } from '#base/errors/errors.js'
import type { PlanRequest } from '#contract/processes/plan.js'
import type { PlanFindings } from '#contract/wire/training/plan.js'
import type { OpenJob } from '#training/kinds/start.js'
import type { JobContext } from '#training/trainer/job.js'
import { type MemoryPlan, planMemory } from '#training/trainer/memory.js'
import type { JobPlan } from '#training/trainer/plan/job-plan.js'
import { reportWarnings } from '#training/trainer/report.js'
import { type Prediction, predict } from './predict.js'

/** Plans an open job. @throws {AppError} what the job itself would refuse about its data */
export async function planJob(
  opened: OpenJob,
  context: JobContext,
  earlier: PlanRequest['earlier'],
): Promise<PlanFindings> {
  const plan = await opened.plan()
  const memory = checkMemory(plan, context)
  const prediction =
    'refusal' in memory ? { seconds: null, basis: null } : await predict(plan, memory, context, earlier)
  return toFindings(plan, memory, prediction, context)
}

/** The check the job makes before its first step. */
function checkMemory(plan: JobPlan, context: JobContext): MemoryPlan | Refused {
  const { prepared } = context
  const availableBytes = context.availableBytes ?? null
  if (plan.tokens === 0) return { isRecomputed: false, neededBytes: 0, availableBytes }
  try {
    return planMemory(prepared.config, plan, availableBytes)
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    return { refusal: { code: error.code, message: fullMessage(error) } }
  }
}

interface Refused {
  readonly refusal: { readonly code: string; readonly message: string }
}

function toFindings(
  plan: JobPlan,
  memory: MemoryPlan | Refused,
  { seconds, basis }: Prediction,
  { progress, availableBytes }: JobContext,
): PlanFindings {
  const { report } = progress
  const fits = 'refusal' in memory ? null : memory
  return {
    num_gradient_steps: report.plannedSteps ?? 0,
    num_rows: plan.rowCount,
    tokens: plan.tokens,
    trained_tokens: plan.trainedTokens,
    started: { ...plan.started.data },
    left_out: report.leftOut.map(({ reason, count, examples }) => ({ reason, count, examples: [...examples] })),
    warnings: reportWarnings(report, 0),
    groups: plan.groups.map((group) => ({
      index: group.index,
      mean_reward: group.meanReward,
      reward_std_dev: group.rewardDeviation,
      advantages: [...group.advantages],
      left_out: group.leftOut,
    })),
    num_groups: plan.groupCount,
    sequences: plan.sequences.map((sequence) => ({
      source: sequence.source,
      tokens: sequence.tokenCount,
      trained_tokens: sequence.trainedTokenCount,
      advantage: sequence.advantage,
      weight: sequence.weight,
      spans: sequence.spans.map(({ isTrained, tokenCount, text }) => ({
        is_trained: isTrained,
        tokens: tokenCount,
        text,
      })),
      omitted_spans: sequence.omittedSpanCount,
    })),
    num_sequences: plan.sequenceCount,
    memory: {
      needed_bytes: fits === null ? null : Math.round(fits.neededBytes),
      available_bytes: availableBytes ?? null,
      is_recomputed: fits?.isRecomputed ?? null,
      rows: plan.largest.rows,
      row_length: plan.largest.length,
    },
    refusal: 'refusal' in memory ? memory.refusal : null,
    time: {
      predicted_seconds: seconds,
      basis,
      tokens_per_second: seconds === null || seconds === 0 ? null : plan.tokens / seconds,
    },
  }
}
