/**
 * Rewards in one command: sample, score, train, measure, and again until it stops helping. What the loop of a shell does with
 * `rollout`, `train rl` and `eval`, and it goes on where it was stopped.
 *
 * Where it stands is a file beside the prompts' reader: the model, what is measured, and the reward after each job. A file of
 * another model, other prompts or another reward begins a new loop.
 */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { writeWhole } from '#base/write-whole.js'
import type { CommandContext } from '#cli/command/context.js'
import { formatNumber, plural } from '#cli/terminal/format.js'
import type { Hyperparameters } from '#cli/training/submission.js'
import { watchJob } from '#cli/views/watch.js'
import type { Model } from '#contract/wire/models.js'
import { type RewardRange, shareOfRange } from '#formats/rows/reward-range.js'
import { nameMeasurement } from '#plugins/rl-library/measurement.js'
import { TrainableModel } from '#plugins/rl-library/model.js'
import type { Client } from '#sdk/client/client.js'
import { inferenceName } from '#sdk/client/inference-name.js'
import type { RolloutFlags } from '../flags.js'
import { type RolloutPlan, sampleGroups, summarize } from '../sample.js'

/** Share of the range from which nothing is left to raise. */
const LEARNED = 0.95
/** Jobs in turn without a better held-out reward, and rounds without a job, that end a loop. */
const PATIENCE = 2

/** Why a loop ended. */
export type LoopEnd = 'learned' | 'no_better' | 'nothing_to_train' | 'jobs'

interface Point {
  readonly step: number
  readonly reward: number
}

interface LoopState {
  readonly of: string
  /** The held-out reward before the first job, and after each. */
  readonly points: readonly Point[]
  /** Rounds so far, those without a job as well: they say which prompts come next. */
  readonly rounds: number
  /** Rounds in turn whose groups did not differ. */
  readonly idle: number
}

export interface LoopFlags extends RolloutFlags {
  readonly count: number
  readonly samples: number
  readonly pick: number
  readonly jobs: number
}

export interface RewardLoop {
  readonly model: Model
  readonly training: RolloutPlan
  readonly heldOut: RolloutPlan
  readonly flags: LoopFlags
  readonly hyperparameters: Hyperparameters
  /** Where it stands. */
  readonly statePath: string
}

/** Why a loop with these measurements ends here; null where it goes on. @param idle rounds in turn without a job */
export function endOf(
  points: readonly Point[],
  { jobs, idle, range }: { readonly jobs: number; readonly idle: number; readonly range: RewardRange | null },
): LoopEnd | null {
  const last = points.at(-1)
  if (last === undefined) return null
  if (range !== null && shareOfRange(last.reward, range) >= LEARNED) return 'learned'
  const best = bestOf(points)
  if (points.length - 1 - points.lastIndexOf(best) >= PATIENCE) return 'no_better'
  if (idle >= PATIENCE) return 'nothing_to_train'
  return points.length > jobs ? 'jobs' : null
}

/** The highest; of equals the first. */
export function bestOf(points: readonly Point[]): Point {
  return points.reduce((best, each) => (each.reward > best.reward ? each : best))
}

/** Runs, or goes on. @returns the measurements and why it ended */
export async function runRewardLoop(
  context: CommandContext,
  client: Client,
  loop: RewardLoop,
): Promise<{ readonly points: readonly Point[]; readonly end: LoopEnd; readonly best: Point }> {
  const { output, signal } = context
  const { model, training, heldOut, flags, hyperparameters, statePath } = loop
  await awaitRunning(context, client, model)
  const { project, base_model: baseModel } = model
  const trained = await new TrainableModel(client, { name: model.name, baseModel, project }).register()
  const measurement = nameMeasurement(
    heldOut.rows.map(({ messages }) => messages),
    [heldOut.reward, heldOut.range === null ? null : [...heldOut.range], flags.temperature ?? 1, flags.maxTokens],
  )
  const of = identityOf(loop, measurement)
  let state = await readState(statePath, of)
  const isResumed = state.points.length > 0

  const ask = async (plan: RolloutPlan, count: number) => {
    const name = inferenceName(model, trained.step)
    const { groups } = await sampleGroups(context, client, { model: name, plan, count, flags })
    return { groups, reward: summarize(context, groups).reward }
  }
  const put = async (changed: Partial<LoopState>): Promise<void> => {
    state = { ...state, ...changed }
    await writeWhole(statePath, `${JSON.stringify(state)}\n`)
  }
  const measure = async (said: string): Promise<void> => {
    const { groups, reward } = await ask(heldOut, flags.samples)
    await trained.evaluate(groups, { measurement, signal, onWarning: (warning) => output.warning(warning) })
    const point = { step: trained.step, reward }
    await put({ points: [...state.points, point] })
    output.event({ object: 'training_loop.measured', ...point }, `${said}: held-out reward ${formatNumber(reward)}`)
  }

  if (isResumed) {
    output.status(
      `goes on after ${plural(state.points.length - 1, 'job')}, at step ${trained.step}; without ${statePath} it begins anew`,
    )
  }
  // a job that ended after the loop was stopped is measured first
  if (state.points.at(-1)?.step !== trained.step) await measure(`step ${trained.step}`)
  let end = endOf(state.points, { jobs: flags.jobs, idle: state.idle, range: heldOut.range })
  while (end === null) {
    // a job whose loop was killed counts as a round, too
    const round = Math.max(state.rounds, state.points.length - 1)
    const rows = rowsOf(training, flags.pick, round)
    const { groups, reward } = await ask({ ...training, rows }, flags.count)
    const result = await trained.train(groups, {
      config: hyperparameters,
      signal,
      onWarning: (warning) => output.warning(warning),
    })
    await put({ rounds: round + 1, idle: result.jobId === null ? state.idle + 1 : 0 })
    if (result.jobId !== null) {
      await measure(
        `job ${state.points.length} of at most ${flags.jobs}: step ${result.step}, reward ${formatNumber(reward)}`,
      )
    }
    end = endOf(state.points, { jobs: flags.jobs, idle: state.idle, range: heldOut.range })
  }
  return { points: state.points, end, best: bestOf(state.points) }
}

/** Prompts in turn, from where the last round ended. */
function rowsOf({ rows }: RolloutPlan, count: number, round: number): RolloutPlan['rows'] {
  const size = Math.min(count, rows.length)
  return Array.from({ length: size }, (_, i) => rows[(round * size + i) % rows.length]).flatMap((row) => row ?? [])
}

/** A job of the model that a killed run left, or another one's: both train the same weights. */
async function awaitRunning(context: CommandContext, client: Client, model: Model): Promise<void> {
  const { data } = await client.trainingJobs.list({ model_id: model.id, limit: 100 }, { signal: context.signal })
  for (const job of data.filter(({ status }) => status === 'queued' || status === 'running').reverse()) {
    context.output.status(`job ${job.id} is still running: it comes first`)
    await watchJob(context, client, job.id)
  }
}

function identityOf({ model, training, flags, hyperparameters }: RewardLoop, measurement: string): string {
  const { count, samples, pick } = flags
  const prompts = training.rows.map(({ messages }) => messages)
  const parts = [model.id, measurement, prompts, { count, samples, pick }, hyperparameters]
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32)
}

async function readState(path: string, of: string): Promise<LoopState> {
  const fresh = { of, points: [], rounds: 0, idle: 0 }
  try {
    const state = JSON.parse(await readFile(path, 'utf8')) as Partial<LoopState>
    return state.of === of && Array.isArray(state.points) ? { ...fresh, ...state } : fresh
  } catch {
    return fresh
  }
}
