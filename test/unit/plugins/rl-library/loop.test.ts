/** The loop's parts: gathering with failures, what a trajectory sends, training, judging, tools, keeping the best. */
import { describe, expect, test } from 'vitest'
import { isJsonObject } from '#base/util/json.js'
import type { ChatResponse } from '#contract/wire/chat-completions.js'
import {
  AppError,
  atMostTokens,
  combineRewards,
  createJudge,
  createToolEnvironment,
  exactAnswer,
  type GatherProgress,
  gather,
  group,
  matching,
  play,
  TrainableModel,
  Trajectory,
  TrajectoryGroup,
} from '#rl.js'
import { createClient } from '#sdk/client/client.js'
import {
  checkpoint,
  errorBody,
  JOB,
  MODEL,
  page,
  type Routes,
  scriptedService,
} from '../../../support/service/scripted-service.js'

function response(content: string, more: Partial<ChatResponse> = {}): ChatResponse {
  const message = { role: 'assistant', content, refusal: null, annotations: null, audio: null, function_call: null }
  return {
    id: 'c',
    object: 'chat.completion',
    created: 0,
    model: 'm',
    choices: [
      {
        index: 0,
        message: { ...message, tool_calls: [], reasoning: null, reasoning_content: null },
        logprobs: null,
        finish_reason: 'stop',
        stop_reason: null,
        token_ids: [1, 2],
      },
    ],
    service_tier: null,
    system_fingerprint: 'local/default/email-agent:step3:abc',
    usage: { prompt_tokens: 1, total_tokens: 3, completion_tokens: 2, prompt_tokens_details: null },
    prompt_logprobs: null,
    prompt_token_ids: [7],
    kv_transfer_params: null,
    ...more,
  }
}

/** @param parameters of the base model, as the service knows them; null: it does not */
async function scripted(routes: Routes, parameters: number | null = null) {
  const { base_model } = MODEL
  const service = scriptedService({
    'POST /v1/preview/models': { body: MODEL },
    ...(parameters === null ? {} : { [`GET /v1/preview/base-models/${base_model}`]: { body: { parameters } } }),
    ...routes,
  })
  const client = createClient({ baseUrl: 'http://h:1', apiKey: 'k', fetch: service.fetch })
  const model = new TrainableModel(client, { name: 'email-agent', baseModel: base_model })
  await model.register()
  return { model, requests: service.requests }
}

function rewarded(reward: number): Trajectory {
  const trajectory = new Trajectory([{ role: 'user', content: 'q' }])
  trajectory.record(response('a'))
  trajectory.reward = reward
  return trajectory
}

