/**
 * What a job's record says of its own course, provoked through HTTP: a policy that runs away from its sampler, and a conversation that
 * did not become one sequence. Real processes on the built-in model.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { sparkDirectory } from '#model/built-in/spark.js'
import { loadTextModel, type TextModel } from '#model/text/text-model.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

let service: TestService
let tokenizer: TextModel['tokenizer']
beforeAll(async () => {
  ;({ tokenizer } = await loadTextModel(sparkDirectory()))
  service = await createTestService({ scripted: false, baseModels: ['trainyard/spark'], threads: 1 })
})
afterAll(() => service.dispose())

async function train(name: string, request: JsonObject): Promise<TrainingJob> {
  const { body: model } = await service.json<{ id: string }>('/v1/preview/models', {
    json: { project: 'tests', name, base_model: 'trainyard/spark' },
  })
  const { status, body } = await service.json<TrainingJob & { error?: unknown }>('/v1/preview/training-jobs', {
    json: { model_id: model.id, ...request },
  })
  expect([status, body.error]).toEqual([200, undefined])
  return service.waitForJob(body.id)
}

/** A text in the built-in model's tokens, one for each character. */
const idsOf = (text: string): number[] => [...text].flatMap((character) => [...tokenizer.encode(character)])

/** A choice as the sampler would have returned it. */
const choice = (prompt: string, text: string) => {
  const ids = idsOf(text)
  return {
    finish_reason: 'stop',
    index: 0,
    message: { role: 'assistant', content: text },
    prompt_token_ids: idsOf(prompt),
    token_ids: ids,
    logprobs: { content: ids.map((id) => ({ token: `token_id:${id}`, logprob: -1.5, bytes: null, top_logprobs: [] })) },
  }
}
const user = (content: string) => ({ role: 'user', content })

test('a divergence that grows from step to step is told with its figures and what to do', async () => {
  const trajectory_groups = Array.from({ length: 12 }, (_, at) => ({
    trajectories: ['yes yes', 'no no no'].map((text, reward) => ({
      messages_and_choices: [user('?'), choice(`question ${at}: `, text)],
      reward,
    })),
  }))
  const job = await train('runs-away', {
    trajectory_groups,
    // rows of 32 tokens: many steps, at a rate far too high
    experimental_config: { learning_rate: 0.01, packed_sequence_length: 32, precalculate_logprobs: true, seed: 1 },
  })
  expect(job).toMatchObject({ status: 'completed', step: 1 })
  const steps = (await service.allEvents(job.id)).filter(({ type }) => type === 'gradient_step')
  expect(steps.length).toBeGreaterThanOrEqual(8)
  const kl = steps.map(({ data }) => data['kl_div'] as number)
  const quarter = Math.floor(kl.length / 4)
  const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / quarter
  const [first, last] = [mean(kl.slice(0, quarter)), mean(kl.slice(-quarter))]
  expect(last).toBeGreaterThan(2 * first)
  expect(job.report!.warnings).toContain(
    `KL rising: the divergence from the sampler went from ${first.toPrecision(2)} to ${last.toPrecision(2)} within the job; lower the rate or train on fewer trajectories at once`,
  )
})

test('a conversation whose second prompt is not the first one continued trains in parts, and the record says from which token on', async () => {
  const conversation = (second: string, reward: number) => ({
    messages_and_choices: [user('a'), choice('a: ', 'one'), user('b'), choice(second, 'two')],
    reward,
  })
  const job = await train('told-anew', {
    trajectory_groups: [{ trajectories: [conversation('a: one b: ', 1), conversation('a: One b: ', 0)] }],
  })
  expect(job).toMatchObject({ status: 'completed', step: 1 })
  expect(job.report!.left_out).toEqual([
    { reason: 'unmerged', count: 1, examples: [expect.stringContaining('trajectory_groups[0].trajectories[1]')] },
  ])
  const [now, before] = [idsOf('O')[0], idsOf('o')[0]]
  expect(job.report!.left_out[0]!.examples[0]).toMatch(
    new RegExp(`the prompt of turn 2 .* from token 3 on: ${now} "O" instead of ${before} "o"$`),
  )
  // three sequences: the merged conversation and the two parts of the other; nothing is lost
  expect(job.report!.trained_tokens).toBe(4 * 3)
  const { data } = (await service.allEvents(job.id))[0]!
  expect(data).toMatchObject({ num_unmerged_histories: 1, num_trained_trajectories: 2 })
})
