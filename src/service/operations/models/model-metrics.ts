/**
 * The curves of a model: every number recorded at its steps, also at steps whose checkpoints were deleted.
 */
import {
  DEFAULT_METRIC_POINTS,
  type MetricAxis,
  type MetricSource,
  type ModelMetrics,
  type ModelMetricsQuery,
  TRAINED_TOKENS_METRIC,
} from '#contract/wire/model-metrics.js'
import { listMetrics, listStepMakers, type Metrics, type StepMetrics } from '#service/storage/model-metrics.js'
import type { Principal, ServiceContext } from '../context.js'
import { requireModel } from './models.js'
import { thinSeries } from './thin-series.js'

export interface ModelMetricsService {
  /**
   * At most `points` of each series are chosen; a step that one of them needs is given with the numbers of all.
   *
   * @returns also the keys that were asked for and that no step has
   * @throws {NotFoundError} `model_not_found`
   */
  get(
    principal: Principal,
    modelId: string,
    query: ModelMetricsQuery,
  ): Promise<{ readonly metrics: ModelMetrics; readonly unknownKeys: readonly string[] }>
}

/** All that is known of one step. */
interface Point {
  readonly step: number
  readonly atMs: number
  readonly tokens: number | null
  readonly metrics: Metrics
}

export function createModelMetricsService(context: Pick<ServiceContext, 'db'>): ModelMetricsService {
  return {
    get: async (principal, modelId, query) => {
      const model = await requireModel(context, principal, modelId)
      const { from_step: from = 0, to_step: to = Number.MAX_SAFE_INTEGER, x = 'step' } = query
      // from the first step on: tokens are counted from there
      const rows = await listMetrics(context.db, model.id, { from: 0, to })
      const points = toPoints(rows).filter(({ step }) => step >= from)
      const keys = describeKeys(rows.filter(({ step }) => step >= from))
      const known = new Set(keys.map(({ key }) => key))
      const asked = query.keys === undefined ? [...known] : readKeys(query.keys)
      const shown = asked.filter((key) => known.has(key))
      const axis = points.map((point) => placeOf(point, x))
      const series = shown.map((key) => points.map(({ metrics }) => numberOf(metrics, key)))
      const most = query.points ?? DEFAULT_METRIC_POINTS
      const kept = [...new Set(series.flatMap((values) => thinSeries(axis, values, most)))].sort((a, b) => a - b)
      const makers = await listStepMakers(context.db, model.id, { from, to })
      const pick = <T>(all: readonly T[]): T[] => kept.flatMap((i) => all.slice(i, i + 1))
      return {
        metrics: {
          object: 'model.metrics',
          model_id: model.id,
          steps: pick(points.map(({ step }) => step)),
          times: pick(points.map(({ atMs }) => new Date(atMs).toISOString())),
          tokens: pick(points.map(({ tokens }) => tokens)),
          job_ids: pick(points.map(({ step }) => makers.get(step)?.jobId ?? null)),
          session_ids: pick(points.map(({ step }) => makers.get(step)?.sessionId ?? null)),
          series: Object.fromEntries(shown.map((key, i) => [key, pick(series[i] ?? [])])),
          keys,
        },
        unknownKeys: asked.filter((key) => !known.has(key)),
      }
    },
  }
}

function readKeys(text: string): readonly string[] {
  const names = text.split(',').map((name) => name.trim())
  return [...new Set(names)].filter((name) => name !== '')
}

/** One a step, in order; the job's own numbers win over what was logged, and its time is the step's. */
function toPoints(rows: readonly StepMetrics[]): readonly Point[] {
  const points = new Map<number, Point>()
  let tokens: number | null = null
  for (const { step, source, metrics, createdAtMs } of rows) {
    const trained = source === 'job' ? metrics[TRAINED_TOKENS_METRIC] : undefined
    if (trained !== undefined) tokens = (tokens ?? 0) + trained
    const own = points.get(step)
    points.set(step, { step, atMs: own?.atMs ?? createdAtMs, tokens, metrics: { ...metrics, ...own?.metrics } })
  }
  return [...points.values()]
}

/** A number's name may be one that every object has. */
function numberOf(metrics: Metrics, key: string): number | null {
  return Object.hasOwn(metrics, key) ? (metrics[key] ?? null) : null
}

function placeOf({ step, atMs, tokens }: Point, x: MetricAxis): number {
  return x === 'step' ? step : x === 'time' ? atMs : (tokens ?? 0)
}

function describeKeys(rows: readonly StepMetrics[]): ModelMetrics['keys'] {
  const found = new Map<string, { source: MetricSource; readonly steps: Set<number> }>()
  for (const { step, source, metrics } of rows) {
    for (const key of Object.keys(metrics)) {
      const entry = found.get(key) ?? { source, steps: new Set() }
      if (source === 'job') entry.source = source
      entry.steps.add(step)
      found.set(key, entry)
    }
  }
  return [...found]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, { source, steps }]) => ({ key, source, split: splitOf(key), count: steps.size }))
}

function splitOf(key: string): string | null {
  const end = key.indexOf('/')
  return end > 0 ? key.slice(0, end) : null
}
