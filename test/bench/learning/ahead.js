/**
 * Does sampling ahead pay? The same jobs with sampling and training in turn, and with the next round sampled while a job trains
 * (`trainWhileSampling`), on fresh models one after the other in one service: seconds for all jobs, and the held-out reward after them.
 *
 *     npm run build && node test/bench/learning/ahead.js [--task order] [--jobs 6] [--seeds 1,2] [--ahead 0,1] [--rate 1e-3] [--threads N]
 *
 * Each seed runs all settings, the order turned round with the seed, so that a machine that others use is the same for each.
 */
import { parseArgs } from 'node:util'
import { gather, group, startLocal, TrainableModel, trainWhileSampling } from 'trainyard/rl'
import { rewardOf, TASKS } from './tasks.js'

const { values } = parseArgs({
  options: {
    task: { type: 'string', default: 'order' },
    jobs: { type: 'string', default: '6' },
    seeds: { type: 'string', default: '1,2' },
    ahead: { type: 'string', default: '0,1' },
    rate: { type: 'string', default: '1e-3' },
    threads: { type: 'string' },
  },
})
const task = TASKS[values.task]
const MAX_TOKENS = 12

const local = await startLocal(values.threads === undefined ? {} : { threads: Number(values.threads) })
console.log('| seed | steps ahead | seconds | held out: before, after | steps off policy |')
console.log('| --- | --- | --- | --- | --- |')
try {
  // starts the worker and the sessions
  await oneRun('warm-up', { ahead: 0, jobs: 1 })
  for (const [turn, seed] of values.seeds.split(',').map(Number).entries()) {
    const settings = values.ahead.split(',').map(Number)
    for (const ahead of turn % 2 === 0 ? settings : settings.toReversed()) {
      console.log(`| ${(await oneRun(seed, { ahead, jobs: Number(values.jobs) })).join(' | ')} |`)
    }
  }
} finally {
  await local.close()
}

async function oneRun(seed, { ahead, jobs }) {
  const name = `ahead-${seed}-${ahead}`
  const model = await new TrainableModel(local.client, { name, baseModel: 'trainyard/spark' }).register()
  let asked = 0
  const ask = async ({ prompt, answer }) => {
    const trajectory = model.trajectory([{ role: 'user', content: prompt }])
    await trajectory.ask({ maxTokens: MAX_TOKENS, seed: (Number(seed) || 0) * 1_000_000 + asked++ })
    trajectory.reward = rewardOf(task, trajectory.answer, answer)
    return trajectory
  }
  const groupsOf = async (questions, size, options = {}) =>
    await gather(
      questions.map((question) => group(size, () => ask(question))),
      options,
    )
  const measure = async () => {
    const groups = await groupsOf(task.heldOut, task.heldOutSize)
    return groups.reduce((sum, { meanReward }) => sum + meanReward / groups.length, 0)
  }
  const sample = async (round, signal) => {
    const first = (round - 1) * task.perStep
    const questions = Array.from({ length: task.perStep }, (_, i) => task.training[(first + i) % task.training.length])
    return await groupsOf(questions, task.size, { signal })
  }
  const before = await measure()
  const begin = performance.now()
  const lags = []
  const options = { sample, jobs, maxStepsOffPolicy: ahead, learningRate: Number(values.rate) }
  const loop = trainWhileSampling(model, {
    ...options,
    config: { seed: Number(seed) || 0 },
    onWarning: () => undefined,
  })
  for await (const { stepsOffPolicy } of loop) lags.push(stepsOffPolicy)
  const seconds = (performance.now() - begin) / 1000
  const after = await measure()
  return [seed, ahead, seconds.toFixed(1), `${before.toFixed(2)}, ${after.toFixed(2)}`, lags.join(' ')]
}