describe('gather', () => {
  test('a failed rollout is an exception of its group; the others and the order stay', async () => {
    const seen: number[] = []
    const groups = await gather(
      [
        group(3, async (index) => {
          if (index === 1) throw new TypeError('no answer')
          return rewarded(index)
        }),
        group(2, async () => [rewarded(5), rewarded(6)]),
      ],
      { concurrency: 2, onProgress: ({ done }) => seen.push(done) },
    )
    expect(groups[0]?.rewards).toEqual([0, 2])
    expect(groups[0]?.exceptions).toMatchObject([{ type: 'TypeError', message: 'no answer' }])
    expect(groups[1]?.rewards).toEqual([5, 6, 5, 6])
    expect(seen).toEqual([1, 2, 3, 4, 5])
  })
  test('failures are tried again, and no more than `concurrency` run side by side', async () => {
    let [running, most, calls] = [0, 0, 0]
    const plan = group(6, async (index) => {
      running += 1
      most = Math.max(most, running)
      calls += 1
      await new Promise((done) => setTimeout(done, 1))
      running -= 1
      if (index === 0 && calls < 3) throw new Error('busy')
      return rewarded(1)
    })
    const [gathered] = await gather([plan], { concurrency: 2, retries: 3 })
    expect(gathered?.trajectories).toHaveLength(6)
    expect(gathered?.exceptions).toEqual([])
    expect(most).toBe(2)
  })
  test('goes on until so many groups differ, keeps those, counts the others, and seeds anew when prompts come round again', async () => {
    const asked: string[] = []
    // of three prompts the second differs from its second round on
    const plans = ['a', 'b', 'c'].map((name) =>
      group(2, async (index) => {
        asked.push(`${name}${index}`)
        return rewarded(name === 'b' && index >= 2 ? index % 2 : 0)
      }),
    )
    const seen: GatherProgress[] = []
    const options = { untilTrainable: 2, maxAttempts: 30, onProgress: (each: GatherProgress) => void seen.push(each) }
    const groups = await gather(plans, options)
    expect(groups.map(({ rewards }) => rewards)).toEqual(Array.from({ length: groups.length }, () => [0, 1]))
    expect(groups.length).toBeGreaterThanOrEqual(2)
    const last = seen.at(-1)!
    expect(last).toMatchObject({ trainable: groups.length, done: last.total })
    expect(last.trainable! + last.thrownAway!).toBe(last.total / 2)
    expect(new Set(asked).size).toBe(asked.length)
  })
  test('ends at the most groups it may ask for; where none differs they are returned as they are', async () => {
    let calls = 0
    const plan = group(2, async () => {
      calls += 1
      return rewarded(0)
    })
    const groups = await gather([plan], { untilTrainable: 3, maxAttempts: 7 })
    expect(calls).toBe(14)
    expect(groups.every(({ isTrainable }) => !isTrainable)).toBe(true)
    expect(groups.length).toBeGreaterThan(0)
  })
  test('an abort ends it with its reason', async () => {
    const abort = new AbortController()
    const running = gather(
      [
        group(
          4,
          async () =>
            new Promise<Trajectory>((_, failed) =>
              abort.signal.addEventListener('abort', () => failed(new Error('cut'))),
            ),
        ),
      ],
      { signal: abort.signal },
    )
    const outcome = expect(running).rejects.toThrow('enough')
    abort.abort(new Error('enough'))
    await outcome
  })
})

describe('a trajectory', () => {
  test('asks with ids and log-probabilities and sends the answer back as a message', async () => {
    const { model, requests } = await scripted({ 'POST /v1/chat/completions': { body: response('4172') } })
    const trajectory = model.trajectory([{ role: 'user', content: 'Which order?' }])
    expect((await trajectory.ask({ maxTokens: 5, body: { top_p: 0.9 } })).content).toBe('4172')
    await trajectory.add({ role: 'user', content: 'Sure?' }).ask()
    expect(requests[1]?.body).toMatchObject({
      model: 'wandb-artifact:///local/default/email-agent',
      logprobs: true,
      return_token_ids: true,
      max_completion_tokens: 5,
      temperature: 1,
      top_p: 0.9,
    })
    expect(requests[2]?.body).toMatchObject({
      messages: [
        { role: 'user', content: 'Which order?' },
        { role: 'assistant', content: '4172' },
        { role: 'user', content: 'Sure?' },
      ],
    })
    expect(trajectory.toJSON()).toMatchObject({
      messages_and_choices: [
        { role: 'user' },
        { token_ids: [1, 2], prompt_token_ids: [7] },
        { role: 'user' },
        { index: 0 },
      ],
      initial_policy_version: 3,
      final_policy_version: 3,
    })
  })
  test('more than one answer cannot be one trajectory', () => {
    const two = response('a')
    expect(() => new Trajectory().record({ ...two, choices: [...two.choices, ...two.choices] })).toThrow(AppError)
  })
})

