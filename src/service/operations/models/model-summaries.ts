/**
 * Summaries of the models of a page: a handful of statements for all of them. Curves are read once and kept until something is added to them.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { isLowerBetter } from '#contract/jobs/best-metric.js'
import type { MetricSummary, ModelSummary } from '#contract/wire/models.js'
import { findMetrics, type Metrics } from '#service/storage/model-metrics.js'
import { findNotes } from '#service/storage/model-notes.js'
import {
  countCheckpoints,
  findMetricsMarks,
  findNewestJobs,
  listUnfinishedOf,
} from '#service/storage/model-summaries.js'
import { findLastActive } from '#service/storage/models.js'
import type { ServiceContext } from '../context.js'
import { thinSeries } from './thin-series.js'

type MetricSummaries = Readonly<Record<string, MetricSummary>>

/** Rewards of every split, and losses of training and validation. */
const SHOWN = /(?:^|\/)reward$|^(?:loss\/train|val\/loss)$/
const SPARK_POINTS = 30
/** Models whose curves are kept, about 2 kB each. */
const MOST_KEPT = 2000

/** @returns reads the summaries of models, by id */
export function createModelSummaries({ db }: Pick<ServiceContext, 'db'>) {
  const kept = new Map<string, { readonly mark: string; readonly metrics: MetricSummaries }>()

  async function metricsOf(modelId: string, mark: string): Promise<MetricSummaries> {
    const before = kept.get(modelId)
    if (before?.mark === mark) return before.metrics
    // others take their turn between two long curves
    await nextTurn()
    const metrics = summarizeMetrics(await findMetrics(db, modelId, { from: 0, to: Number.MAX_SAFE_INTEGER }))
    kept.delete(modelId)
    kept.set(modelId, { mark, metrics })
    const [oldest] = kept.keys()
    if (kept.size > MOST_KEPT && oldest !== undefined) kept.delete(oldest)
    return metrics
  }

  return async (modelIds: readonly string[], hasOptions: boolean): Promise<ReadonlyMap<string, ModelSummary>> => {
    const summaries = new Map<string, ModelSummary>()
    if (modelIds.length === 0) return summaries
    const checkpoints = await countCheckpoints(db, modelIds)
    const unfinished = await listUnfinishedOf(db, modelIds)
    const newest = await findNewestJobs(db, modelIds)
    const active = await findLastActive(db, modelIds)
    const marks = await findMetricsMarks(db, modelIds)
    const notes = await findNotes(db, modelIds)
    for (const id of modelIds) {
      const job = unfinished.find(({ modelId }) => modelId === id)
      const mark = marks.get(id)?.mark
      summaries.set(id, {
        checkpoints: checkpoints.get(id)?.count ?? 0,
        size_bytes: checkpoints.get(id)?.sizeBytes ?? 0,
        last_active_at: new Date(active.get(id) ?? 0).toISOString(),
        running_job:
          job === undefined
            ? null
            : {
                id: job.id,
                kind: job.kind,
                status: job.status,
                gradient_steps: job.gradientSteps,
                num_sequences: job.numSequences,
              },
        metrics: mark === undefined ? {} : await metricsOf(id, mark),
        warnings: [...(newest.get(id)?.warnings ?? [])],
        description: notes.get(id)?.description ?? '',
        tags: [...(notes.get(id)?.tags ?? [])],
        ...(hasOptions ? { options: (newest.get(id)?.options ?? null) as ModelSummary['options'] } : {}),
      })
    }
    return summaries
  }
}

/** @param curve numbers by step, ascending */
function summarizeMetrics(curve: ReadonlyMap<number, Metrics>): MetricSummaries {
  const series = new Map<string, { readonly steps: number[]; readonly values: number[] }>()
  for (const [step, metrics] of curve) {
    for (const [name, value] of Object.entries(metrics)) {
      if (!SHOWN.test(name)) continue
      const points = series.get(name) ?? { steps: [], values: [] }
      points.steps.push(step)
      points.values.push(value)
      series.set(name, points)
    }
  }
  return Object.fromEntries(
    [...series].map(([name, { steps, values }]) => [name, summarizeSeries(name, steps, values)]),
  )
}

function summarizeSeries(name: string, steps: readonly number[], values: readonly number[]): MetricSummary {
  const sign = isLowerBetter(name) ? -1 : 1
  const at = (list: readonly number[], i: number): number => list[i] ?? 0
  const best = values.reduce((a, value, i) => (sign * value >= sign * at(values, a) ? i : a), 0)
  const last = values.length - 1
  return {
    last: at(values, last),
    last_step: at(steps, last),
    best: at(values, best),
    best_step: at(steps, best),
    spark: thinSeries(steps, values, SPARK_POINTS).map((i) => at(values, i)),
  }
}
