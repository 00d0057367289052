/**
 * A run: gather groups of tasks, train on them, measure held-out tasks now and then. What it has done stands in its folder
 * (`run-folder.ts`), from which a run that was stopped or killed goes on.
 *
 * Knows no terminal: whoever runs it is told of each line.
 */
import type { JsonObject } from '#base/util/json.js'
import { estimatorOf, readsGreedy } from '#formats/rows/which-train.js'
import { gather } from '#plugins/rl-library/gather.js'
import type { TrainableModel } from '#plugins/rl-library/model.js'
import { TrainingFailedError, type TrainResult } from '#plugins/rl-library/train.js'
import type { Client } from '#sdk/client/client.js'
import { ApiError } from '#sdk/client/errors.js'
import type { AskOptions, TrajectoryGroup } from '#sdk/rl/trajectory.js'
import { askedModel, createEpisodes, type EpisodeSetup } from './episode.js'
import { assertMostSucceeded, measurementOf, summarizeGroups } from './groups.js'
import type { RunFolder } from './run-folder.js'
import type { TaskFeed } from './tasks.js'

/** Share of episodes that may be cut off before it is said. */
const MOST_CUT = 0.2
/** Jobs of a step that a person, or the server, ended before they were complete. */
const MOST_ATTEMPTS = 100

interface RunPlan extends Omit<EpisodeSetup, 'model' | 'run'> {
  readonly client: Client
  readonly trained: TrainableModel
  readonly feed: TaskFeed
  readonly folder: RunFolder
  readonly sampling: AskOptions
  readonly steps: number
  readonly tasksPerStep: number
  /** Rollouts a task. */
  readonly count: number
  /** Steps between two measurements; 0: none but the first and the last. */
  readonly evalEvery: number
  /** Rollouts a held-out task. */
  readonly samples: number
  readonly concurrency: number
  readonly retries: number
  /** Options of the jobs. */
  readonly config: JsonObject
  /** What the reward is, for the name of the measurement. */
  readonly judgedBy: string
  readonly onProgress: (sentence: string) => void
  /** Told of each line as it is written. */
  readonly onLine: (line: JsonObject) => void
}

/** Runs, or goes on; returns all lines. @throws {AppError} `environment_failing` */
export async function runTraining(plan: RunPlan): Promise<readonly JsonObject[]> {
  const { folder, steps, evalEvery } = plan
  const measuredSteps = (): ReadonlySet<number> =>
    new Set(folder.lines.flatMap((line) => (line['object'] === 'measured' ? [Number(line['step'])] : [])))
  const done = maxStep(folder)
  // a run whose last step was not measured when it ended measures it now
  if (done === 0 && !measuredSteps().has(0)) await measure(plan, 0)
  for (let step = done + 1; step <= steps; step += 1) {
    if (isDue(step - 1, plan) && !measuredSteps().has(step - 1)) await measure(plan, step - 1)
    await trainStep(plan, step)
    if (isDue(step, { steps, evalEvery })) await measure(plan, step)
  }
  if (!measuredSteps().has(steps) && maxStep(folder) === steps) await measure(plan, steps)
  return folder.lines
}

function isDue(step: number, { steps, evalEvery }: Pick<RunPlan, 'steps' | 'evalEvery'>): boolean {
  return step === steps || step === 0 || (evalEvery > 0 && step % evalEvery === 0)
}

function maxStep({ lines }: RunFolder): number {
  return lines.reduce((most, line) => (line['object'] === 'trained' ? Math.max(most, Number(line['step'])) : most), 0)
}