describe('train', () => {
  const job = (status: string) => ({
    ...JOB,
    status,
    step: 13,
    training_end: '2026-11-20T10:00:03.000Z',
    error_message: 'NaN',
  })
  const ended = { id: 'e2', type: 'training_ended', data: {}, created_at: '' }
  const stepped = { id: 'e1', type: 'gradient_step', data: { loss: 0.5 }, created_at: '' }
  const routes = (status: string): Routes => ({
    'POST /v1/preview/training-jobs': { body: JOB },
    [`GET /v1/preview/training-jobs/${JOB.id}/events`]: { body: page([stepped, ended]) },
    [`GET /v1/preview/training-jobs/${JOB.id}`]: { body: job(status) },
  })
  const groups = [new TrajectoryGroup([rewarded(0), rewarded(1)]), new TrajectoryGroup([rewarded(1), rewarded(1)])]

  test('sends all groups when one differs and returns the new step with means', async () => {
    const { model, requests } = await scripted(routes('completed'))
    const failed = new TrajectoryGroup([], { exceptions: [{ type: 'Error', message: 'no route', traceback: '' }] })
    const result = await model.train([...groups, failed], { learningRate: 1e-3, config: { ppo: true } })
    expect(result).toMatchObject({
      step: 13,
      reward: 0.75,
      exceptionRate: 0.2,
      groups: 3,
      trainedGroups: 1,
      metrics: { loss: 0.5 },
      seconds: 2,
    })
    expect(model.step).toBe(13)
    const sent = requests.find(({ path }) => path === '/v1/preview/training-jobs')?.body as {
      trajectory_groups: { trajectories: { reward: number }[] }[]
    }
    expect(sent.trajectory_groups.map((each) => each.trajectories.map(({ reward }) => reward))).toEqual([
      [0, 1],
      [1, 1],
      [],
    ])
    expect(sent).toMatchObject({ experimental_config: { learning_rate: 1e-3, ppo: true } })
  })

  test("the job's warnings are in the result, and each is told of once for a model", async () => {
    const early = 'a learning rate of 5e-6 hardly moves it'
    const late = '4 trajectories have no turn to train on'
    const path = '/v1/preview/training-jobs'
    const { model } = await scripted({
      ...routes('completed'),
      [`POST ${path}`]: { body: { ...JOB, warnings: [early] } },
      [`GET ${path}/${JOB.id}`]: { body: { ...job('completed'), warnings: [early, late] } },
    })
    const told: string[] = []
    const onWarning = (warning: string) => void told.push(warning)
    expect((await model.train(groups, { onWarning })).warnings).toEqual([early, late])
    expect((await model.train(groups, { onWarning })).warnings).toEqual([early, late])
    expect(told).toEqual([early, late])
  })

  test.each([
    [4_500_000, {}, { learning_rate: 1e-3, advantage_balance: 1, target_kl: 0.2, tokens_per_step: 384 }],
    [135e6, {}, { learning_rate: 3e-4, tokens_per_step: 1024 }],
    [600e6, {}, { tokens_per_step: 1024 }],
    [null, {}, {}],
    [
      4_500_000,
      { targetKl: 0.4, config: { tokens_per_step: 64 } },
      { learning_rate: 1e-3, advantage_balance: 1, target_kl: 0.4, tokens_per_step: 64 },
    ],
    [
      4_500_000,
      { targetKl: null, learningRate: 2e-3, config: { advantage_balance: 0 } },
      { learning_rate: 2e-3, advantage_balance: 0, target_kl: null, tokens_per_step: 384 },
    ],
    [
      135e6,
      { config: { learning_rate: null, packed_sequence_length: 64 } },
      { learning_rate: null, packed_sequence_length: 64 },
    ],
  ])('of %s parameters, given %j, options are %j', async (parameters, options, expected) => {
    const { model, requests } = await scripted(routes('completed'), parameters)
    await model.train(groups, options)
    const sent = requests.find(({ path }) => path === '/v1/preview/training-jobs')?.body
    expect((sent as { experimental_config: object }).experimental_config).toEqual(expected)
  })

  test.each([
    ['trainSft', 4_500_000, {}, { shuffle: true, learning_rate: 1e-3, epochs: 6 }],
    [
      'trainSft',
      4_500_000,
      { config: { learning_rate: [1e-4, 1e-5] } },
      { shuffle: true, learning_rate: [1e-4, 1e-5] },
    ],
    ['trainSft', 135e6, { config: { shuffle: false, epochs: 1 } }, { shuffle: false, learning_rate: 3e-4, epochs: 1 }],
    ['trainDpo', 4_500_000, {}, { shuffle: true, learning_rate: 1e-4 }],
    ['trainDpo', 135e6, {}, { shuffle: true }],
  ] as const)('%s of %s parameters given %j runs with %j', async (method, parameters, options, expected) => {
    const rows = { trainSft: { messages: [] }, trainDpo: { prompt: 'q', chosen: 'a', rejected: 'b' } }[method]
    const path = `/v1/preview/${method === 'trainSft' ? 'sft' : 'dpo'}-training-jobs`
    const answers = { 'POST /v1/files': { body: { id: 'file-7' } }, [`POST ${path}`]: { body: JOB } }
    const { model, requests } = await scripted({ ...routes('completed'), ...answers }, parameters)
    await (model[method].bind(model) as (rows: readonly object[], options: object) => Promise<object>)([rows], options)
    const sent = requests.find((request) => request.path === path)?.body as { readonly config: object }
    expect(sent.config).toEqual(expected)
  })

  test.each([
    ['trainSft', 'sft', { messages: [{ role: 'user' as const, content: 'q' }] }],
    ['trainDpo', 'dpo', { prompt: 'q', chosen: 'a', rejected: 'b' }],
  ] as const)('%s uploads the rows and trains on them', async (method, kind, row) => {
    const path = `/v1/preview/${kind}-training-jobs`
    const file = { 'POST /v1/files': { body: { id: 'file-7' } }, [`POST ${path}`]: { body: JOB } }
    const { model, requests } = await scripted({ ...routes('completed'), ...file })
    const train = model[method].bind(model) as (rows: readonly object[], options: object) => Promise<object>
    const result = await train([row, row], { learningRate: 1e-3, config: { epochs: 2 } })
    expect(result).toEqual({
      step: 13,
      jobId: JOB.id,
      gradientSteps: 1,
      metrics: { loss: 0.5 },
      seconds: 2,
      warnings: [],
    })
    expect(model.step).toBe(13)
    expect(requests.find((request) => request.path === path)?.body).toEqual({
      model_id: MODEL.id,
      training_data_url: 'file-7',
      config: { learning_rate: 1e-3, epochs: 2, shuffle: true },
    })
    await train([row], { validation: [row] })
    expect(requests.filter((request) => request.path === path).at(-1)?.body).toEqual({
      model_id: MODEL.id,
      training_data_url: 'file-7',
      validation_data_url: 'file-7',
      config: expect.any(Object),
    })
  })
  test('an evaluation says that no answer earned anything, once, and in its result', async () => {
    const logged = { step: 3, metrics: { 'val/reward': 0 }, run_id: null }
    const { model } = await scripted({ [`POST /v1/preview/models/${MODEL.id}/log`]: { body: logged } })
    const told: string[] = []
    const onWarning = (warning: string) => void told.push(warning)
    const groups = (reward: number) => [new TrajectoryGroup([rewarded(reward), rewarded(reward)])]
    const first = await model.evaluate(groups(0), { onWarning })
    expect(first).toEqual({ ...logged, warnings: told })
    expect(told).toEqual([expect.stringContaining('reward 0 everywhere')])
    expect((await model.evaluate(groups(0), { onWarning })).warnings).toHaveLength(1)
    expect(told).toHaveLength(1)
    expect((await model.evaluate(groups(1), { onWarning })).warnings).toEqual([])
  })
  test('what belongs to another measurement is returned and told of, not stored; a name of one’s own is refused', async () => {
    const refusal = errorBody('other_measurement', 'split "val" holds another')
    const { model } = await scripted({ [`POST /v1/preview/models/${MODEL.id}/log`]: { status: 409, body: refusal } })
    const groups = [new TrajectoryGroup([rewarded(0.25), rewarded(0.75)])]
    const { metrics, warnings } = await model.evaluate(groups, { onWarning: () => undefined })
    expect(metrics).toEqual({ 'val/reward': 0.5 })
    expect(warnings).toEqual([
      'not stored: split "val" holds another; evaluate(groups, { split }) stores it beside that',
    ])
    await expect(model.evaluate(groups, { measurement: 'mine' })).rejects.toMatchObject({ code: 'other_measurement' })
  })
  test('when no group differs no job is started, and that is said with numbers; a KL penalty changes nothing of it, other advantages do', async () => {
    const { model, requests } = await scripted(routes('completed'))
    const told: string[] = []
    const equal = [
      new TrajectoryGroup([rewarded(0.25), rewarded(0.25)]),
      new TrajectoryGroup([rewarded(0.1 + 0.2), rewarded(0.3)]),
    ]
    const result = await model.train(equal, { onWarning: (warning) => void told.push(warning) })
    expect(result).toMatchObject({ jobId: null, step: 12, trainedGroups: 0, warnings: told })
    expect(told).toEqual([
      expect.stringMatching(
        /^nothing is trained, the model stays at step 12: reward variance zero in 100% of groups \(2 of 2, mean reward 0\.275\): .*ask more often/,
      ),
    ])
    expect(requests.some(({ path }) => path === '/v1/preview/training-jobs')).toBe(false)
    // it shifts credit between tokens that train, and none does
    expect((await model.train(equal, { config: { kl_penalty_coef: 0.1 } })).jobId).toBeNull()
    // compared with those of other groups, rewards that are equal inside theirs differ
    const compared = await model.train(equal, { config: { advantage_estimator: 'batch' } })
    expect(compared).toMatchObject({ jobId: JOB.id, trainedGroups: 2 })
  })
  test('no trajectory at all is an error that names the first failure', async () => {
    const { model } = await scripted({})
    const failed = new TrajectoryGroup([], { exceptions: [{ type: 'Error', message: 'no route', traceback: '' }] })
    await expect(model.train([failed])).rejects.toThrow('no route')
  })
  test('a failed job is an error that carries it', async () => {
    const { model } = await scripted(routes('failed'))
    await expect(model.train(groups)).rejects.toMatchObject({ name: 'TrainingFailedError', job: { id: JOB.id } })
  })
  test('keepBest keeps the best and the latest, and everything when nothing was measured', async () => {
    const listed = (metrics: Record<string, number>): Routes => ({
      [`GET /v1/preview/models/${MODEL.id}/checkpoints`]: {
        body: page([checkpoint(1, metrics), checkpoint(2), checkpoint(3)]),
      },
      [`DELETE /v1/preview/models/${MODEL.id}/checkpoints`]: { body: { deleted_count: 1, not_found_steps: [] } },
    })
    const measured = await scripted(listed({ 'val/reward': 1 }))
    expect(await measured.model.keepBest()).toEqual({ best: 1, deletedSteps: [2] })
    expect(measured.requests.at(-1)?.body).toEqual({ steps: [2] })
    const losses: Routes = {
      ...listed({}),
      [`GET /v1/preview/models/${MODEL.id}/checkpoints`]: {
        body: page([checkpoint(1, { 'val/loss': 0.2 }), checkpoint(2, { 'val/loss': 0.9 }), checkpoint(3)]),
      },
    }
    const lowest = await scripted(losses)
    expect(await lowest.model.keepBest({ metric: 'val/loss' })).toEqual({ best: 1, deletedSteps: [2] })
    const unmeasured = await scripted(listed({}))
    expect(await unmeasured.model.keepBest()).toEqual({ best: null, deletedSteps: [] })
  })
})

