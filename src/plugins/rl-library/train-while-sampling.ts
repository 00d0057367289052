/**
 * A loop that samples the answers of the next job while a job trains: neither sampler nor trainer waits for the other.
 *
 * Answers are then of an older policy than the one that is trained on them. What corrects for it is in the job: its importance ratios are
 * between the policy that is trained and the log-probabilities that were recorded when each token was sampled, whichever step that was. How old
 * is bounded twice: a round of sampling begins no earlier than that its job can start at most `maxStepsOffPolicy` steps later, and groups that
 * others' jobs have overtaken all the same are thrown away, as ART's PipelineTrainer does.
 *
 * Deviation: ART bounds by throwing away alone (4 steps by default); here nothing is sampled in vain, and the default is 1.
 */
import { AppError, InvalidRequestError } from '#base/errors/errors.js'
import { minOf } from '#base/util/lists.js'
import { mean, type TrajectoryGroup } from '#sdk/rl/trajectory.js'
import type { TrainableModel } from './model.js'
import type { RlTrainOptions, TrainResult } from './train.js'

export interface AsyncLoopOptions extends RlTrainOptions {
  /**
   * Samples the groups of one job, as `gather` does; called again when it has ended, also while jobs train.
   *
   * @param round from 1
   * @param signal aborted when the loop ends; give it to `gather`
   */
  readonly sample: (round: number, signal: AbortSignal) => Promise<readonly TrajectoryGroup[]>
  /** Jobs to train, one for each round. */
  readonly jobs: number
  /** Steps that a group may lie behind the model when its job begins. Default 1; 0 samples and trains in turn. */
  readonly maxStepsOffPolicy?: number
}

export interface AsyncLoopStep extends TrainResult {
  /** From 1. */
  readonly job: number
  /** Mean number of steps that the trained groups lay behind the model when the job began. */
  readonly stepsOffPolicy: number
  /** Groups that were thrown away because they were too old. */
  readonly discardedGroups: number
}

/**
 * Trains jobs on what `sample` gathers, sampling ahead meanwhile.
 *
 * It pays where sampler and trainer have processors of their own, or where rollouts wait for tools or a judge: on two cores that both use
 * there is little to gain (`src/docs/internals/learning.md`).
 *
 * @returns what each job did; who breaks off ends the sampling, too
 * @throws what `sample` and `model.train` throw; {InvalidRequestError} for a number that is none; {AppError} `groups_too_old` where another
 *   program trains the model faster than it can be sampled
 * @example
 * const sample = (_, signal) => gather(mails.map((mail) => group(8, () => rollout(mail))), { signal })
 * for await (const { job, reward } of trainWhileSampling(model, { sample, jobs: 10 })) console.log(job, reward)
 */
export async function* trainWhileSampling(
  model: TrainableModel,
  options: AsyncLoopOptions,
): AsyncGenerator<AsyncLoopStep, void> {
  const { sample, jobs, maxStepsOffPolicy = 1, ...trainOptions } = options
  assertCount('jobs', jobs)
  assertCount('maxStepsOffPolicy', maxStepsOffPolicy)
  const ended = new AbortController()
  const signal = AbortSignal.any([ended.signal, ...(options.signal === undefined ? [] : [options.signal])])
  const waiting: Promise<readonly TrajectoryGroup[]>[] = []
  let sampling: Promise<unknown> = Promise.resolve()
  let begun = 0
  const begin = (): void => {
    begun += 1
    const round = begun
    const groups = sampling.then(() => sample(round, signal))
    // told when its turn comes
    sampling = groups.catch(() => undefined)
    waiting.push(groups)
  }
  try {
    for (let job = 1; job <= jobs; job += 1) {
      options.signal?.throwIfAborted()
      while (begun < Math.min(jobs, job + maxStepsOffPolicy)) begin()
      const groups = (await waiting.shift()) ?? []
      let { fresh, step } = await freshOf(groups)
      let discardedGroups = groups.length - fresh.length
      if (groups.length > 0 && fresh.length === 0) {
        // only jobs of others can have overtaken all of them: once more, while nothing is trained here
        await sampling
        const again = await sample(job, signal)
        ;({ fresh, step } = await freshOf(again))
        discardedGroups += again.length - fresh.length
        if (fresh.length === 0) throw tooOld(model, step, maxStepsOffPolicy)
      }
      const stepsOffPolicy = mean(fresh.map((group) => lagOf(group, step))) ?? 0
      yield { job, stepsOffPolicy, discardedGroups, ...(await model.train(fresh, trainOptions)) }
    }
  } finally {
    ended.abort()
    await Promise.allSettled([sampling, ...waiting])
  }

  /** Groups that are new enough for a job that begins now, from this step. */
  async function freshOf(groups: readonly TrajectoryGroup[]) {
    const { step } = await model.client.models.get(model.id, { signal })
    return { step, fresh: groups.filter((group) => lagOf(group, step) <= maxStepsOffPolicy) }
  }
}

/** Steps that a group lies behind: its oldest answer counts; 0 where no answer says which step it is of. */
function lagOf({ trajectories }: TrajectoryGroup, step: number): number {
  const versions = trajectories.flatMap(({ initialVersion }) => initialVersion ?? [])
  return versions.length === 0 ? 0 : Math.max(0, step - minOf(versions))
}

function assertCount(name: string, value: number): void {
  if (Number.isSafeInteger(value) && value >= 0) return
  throw new InvalidRequestError('invalid_value', `${name} must be a whole number from 0 up, got ${value}`)
}

function tooOld(model: TrainableModel, step: number, limit: number): AppError {
  const message = `every group sampled for "${model.options.name}" is more than ${limit} steps behind step ${step}`
  return new AppError('conflict', 'groups_too_old', message, {
    hint: 'another program trains this model: train one of your own, or raise maxStepsOffPolicy',
  })
}
