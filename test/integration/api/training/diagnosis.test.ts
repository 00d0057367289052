/**
 * What a job's record says of its own course, provoked through HTTP: a policy that runs away from its sampler, and a conversation that
 * did not become one sequence. Real processes on the built-in model.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import type { Model } from '#contract/wire/models.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { sparkDirectory } from '#model/built-in/spark.js'
import { loadTextModel, type TextModel } from '#model/text/text-model.js'
import { inferenceName } from '#sdk/client/inference-name.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

let service: TestService
let tokenizer: TextModel['tokenizer']
beforeAll(async () => {
  ;({ tokenizer } = await loadTextModel(sparkDirectory()))
  service = await createTestService({ scripted: false, baseModels: ['trainyard/spark'], threads: 1 })
})
afterAll(() => service.dispose())

async function createModel(name: string): Promise<Model> {
  const json = { project: 'tests', name, base_model: 'trainyard/spark' }
  return (await service.json<Model>('/v1/preview/models', { json })).body
}

async function train(name: string, request: JsonObject): Promise<TrainingJob> {
  const model = await createModel(name)
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
    `KL rising: the divergence from the sampler went from ${first.toPrecision(2)} to ${last.toPrecision(2)} within the job; where the reward of the next job has not risen: lower the rate or train on fewer trajectories at once`,
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

/** Groups as a user's loop makes them: sampled answers, worth something where they hold the number. */
async function sampleGroups(
  model: string,
  numbers: readonly number[],
  worth: (answer: string, wanted: string) => number,
) {
  return Promise.all(
    numbers.map(async (number) => {
      const messages = [{ role: 'user', content: `My order ${number} is late. Tom Which number is the order?` }]
      const { body } = await service.json<{ choices: { message: { content: string } }[]; prompt_token_ids: number[] }>(
        '/v1/chat/completions',
        { json: { model, messages, n: 8, max_tokens: 12, seed: number, logprobs: true, return_token_ids: true } },
      )
      return {
        trajectories: body.choices.map((each) => ({
          messages_and_choices: [...messages, { ...each, prompt_token_ids: body.prompt_token_ids }],
          reward: worth(each.message.content.trim(), String(number)),
        })),
      }
    }),
  )
}
const numbers = Array.from({ length: 10 }, (_, i) => 11 + i)

test('jobs at a rate far too small are told that the policy does not move, from the third on', async () => {
  const model = await createModel('stands-still')
  const worth = (answer: string, wanted: string): number => (answer === wanted ? 1 : answer.includes(wanted) ? 0.4 : 0)
  const said: string[][] = []
  for (let at = 0; at < 3; at += 1) {
    // the same answers every time: what the model says stays the same
    const json = {
      model_id: model.id,
      trajectory_groups: await sampleGroups(inferenceName(model, 0), numbers, worth),
      experimental_config: { learning_rate: 5e-6, target_kl: 0.2, tokens_per_step: 384, seed: at },
    }
    const { body } = await service.json<TrainingJob>('/v1/preview/training-jobs', { json })
    said.push((await service.waitForJob(body.id)).warnings.filter((warning) => warning.startsWith('reward stuck')))
  }
  expect(said.slice(0, 2)).toEqual([[], []])
  expect(said[2]).toEqual([
    expect.stringMatching(
      /^reward stuck: .* moved the policy by \S+ nats per token, .*; raise learning_rate about \d+ times/,
    ),
  ])
})

test('a job whose reward is far below that of the job before is told which step to go back to, and at which rate', async () => {
  const model = await createModel('moves-too-far')
  const said: string[][] = []
  for (const earning of [7, 1]) {
    let answered = 0
    const json = {
      model_id: model.id,
      // so many of eight answers to each prompt earn something: what they say does not matter here
      trajectory_groups: await sampleGroups(inferenceName(model, 0), numbers, () => Number(answered++ % 8 < earning)),
      experimental_config: { learning_rate: 1e-3, target_kl: 0.2, tokens_per_step: 384, seed: earning },
    }
    const { body } = await service.json<TrainingJob>('/v1/preview/training-jobs', { json })
    said.push((await service.waitForJob(body.id)).warnings.filter((warning) => warning.startsWith('moved too far')))
  }
  expect(said[0]).toEqual([])
  expect(said[1]).toEqual([
    expect.stringMatching(
      /^moved too far: the reward fell from 0\.88 \(answers of step 0\) to 0\.13 \(of step 1\), while jobs moved the policy by \S+ nats per token; train from step 0 at learning_rate 3e-4 with advantage_balance 1: /,
    ),
  ])
})

test('a job whose answers all earn nothing says what can work, and shows two of them', async () => {
  const model = await createModel('never-right')
  const trajectory_groups = await sampleGroups(inferenceName(model), numbers.slice(0, 2), () => 0)
  const { body } = await service.json<TrainingJob>('/v1/preview/training-jobs', {
    json: { model_id: model.id, trajectory_groups },
  })
  const { warnings, report } = await service.waitForJob(body.id)
  expect(warnings.filter((warning) => warning.startsWith('reward'))).toEqual([
    expect.stringMatching(
      /^reward 0 everywhere: none of 16 answers got any, and what is never said cannot be rewarded; (for example ".*" and ".*" to one prompt, both|every one of 8 answers to one prompt is ".*",) worth 0; show it good answers first/,
    ),
  ])
  expect(report!.facts).toMatchObject({ groups: { total: 2, flat: 2 }, answers: { total: 16 } })
})