describe('environments and rewards', () => {
  test('a tool is run with the arguments the model wrote, its errors shown, and the reward given at the end', async () => {
    const call = (args: string) => `<tool_call>\n{"name": "add", "arguments": ${args}}\n</tool_call>`
    const answers = [call('{"a": 2, "b": 3}'), call('{"a": "x"}'), '5']
    const { model, requests } = await scripted({
      'POST /v1/chat/completions': () => ({ body: response(answers.shift() ?? '') }),
    })
    const environment = createToolEnvironment({
      messages: [{ role: 'user', content: '2 + 3?' }],
      tools: [
        {
          name: 'add',
          description: 'adds',
          parameters: { type: 'object' },
          run: ({ a, b }) => {
            if (typeof a !== 'number' || typeof b !== 'number') throw new Error('a and b must be numbers')
            return a + b
          },
        },
      ],
      reward: (_, { content }) => (content === '5' ? 1 : 0),
    })
    const trajectory = await play(model, environment)
    expect(trajectory).toMatchObject({ reward: 1, metrics: { turns: 3, is_cut_off: false, tool_errors: 1 } })
    expect(trajectory.messages.filter(({ role }) => role === 'tool').map(({ content }) => content)).toEqual([
      '5',
      'error: a and b must be numbers',
    ])
    expect(requests.at(-1)?.body).toMatchObject({
      tools: [{ type: 'function', function: { name: 'add', strict: true } }],
    })
  })
  test('an episode that does not end is cut off and says so', async () => {
    const { model } = await scripted({ 'POST /v1/chat/completions': { body: response('again') } })
    const endless = { reset: () => ({ messages: [{ role: 'user', content: 'q' }] }), step: () => ({ reward: 0.5 }) }
    expect(await play(model, endless, { maxTurns: 3 })).toMatchObject({
      reward: 1.5,
      metrics: { turns: 3, is_cut_off: true },
    })
  })
  test('every turn draws from a seed of its own, the same ones for the same seed', async () => {
    const endless = { reset: () => ({ messages: [{ role: 'user', content: 'q' }] }), step: () => ({}) }
    const seedsOf = async (seed?: number) => {
      const { model, requests } = await scripted({ 'POST /v1/chat/completions': { body: response('again') } })
      await play(model, endless, { maxTurns: 4, ...(seed === undefined ? {} : { seed }) })
      return requests.flatMap(({ body }) => (isJsonObject(body) && 'messages' in body ? [body['seed']] : []))
    }
    const seeds = await seedsOf(7)
    expect(seeds[0]).toBe(7)
    expect(new Set(seeds).size).toBe(4)
    expect(seeds.every((seed) => Number.isInteger(seed))).toBe(true)
    expect(await seedsOf(7)).toEqual(seeds)
    expect(new Set([...seeds, ...(await seedsOf(8))]).size).toBe(8)
    expect(await seedsOf()).toEqual([undefined, undefined, undefined, undefined])
  })
  test('rewards add up by weight and leave their own values as metrics', async () => {
    const trajectory = rewarded(0)
    const reward = combineRewards<string>({
      right: { weight: 2, reward: exactAnswer() },
      letter: { weight: 1, reward: matching(/b/g) },
      short: { weight: 0.5, reward: atMostTokens(1) },
    })
    expect(await reward(trajectory, 'a')).toBe(2)
    expect(trajectory.metrics).toEqual({ right: 1, letter: 0, short: 0 })
  })
})

