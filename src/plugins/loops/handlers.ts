/**
 * Loops over HTTP.
 */
import { DEFAULT_PAGE_LIMIT, toList } from '#contract/wire/list.js'
import { DEFAULT_METRIC_POINTS } from '#contract/wire/model-metrics.js'
import { idempotencyKey } from '#service/http/headers.js'
import { digestOf } from '#service/operations/access/request-digest.js'
import { ownerOf } from '#service/operations/access/tenant.js'
import { thinSeries } from '#service/operations/models/thin-series.js'
import type { PluginHandlers, PluginService } from '#service/plugin.js'
import type { CheckGrader } from './check-grader.js'
import { readLoopRequest } from './create-loop.js'
import type { loopEndpoints } from './endpoints.js'
import type { LoopEvaluation, LoopEvent, LoopExample, LoopStep } from './loop-service.js'
import { createLoopService } from './loops.js'
import { listLoopEvents, listLoops, type StoredLoop } from './storage/loops.js'
import { findExamples, listEvaluations, listNewestEvaluations, listSteps } from './storage/steps.js'
import { shownTools } from './tools.js'
import type { Loop, LoopEventBody, LoopMetrics } from './wire.js'

/** Evaluations of a loop that is asked for by itself. */
const SHOWN_EVALUATIONS = 100

export function loopHandlers({
  context,
  started: { checkGrader, toolHosts },
}: PluginService<{ readonly checkGrader: CheckGrader; readonly toolHosts: readonly string[] }>): PluginHandlers<
  typeof loopEndpoints
> {
  const { db } = context
  const loops = createLoopService(context)
  const shown = async (loop: StoredLoop): Promise<Loop> =>
    toWire(loop, [...(await listEvaluations(db, loop.id, { order: 'newest', limit: SHOWN_EVALUATIONS }))].reverse())
  return {
    'POST /v1/preview/loops': async ({ principal, body, c }) => {
      const request = await body()
      const key = idempotencyKey(c)
      const repeated =
        key === null ? null : { scope: { ...ownerOf(principal), scope: 'loops', key }, digest: digestOf([request]) }
      const { owner, spec } = await readLoopRequest(context, principal, request, toolHosts)
      await checkGrader(principal, spec.grader, 'grader')
      return await shown(await loops.create(owner, spec, undefined, repeated))
    },
    'GET /v1/preview/loops': async ({ principal, query }) => {
      const { after, limit = DEFAULT_PAGE_LIMIT, model_id: modelId } = query()
      const page = await listLoops(db, principal, { after, limit, modelId })
      const newest = await listNewestEvaluations(
        db,
        page.items.map(({ id }) => id),
      )
      const evaluated = (id: string): readonly LoopEvaluation[] => [newest.get(id) ?? []].flat()
      return toList(
        page.items.map((loop) => toWire(loop, evaluated(loop.id))),
        page.hasMore,
      )
    },
    'GET /v1/preview/loops/{loop_id}': async ({ principal, params }) =>
      await shown(await loops.get(principal, params.loop_id)),
    'GET /v1/preview/loops/{loop_id}/events': async ({ principal, params, query }) => {
      const { id } = await loops.get(principal, params.loop_id)
      const { after, limit = DEFAULT_PAGE_LIMIT, type } = query()
      const page = await listLoopEvents(db, id, { after, limit, type })
      return toList(page.items.map(toWireEvent), page.hasMore)
    },
    'GET /v1/preview/loops/{loop_id}/metrics': async ({ principal, params, query }) => {
      const { id } = await loops.get(principal, params.loop_id)
      return seriesOf(id, await listSteps(db, id), query().points ?? DEFAULT_METRIC_POINTS)
    },
    'GET /v1/preview/loops/{loop_id}/answers': async ({ principal, params }) => {
      const { id } = await loops.get(principal, params.loop_id)
      const found = await findExamples(db, id)
      return {
        object: 'loop.answers',
        loop_id: id,
        step: found?.evaluation.loopStep ?? null,
        checkpoint_step: found?.evaluation.checkpointStep ?? null,
        best: (found?.examples.best ?? []).map(toWireExample),
        worst: (found?.examples.worst ?? []).map(toWireExample),
      }
    },
    'POST /v1/preview/loops/{loop_id}/pause': async ({ principal, params }) =>
      await shown(await loops.pause(principal, params.loop_id)),
    'POST /v1/preview/loops/{loop_id}/resume': async ({ principal, params }) =>
      await shown(await loops.resume(principal, params.loop_id)),
    'POST /v1/preview/loops/{loop_id}/cancel': async ({ principal, params }) =>
      await shown(await loops.cancel(principal, params.loop_id)),
  }
}

