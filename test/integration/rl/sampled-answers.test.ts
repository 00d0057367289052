/**
 * What is sampled is what is trained, against a real service on spark: answers at a temperature, cut by top-p, held to a grammar of fixed
 * words, streamed too, train on the distribution that they were drawn from, and where that cannot be done a warning says why.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLogger } from '../../../src/base/logging/logger.js'
import { gather, group, type LocalService, startLocal, TrainableModel, type TrajectoryGroup } from '../../../src/rl.js'

type Body = NonNullable<NonNullable<Parameters<ReturnType<TrainableModel['trajectory']>['ask']>[0]>['body']>

let local: LocalService
let count = 0
beforeAll(async () => {
  local = await startLocal({ baseModels: ['trainyard/spark'], logger: createLogger({ level: 'silent' }) })
})
afterAll(() => local.close())

const WORDS = ['red', 'green', 'blue', 'yellow', 'violet']

/** Two groups of four answers, sampled as asked, one job of a new model on them. */
async function train(body: Body, options: { temperature?: number; samplingRatio?: 'raw' } = {}) {
  count += 1
  const model = await new TrainableModel(local.client, {
    name: `sampled-${count}`,
    baseModel: 'trainyard/spark',
  }).register()
  const groups = await gather(
    ['Name a colour.', 'What is the weather in Rome?'].map((content) =>
      group(4, async (index) => {
        const trajectory = model.trajectory([{ role: 'user', content }])
        await trajectory.ask({ maxTokens: 12, seed: 10 + index, temperature: options.temperature ?? 1, body })
        trajectory.reward = index % 2
        return trajectory
      }),
    ),
  )
  const set = options.samplingRatio === undefined ? {} : { config: { sampling_ratio: options.samplingRatio } }
  const warned: string[] = []
  const result = await model.train(groups, {
    learningRate: 1e-3,
    onWarning: (message) => warned.push(message),
    ...set,
  })
  const job = await local.client.trainingJobs.get(result.jobId as string)
  const facts = job.report?.facts ?? {}
  return { facts, warnings: [...new Set([...warned, ...result.warnings])].join('\n'), choices: choicesOf(groups) }
}

function choicesOf(groups: readonly TrajectoryGroup[]) {
  return groups.flatMap(({ trajectories }) => trajectories.flatMap(({ choices }) => choices))
}

describe('answers train on the distribution that they were drawn from', () => {
  it.each<[string, number, Body]>([
    ['temperature 0.5', 0.5, {}],
    ['temperature 2', 2, {}],
    ['temperature 0.5, top-p 0.8', 0.5, { top_p: 0.8, top_k: 512 }],
    ['a grammar of fixed words', 1, { structured_outputs: { choice: WORDS } }],
    ['temperature 0.5, top-p 0.8, a grammar', 0.5, { top_p: 0.8, top_k: 512, structured_outputs: { choice: WORDS } }],
  ])('%s', async (_name, temperature, body) => {
    const { facts, choices, warnings } = await train(body, { temperature })
    expect(choices.every(({ sampling }) => sampling !== undefined)).toBe(true)
    const mismatch = facts['sampler_mismatch']!
    expect(mismatch['kl']).toBeLessThan(1e-9)
    expect(mismatch['ratio_p01']).toBeCloseTo(1, 3)
    expect(mismatch['ratio_p99']).toBeCloseTo(1, 3)
    const { tokens, recorded } = facts['sampling']!
    expect(recorded).toBe(tokens)
    expect(warnings).not.toContain('sampled tokens')
  })

  it('says by name what it cannot follow, and that greedy answers teach nothing', async () => {
    const penalized = await train({ repetition_penalty: 1.3 } as Body)
    expect(penalized.warnings).toContain('repetition_penalty')
    const greedy = await train({}, { temperature: 0 })
    expect(greedy.warnings).toContain('temperature 0')
  })

  it('compares raw numbers where it is asked to, and says what it leaves unread', async () => {
    const raw = await train({}, { temperature: 0.5, samplingRatio: 'raw' })
    expect(raw.warnings).toContain('sampling_ratio raw')
  })
})