describe('a judge', () => {
  const answerWith = (...texts: string[]) => {
    const service = scriptedService({ 'POST /v1/chat/completions': () => ({ body: response(texts.shift() ?? '') }) })
    const judge = createJudge({
      baseURL: 'http://judge/v1',
      apiKey: 'j',
      model: 'big',
      retries: 1,
      fetch: service.fetch,
    })
    return { judge, requests: service.requests }
  }
  const scores = (...values: unknown[]) =>
    `Here you are: ${JSON.stringify({ scores: values.map((score, i) => ({ trajectory_id: String(i + 1), explanation: 'why', score })) })}`

  test('scores a group relative to each other and keeps what was there before', async () => {
    const { judge, requests } = answerWith(scores(0.2, 0.9))
    const scored = await judge.score(new TrajectoryGroup([rewarded(1), rewarded(0)]))
    expect(scored.rewards).toEqual([0.2, 0.9])
    expect(scored.trajectories[0]).toMatchObject({ metrics: { independent_reward: 1 }, logs: ['judge: why'] })
    const prompt = JSON.stringify(requests[0]?.body)
    expect(prompt.match(/Which|\\"q\\"/g), 'what is shared is shown once').toHaveLength(1)
  })
  test('an answer that cannot be read is asked for again, then an error; rewards stay', async () => {
    const { judge } = answerWith('no', scores(0.5, 2), scores(1, 1))
    const group = new TrajectoryGroup([rewarded(0.25), rewarded(0)])
    await expect(judge.score(group)).rejects.toMatchObject({ code: 'judge_answer_invalid' })
    expect(group.rewards).toEqual([0.25, 0])
  })
})
