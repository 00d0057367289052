/**
 * How long a planned job will take: from the reports of earlier jobs of the same base model and row size, else from a
 * measurement of about two seconds on rows of the job's own data.
 */
import type { PlanRequest } from '#contract/processes/plan.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import { rowCost } from '#training/rows/training-batch.js'
import { type JobContext, openLearner } from '#training/trainer/job.js'
import { longestRow, type MemoryPlan, recomputedBytes } from '#training/trainer/memory.js'
import { SFT_OPTIMIZER } from '#training/trainer/optimizer-settings.js'
import type { JobPlan } from '#training/trainer/plan/job-plan.js'
import { perToken, toRowBatch } from '#training/trainer/row-batch.js'
import { createTrainer } from '#training/trainer/trainer.js'

/** A prediction and what it rests on; null where nothing tells. */
export interface Prediction {
  readonly seconds: number | null
  readonly basis: 'calibration' | 'earlier_job' | null
}

/** A measurement goes on for so long, and makes at least one run after the first, which warms up. */
const CALIBRATION_MS = 2000
const MAX_RUNS = 64
/** A forward pass alone, as a share of a gradient: one product of two or, recomputed, of three. */
const FORWARD_SHARE = 0.45
/** Row sizes count as the same when their estimated memory differs by no more than this factor. */
const SAME_SIZE = 1.25

const NOTHING: Prediction = { seconds: null, basis: null }

/** Predicts the time of a job that has something to train on. */
export async function predict(
  plan: JobPlan,
  memory: MemoryPlan,
  context: JobContext,
  earlier: PlanRequest['earlier'],
): Promise<Prediction> {
  if (plan.sample.length === 0 || plan.tokens === 0) return { seconds: 0, basis: null }
  return fromEarlierJobs(plan, memory, earlier) ?? (await fromMeasurement(plan, memory, context))
}

/** The latest jobs that ran rows of about the same size in the same way: the one in the middle, for some ran beside others. */
function fromEarlierJobs(plan: JobPlan, memory: MemoryPlan, earlier: PlanRequest['earlier']): Prediction | null {
  const found = earlier.filter(({ report, precision }) => {
    const facts = report.facts['memory']
    const ratio = (facts?.['needed_bytes'] ?? 0) / memory.neededBytes
    const isSameSize = ratio <= SAME_SIZE && ratio >= 1 / SAME_SIZE
    const isSameWay = (facts?.['recomputed'] === 1) === memory.isRecomputed && precision === plan.precision
    return isSameSize && isSameWay && report.tokens > 0 && (report.seconds['gradient'] ?? 0) > 0
  })
  const times = found
    .map(({ report: { seconds, tokens } }) => {
      const fixed = (seconds['setup'] ?? 0) + (seconds['io'] ?? 0)
      const total = Object.values(seconds).reduce((sum, part) => sum + part, 0)
      return fixed + ((total - fixed) / tokens) * plan.tokens
    })
    .sort((a, b) => a - b)
  const middle = times[Math.floor((times.length - 1) / 2)]
  return middle === undefined ? null : { seconds: middle, basis: 'earlier_job' }
}

/** Runs the train graph of the job's model on a few short rows. */
async function fromMeasurement(plan: JobPlan, memory: MemoryPlan, context: JobContext): Promise<Prediction> {
  const { clock } = context
  const batch = toRowBatch(plan.sample)
  const size = { rows: plan.sample.length, length: batch.length }
  const available = context.availableBytes ?? Number.POSITIVE_INFINITY
  // other programs live here too, and a plan is not worth their memory
  if (recomputedBytes(context.prepared.config, size) > available / 2) return NOTHING
  const openedMs = clock.monotonicMs()
  const { dropout } = context
  const rows = { longestRow: longestRow(plan), isRecomputed: memory.isRecomputed }
  const learner = await openLearner(context, { precision: plan.precision, rows })
  const trainer = await createTrainer({
    learner,
    loss: { kind: 'cross_entropy' },
    settings: SFT_OPTIMIZER,
    ...(dropout === undefined ? {} : { dropout }),
  })
  const sessionSeconds = (clock.monotonicMs() - openedMs) / 1000
  const denominator = float32Tensor(Float32Array.of(batch.trained.length), [])
  const microBatch = { batch, lossInputs: { denominator, weight: perToken(batch, () => 1) } }
  const run = async (): Promise<number> => {
    const startedMs = clock.monotonicMs()
    await trainer.step([microBatch], { learningRate: 0, isWanted: () => false })
    return clock.monotonicMs() - startedMs
  }
  try {
    const firstMs = await run()
    let elapsedMs = 0
    let runs = 0
    while (runs === 0 || (runs < MAX_RUNS && firstMs + elapsedMs < CALIBRATION_MS)) {
      elapsedMs += await run()
      runs += 1
    }
    const secondsPerCost = elapsedMs / 1000 / runs / (size.rows * rowCost(size.length))
    const { gradient, forward, sessionCount } = plan.work
    const work = (gradient + FORWARD_SHARE * forward) * secondsPerCost
    return { seconds: sessionCount * sessionSeconds + work, basis: 'calibration' }
  } finally {
    await learner.release()
  }
}