/** @param evaluations oldest first */
function toWire(loop: StoredLoop, evaluations: readonly LoopEvaluation[]): Loop {
  const { spec, spent } = loop
  return {
    id: loop.id,
    object: 'loop',
    model_id: spec.modelId,
    status: loop.status,
    phase: loop.phase,
    step: loop.step,
    steps: spec.steps,
    prompts_file: spec.promptsFileId,
    held_out_file: spec.heldOutFileId,
    held_out_rows: spec.heldOutRows,
    grader: spec.grader as Loop['grader'],
    response_format: spec.responseFormat as Loop['response_format'],
    prompts_per_step: spec.promptsPerStep,
    answers_per_prompt: spec.answersPerPrompt,
    evaluate_every: spec.evaluateEvery,
    answers_per_held_out: spec.answersPerHeldOut,
    seed: spec.seed,
    sampling: spec.sampling as Loop['sampling'],
    config: spec.training as Loop['config'],
    tools: shownTools(spec.tools ?? []),
    max_episode_steps: spec.maxEpisodeSteps ?? null,
    limits: {
      grader_tokens: spec.limits.graderTokens,
      seconds: spec.limits.seconds,
      endpoint_calls: spec.limits.endpointCalls,
    },
    used: {
      grader_tokens: spent.graderTokens,
      seconds: spent.seconds,
      endpoint_calls: spent.endpointCalls,
      trained_tokens: spent.trainedTokens,
    },
    evaluations: evaluations.map((each) => ({
      step: each.loopStep,
      checkpoint_step: each.checkpointStep,
      train_reward: each.trainReward,
      valid_reward: each.validReward,
    })),
    training_job_id: loop.jobId,
    error: loop.error,
    created_at: toIso(loop.createdAtMs),
    started_at: loop.startedAtMs === null ? null : toIso(loop.startedAtMs),
    ended_at: loop.endedAtMs === null ? null : toIso(loop.endedAtMs),
  }
}

const toWireEvent = (event: LoopEvent): LoopEventBody => ({
  id: event.id,
  object: 'loop.event',
  type: event.type,
  level: event.level,
  message: event.message,
  data: event.data as LoopEventBody['data'],
  created_at: toIso(event.createdAtMs),
})

const toWireExample = ({ prompt, answer, reward, parts, passes, errors }: LoopExample) => ({
  ...{ prompt, answer, reward },
  sub_rewards: { ...parts },
  passed: { ...passes },
  error_details: [...errors],
})

const toIso = (ms: number): string => new Date(ms).toISOString()

/** What of a step can be summed. */
const SUMMED = /^(?:tokens|errors|seconds)\/|^(?:trained_tokens|dropped_answers)$/

/** Steps as series for charts, thinned so that spikes of the rewards stay. @param points most of each reward */
export function seriesOf(loopId: string, steps: readonly LoopStep[], points: number): LoopMetrics {
  const axis = steps.map(({ loopStep }) => loopStep)
  const rewards = [steps.map(({ trainReward }) => trainReward), steps.map(({ validReward }) => validReward)]
  const kept = new Set(rewards.flatMap((values) => thinSeries(axis, values, points)))
  // steps without a reward have a place, too, as long as there is room
  const shown = steps.length <= points ? steps : steps.filter((_, i) => kept.has(i))
  const names = new Set<string>()
  const totals: Record<string, number> = {}
  for (const { numbers } of steps) {
    for (const [name, value] of Object.entries(numbers)) {
      names.add(name)
      if (SUMMED.test(name)) totals[name] = (totals[name] ?? 0) + value
    }
  }
  return {
    object: 'loop.metrics',
    loop_id: loopId,
    steps: shown.map(({ loopStep }) => loopStep),
    checkpoint_steps: shown.map(({ checkpointStep }) => checkpointStep),
    job_ids: shown.map(({ jobId }) => jobId),
    series: {
      train_reward: shown.map(({ trainReward }) => trainReward),
      valid_reward: shown.map(({ validReward }) => validReward),
      ...Object.fromEntries([...names].sort().map((name) => [name, shown.map(({ numbers }) => numbers[name] ?? null)])),
    },
    totals,
  }
}
