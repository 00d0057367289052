/**
 * Sampling while jobs train, against a real service: in which order, how old the answers are, that ratios are to the log-probabilities
 * which were recorded, and what becomes of groups that others' jobs have overtaken.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createLogger } from '../../../src/base/logging/logger.js'
import {
  type AsyncLoopStep,
  gather,
  group,
  type LocalService,
  startLocal,
  TrainableModel,
  type TrajectoryGroup,
  trainWhileSampling,
} from '../../../src/rl.js'

let local: LocalService
beforeAll(async () => {
  local = await startLocal({ baseModels: ['trainyard/tiny-random'], logger: createLogger({ level: 'silent' }) })
})
afterAll(() => local.close())

const QUIET = { onWarning: () => undefined }

async function register(name: string): Promise<TrainableModel> {
  return await new TrainableModel(local.client, { name, baseModel: 'trainyard/tiny-random' }).register()
}

/** Two groups of four answers whose rewards differ. */
async function answersOf(model: TrainableModel, round: number, signal?: AbortSignal): Promise<TrajectoryGroup[]> {
  const plans = ['ab', 'cd'].map((content) =>
    group(4, async (index) => {
      const trajectory = model.trajectory([{ role: 'user', content }])
      await trajectory.ask({ maxTokens: 6, seed: 100 * round + index })
      trajectory.reward = index % 2
      return trajectory
    }),
  )
  return await gather(plans, { concurrency: 1, ...(signal === undefined ? {} : { signal }) })
}

async function runLoop(model: TrainableModel, maxStepsOffPolicy: number, jobs = 4) {
  const log: string[] = []
  const sample = async (round: number, signal: AbortSignal) => {
    log.push(`sample ${round}`)
    return await answersOf(model, round, signal)
  }
  const steps: AsyncLoopStep[] = []
  const options = { sample, jobs, maxStepsOffPolicy, learningRate: 0.05, targetKl: null, ...QUIET }
  for await (const step of trainWhileSampling(model, options)) {
    log.push(`trained ${step.job}`)
    steps.push(step)
  }
  return { log, steps }
}

test('the next round is sampled while a job trains, its answers are at most so many steps old, and the job says how old', async () => {
  const model = await register('ahead')
  const { log, steps } = await runLoop(model, 1)
  const before = (first: string, then: string) => expect(log.indexOf(first), then).toBeLessThan(log.indexOf(then))
  for (const round of [2, 3, 4]) before(`sample ${round}`, `trained ${round - 1}`)
  // and no earlier: a round begins when the job two before it is done
  for (const round of [3, 4]) before(`trained ${round - 2}`, `sample ${round}`)
  expect(steps.map(({ job, step }) => [job, step])).toEqual([1, 2, 3, 4].map((n) => [n, n]))
  expect(steps[0]).toMatchObject({ stepsOffPolicy: 0, discardedGroups: 0 })
  for (const { stepsOffPolicy } of steps) expect(stepsOffPolicy).toBeLessThanOrEqual(1)
  // the second round began before the first job did
  expect(steps[1]?.stepsOffPolicy).toBeGreaterThan(0)
  const { data } = await local.client.checkpoints.list(model.id)
  const lagOf = (step: number) => data.find((each) => each.step === step)?.metrics['train/steps_off_policy']
  expect(steps.map(({ step }) => lagOf(step))).toEqual(steps.map(({ stepsOffPolicy }) => stepsOffPolicy))
})

test('ratios of older answers are to the log-probabilities that were recorded, not to what the trainer would have said', async () => {
  const model = await register('ratios')
  // one group sampled at step 0 and trained at step 1, far away
  const old = await answersOf(model, 1)
  await model.train(await answersOf(model, 2), { learningRate: 0.05, targetKl: null, ...QUIET })
  const { jobId } = await model.train(old, { learningRate: 1e-6, targetKl: null, ...QUIET })
  const place = { jobId: jobId as string, group: 0, trajectory: 1 }
  const tokens = await local.client.rollouts.tokens(place)
  const recorded = old[0]?.trajectories[1]?.choices[0]?.logprobs?.content ?? []
  const trained = tokens.ids.flatMap((_, at) => (tokens.is_trained[at] === true ? [at] : []))
  expect(trained).toHaveLength(recorded.length)
  const before = await local.client.rollouts.scores(place, { step: '1' })
  let farthest = 0
  trained.forEach((at, i) => {
    const ratio = Math.exp((before.logprob[at] ?? Number.NaN) - (recorded[i]?.logprob ?? Number.NaN))
    // engine and trainer both compute in float32
    expect(Math.abs((tokens.ratio[at] ?? Number.NaN) - ratio)).toBeLessThan(1e-3 * Math.max(1, ratio))
    farthest = Math.max(farthest, Math.abs(ratio - 1))
  })
  // a trainer that took its own log-probabilities would have ratios of 1
  expect(farthest).toBeGreaterThan(0.05)
})

test('at 0 the loop samples and trains in turn', async () => {
  const { log, steps } = await runLoop(await register('turns'), 0, 3)
  expect(log).toEqual([1, 2, 3].flatMap((n) => [`sample ${n}`, `trained ${n}`]))
  expect(steps.map(({ stepsOffPolicy }) => stepsOffPolicy)).toEqual([0, 0, 0])
})

test('groups that a job of somebody else has overtaken are thrown away and sampled again; where that never ends it is an error', async () => {
  const [model, other] = [await register('overtaken'), await register('overtaken')]
  let [calls, others] = [0, 1]
  const sample = async () => {
    calls += 1
    const groups = await answersOf(model, calls)
    if (others > 0) await other.train(await answersOf(other, calls), QUIET)
    others -= 1
    return groups
  }
  const steps: AsyncLoopStep[] = []
  const options = { sample, jobs: 1, maxStepsOffPolicy: 0, ...QUIET }
  for await (const step of trainWhileSampling(model, options)) steps.push(step)
  expect(steps).toMatchObject([{ discardedGroups: 2, step: 2, stepsOffPolicy: 0 }])
  expect(calls).toBe(2)
  others = 2
  await expect(trainWhileSampling(model, options).next()).rejects.toMatchObject({ code: 'groups_too_old' })
})

test('who breaks off ends the sampling; its failure is told after the job that trains, and wrong numbers at once', async () => {
  const model = await register('ends')
  const signals: AbortSignal[] = []
  const endless = async (round: number, signal: AbortSignal) => {
    signals.push(signal)
    if (round === 1) return await answersOf(model, round, signal)
    return await new Promise<TrajectoryGroup[]>((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    })
  }
  for await (const { job } of trainWhileSampling(model, { sample: endless, jobs: 9, ...QUIET })) {
    expect(job).toBe(1)
    break
  }
  expect(signals.map(({ aborted }) => aborted)).toEqual([true, true])

  const failing = async (round: number) => {
    if (round === 2) throw new Error('no more prompts')
    return await answersOf(model, round)
  }
  const loop = trainWhileSampling(model, { sample: failing, jobs: 3, ...QUIET })
  expect((await loop.next()).value).toMatchObject({ job: 1, step: 2 })
  await expect(loop.next()).rejects.toThrow('no more prompts')
  for (const wrong of [{ jobs: -1 }, { jobs: 1.5 }, { jobs: 1, maxStepsOffPolicy: Number.NaN }]) {
    await expect(trainWhileSampling(model, { sample: failing, ...wrong }).next()).rejects.toMatchObject({
      code: 'invalid_value',
    })
  }
})