async function trainStep(plan: RunPlan, step: number): Promise<void> {
  const { folder, feed, clock } = plan
  const startMs = clock.monotonicMs()
  let groups = await folder.readGroups(step)
  const isFromDisk = groups !== null
  if (groups === null) {
    const tasks = await feed.train(step, plan.tasksPerStep, plan.signal)
    const withGreedy = comparesWithGreedy(plan.config)
    groups = await gatherGroups(plan, { tasks, count: plan.count, part: `step ${step}`, withGreedy })
    assertMostSucceeded(groups)
    await folder.writeGroups(step, groups)
  }
  const sampledMs = clock.monotonicMs()
  const result = await trainOnce(plan, step, groups)
  const facts = summarizeGroups(groups)
  if (facts.cutShare > MOST_CUT) {
    plan.onWarning(
      `${Math.round(facts.cutShare * 100)} % of the episodes of step ${step} were cut off by --max-turns or --max-tokens`,
    )
  }
  await tell(plan, {
    object: 'trained',
    step,
    model_step: result.step,
    job: result.jobId,
    reward: result.reward,
    groups: result.groups,
    trained_groups: result.trainedGroups,
    ...facts.metrics,
    seconds_sampling: isFromDisk ? null : (sampledMs - startMs) / 1000,
    seconds_training: (clock.monotonicMs() - sampledMs) / 1000,
  })
}

/** Whether advantages need an answer at temperature 0 in each group: by its name only the server knows a formula. */
function comparesWithGreedy(config: JsonObject): boolean {
  return config['advantage_estimator'] === 'remax' || readsGreedy(estimatorOf(config))
}

/** The job of a step, under a key of run and step; one that was cancelled is made again under the next key. */
async function trainOnce(
  { trained, folder, config, ...plan }: RunPlan,
  step: number,
  groups: readonly TrajectoryGroup[],
): Promise<TrainResult> {
  for (let attempt = 1; ; attempt += 1) {
    const idempotencyKey = `environment-run-${folder.id}-step-${step}-attempt-${attempt}`
    try {
      plan.onProgress(`step ${step}: training`)
      return await trained.train(groups, { config, idempotencyKey, signal: plan.signal, onWarning: plan.onWarning })
    } catch (error) {
      const isCancelled = error instanceof TrainingFailedError && error.job.status === 'cancelled'
      if (!isCancelled || plan.signal.aborted || attempt === MOST_ATTEMPTS) throw error
      plan.onWarning(`job ${error.job.id} of step ${step} was cancelled: a new one is made`)
    }
  }
}

async function measure(plan: RunPlan, step: number): Promise<void> {
  const { trained, feed, description, judgedBy, sampling, samples } = plan
  // measurements ask the same with the same seeds
  const groups = await gatherGroups(plan, { tasks: feed.heldOut, count: samples, part: 'held out' })
  assertMostSucceeded(groups)
  const facts = summarizeGroups(groups)
  const measurement = measurementOf(feed.heldOut, { description, judgedBy, sampling })
  await trained
    .evaluate(groups, { measurement, signal: plan.signal, onWarning: plan.onWarning })
    .catch((error: unknown) => {
      // a model that was trained in another environment before: what is measured stands in the folder all the same
      if (!(error instanceof ApiError) || error.code !== 'other_measurement') throw error
      plan.onWarning(`held-out rewards are not stored with the model: ${error.message}`)
    })
  await tell(plan, {
    object: 'measured',
    step,
    model_step: trained.step,
    reward: facts.reward,
    tasks: groups.length,
    ...facts.metrics,
  })
}

async function tell({ folder, onLine }: RunPlan, line: JsonObject): Promise<void> {
  await folder.append(line)
  onLine(line)
}

/** Plays groups of tasks with the model as it is now. */
async function gatherGroups(
  plan: RunPlan,
  {
    tasks,
    count,
    part,
    withGreedy = false,
  }: {
    readonly tasks: Parameters<ReturnType<typeof createEpisodes>['plans']>[0]
    readonly count: number
    readonly part: string
    readonly withGreedy?: boolean
  },
): Promise<readonly TrajectoryGroup[]> {
  const { source, client, trained, sampling } = plan
  const model = askedModel(client, trained.inferenceName(), sampling)
  const episodes = createEpisodes({ ...plan, model, run: plan.folder.id })
  return await gather(episodes.plans(tasks, count, part, { withGreedy }), {
    concurrency: Math.min(plan.concurrency, source.mostAtOnce?.() ?? plan.concurrency),
    retries: plan.retries,
    signal: episodes.signal,
    onProgress: ({ done, total, failed, reward }) => {
      const troubles = failed === 0 ? '' : `, ${failed} failed`
      plan.onProgress(`${part}: ${done} of ${total} episodes, reward ${reward?.toFixed(3) ?? '-'}${troubles}`)
    },
  })
}
