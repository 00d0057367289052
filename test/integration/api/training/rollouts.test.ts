/**
 * What a job trained on, read through the API after its end, with the real trainer and the real engine on the tiny model: rows, groups,
 * trajectories, tokens, their scores under other checkpoints; how long it stays, who sees it, and what is said where there is none.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ChatResponse } from '#contract/wire/chat-completions.js'
import type { StorageReport } from '#contract/wire/health.js'
import type {
  RolloutGroupDetail,
  RolloutGroupList,
  RolloutScores,
  RolloutTokens,
  RolloutTrajectory,
} from '#contract/wire/training/rollouts.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { createTestService, sampleGroup, type TestService } from '../../../support/service/create-test-service.js'

const JOBS = '/v1/preview/training-jobs'
const PROMPT = [{ role: 'user', content: 'Count.' }]

type Groups = readonly object[]

async function submit(
  service: TestService,
  modelId: string,
  groups: Groups,
  config: object = {},
): Promise<TrainingJob> {
  const json = { model_id: modelId, trajectory_groups: groups, experimental_config: { learning_rate: 0.01, ...config } }
  const { status, body } = await service.json<TrainingJob>(JOBS, { json })
  expect(status, JSON.stringify(body)).toBe(200)
  return service.waitForJob(body.id)
}

async function get<T>(service: TestService, path: string): Promise<T> {
  const { status, body } = await service.json<T>(path)
  expect(status, JSON.stringify(body)).toBe(200)
  return body
}

async function codeOf(service: TestService, path: string, init = {}): Promise<unknown> {
  const { status, body } = await service.json<{ error?: { code: string } }>(path, init)
  return [status, body.error?.code]
}

describe('what a job trained on', () => {
  let service: TestService
  let model: string
  let groups: { trajectories: { messages_and_choices: unknown[]; reward: number }[] }[]
  let job: TrainingJob
  beforeAll(async () => {
    service = await createTestService({ scripted: false, threads: 1 })
    model = await service.createModel('m')
    groups = []
    for (const rewards of [
      [0, 1, 0, 0.5],
      [1, 1],
    ]) {
      const { body } = await service.json<ChatResponse>('/v1/chat/completions', {
        json: { model: 'm', messages: PROMPT, max_tokens: 8, n: rewards.length, seed: groups.length, logprobs: true },
      })
      const trajectories = body.choices.map((choice, i) => ({
        messages_and_choices: [...PROMPT, { ...choice, prompt_token_ids: body.prompt_token_ids }],
        reward: rewards[i] ?? 0,
        metrics: { length: i },
        metadata: { task: `t${i}` },
        initial_policy_version: 0,
      }))
      groups.push({ trajectories })
    }
    job = await submit(service, model, groups)
    expect(job.status).toBe('completed')
  })
  afterAll(() => service?.dispose())

  it('is named on the job, and its rows are those that were sent', async () => {
    expect(job).toMatchObject({ group_count: 2, trajectory_count: 6 })
    const week = Date.parse(job.data_kept_until ?? '') - Date.parse(job.training_end ?? '')
    expect(week).toBe(7 * 86_400_000)
    const response = await service.fetch(`${JOBS}/${job.id}/data`)
    const rows = (await response.text()).trim().split('\n')
    expect(rows.map((row) => JSON.parse(row))).toEqual(JSON.parse(JSON.stringify(groups)))
    expect(Number(response.headers.get('content-length'))).toBeGreaterThan(1000)
  })

  it('is listed by group, with rewards, advantages and what did not train', async () => {
    const list = await get<RolloutGroupList>(service, `${JOBS}/${job.id}/groups`)
    expect(list).toMatchObject({
      group_count: 2,
      trajectory_count: 6,
      trained_count: 4,
      unnoted_count: 0,
      untrained_count: 0,
      parent_step: 0,
      kept_until: job.data_kept_until,
      clip: { low: 0, high: 5 },
      histogram: [
        { from: 0, count: 2 },
        { from: 0.5, count: 1 },
        { from: 1, count: 3 },
      ],
    })
    expect(list.data[0]).toMatchObject({
      index: 0,
      prompt_preview: 'Count.',
      trajectories: 4,
      trained: 4,
      mean_reward: 0.375,
      left_out: null,
    })
    expect(list.data[0]?.entropy).toBeGreaterThan(0)
    expect(list.data[1]).toMatchObject({ trained: 0, left_out: 'equal_rewards', advantage: null, entropy: null })
    const idsOf = async (query: string) =>
      (await get<RolloutGroupList>(service, `${JOBS}/${job.id}/groups?${query}`)).data.map(({ id }) => id)
    expect(await idsOf('sort=-mean_reward')).toEqual(['1', '0'])
    expect(await idsOf('trained=true')).toEqual(['0'])
    expect(await idsOf('min_reward=0.2&max_reward=0.6')).toEqual(['0'])
    expect(await idsOf('limit=1&after=0')).toEqual(['1'])
    expect(await codeOf(service, `${JOBS}/${job.id}/groups?after=9`)).toEqual([422, 'invalid_cursor'])
  })

  it('counts failed rollouts by type, environments, and what trains with advantage 0', async () => {
    const failed = (type: string) => ({ type, message: 'no answer', traceback: '' })
    const sent = groups.map((group, g) => ({
      ...group,
      metadata: { environment: 'letters', task: `t${g}` },
      exceptions: g === 0 ? [failed('env_timeout'), failed('env_crashed'), failed('env_timeout')] : [],
    }))
    // of a model of its own: what follows is of the first one's steps
    const balanced = await submit(service, await service.createModel('balanced'), sent, { advantage_balance: 1 })
    const list = await get<RolloutGroupList>(service, `${JOBS}/${balanced.id}/groups`)
    expect(list.failures).toEqual([
      { type: 'env_timeout', count: 2 },
      { type: 'env_crashed', count: 1 },
    ])
    expect(list.environments).toEqual([{ name: 'letters', groups: 2 }])
    // of rewards 0, 1, 0 and 0.5 two lie below their mean, and balance 1 leaves them nothing
    expect(list).toMatchObject({ trained_count: 4, zero_advantage_count: 2 })
    const plain = await get<RolloutGroupList>(service, `${JOBS}/${job.id}/groups`)
    expect(plain).toMatchObject({ failures: [], environments: [] })
  })

  it('has every trajectory turn by turn and token by token, as the trainer used it', async () => {
    const group = await get<RolloutGroupDetail>(service, `${JOBS}/${job.id}/groups/0`)
    const [, first] = group.members
    const sent = groups[0]?.trajectories[1]?.messages_and_choices[1] as ChatResponse['choices'][number]
    expect(first).toMatchObject({
      index: 1,
      reward: 1,
      metrics: { length: 1 },
      metadata: { task: 't1' },
      left_out: null,
    })
    expect(first?.answer).toBe(sent.message.content)
    const place = `${JOBS}/${job.id}/groups/0/trajectories/1`
    const trajectory = await get<RolloutTrajectory>(service, place)
    expect(trajectory).toMatchObject({ id: '0/1', group_size: 4, initial_policy_version: 0 })
    expect(trajectory.histories[0]?.messages.map(({ is_sampled: isSampled }) => isSampled)).toEqual([false, true])
    expect(trajectory.sequences).toHaveLength(1)
    const tokens = await get<RolloutTokens>(service, `${place}/tokens`)
    const trained = tokens.ids.flatMap((_, t) => (tokens.is_trained[t] === true ? [t] : []))
    expect(trained.map((t) => tokens.ids[t])).toEqual(sent.token_ids)
    expect(trained.map((t) => tokens.sampler_logprob[t])).toEqual(
      (sent.logprobs?.content ?? []).map(({ logprob }) => Math.fround(logprob)),
    )
    expect(tokens.advantage).toBe(first?.advantage)
    for (const [t, text] of tokens.texts.entries()) expect((text === null) !== (tokens.bytes[t] === null)).toBe(true)
    const part = await get<RolloutTokens>(service, `${place}/tokens?from=3&to=6`)
    expect(part).toMatchObject({ from: 3, to: 6, length: tokens.length, ids: tokens.ids.slice(3, 6) })
    expect(part.learner_logprob).toEqual(tokens.learner_logprob.slice(3, 6))
    expect(await codeOf(service, `${place}/tokens?from=0&to=9000`)).toEqual([200, undefined])
  })

  it('is scored again under any checkpoint of its model', async () => {
    const place = `${JOBS}/${job.id}/groups/0/trajectories/1`
    const tokens = await get<RolloutTokens>(service, `${place}/tokens`)
    const before = await get<RolloutScores>(service, `${place}/scores?step=0`)
    const after = await get<RolloutScores>(service, `${place}/scores`)
    expect([before.step, after.step]).toEqual([0, 1])
    expect(after.system_fingerprint).toContain(':step1:')
    expect(before.logprob).toHaveLength(tokens.length)
    expect(before.logprob[0]).toBeNull()
    // one gradient step: the policy before it is the base model; both compute in float32
    let moved = 0
    tokens.learner_logprob.forEach((logp, t) => {
      if (logp === null) return
      expect(Math.abs(logp - (before.logprob[t] ?? Number.NaN))).toBeLessThan(1e-3)
      moved += (after.logprob[t] ?? Number.NaN) - logp
    })
    // what was rewarded became likelier
    expect(moved).toBeGreaterThan(0)
    const part = await get<RolloutScores>(service, `${place}/scores?step=1&from=2&to=5`)
    part.logprob.forEach((logp, i) => {
      expect(Math.abs((logp ?? Number.NaN) - (after.logprob[2 + i] ?? Number.NaN))).toBeLessThan(1e-4)
    })
    expect(await codeOf(service, `${place}/scores?step=99`)).toEqual([404, 'model_not_found'])
  })

  it('says what there is not', async () => {
    const of = (path: string) => codeOf(service, `${JOBS}/${job.id}/${path}`)
    expect(await of('groups/7')).toEqual([404, 'rollout_not_found'])
    expect(await of('groups/x')).toEqual([404, 'rollout_not_found'])
    expect(await of('groups/0/trajectories/9')).toEqual([404, 'rollout_not_found'])
    expect(await of('groups/0/trajectories/1/tokens?sequence=4')).toEqual([404, 'rollout_not_found'])
    expect(await of('groups/1/trajectories/0/tokens')).toEqual([404, 'tokens_not_kept'])
  })

  it('stays for a supervised job as rows alone, and for a job without a step as its groups', async () => {
    const rows = `${JSON.stringify({ messages: [...PROMPT, { role: 'assistant', content: 'One.' }] })}\n`
    const { body } = await service.json<TrainingJob>('/v1/preview/sft-training-jobs', {
      json: { model_id: model, training_data_url: `data:application/jsonl,${encodeURIComponent(rows)}` },
    })
    const sft = await service.waitForJob(body.id)
    expect(sft).toMatchObject({ status: 'completed', group_count: null })
    expect(sft.data_kept_until).not.toBeNull()
    expect(await (await service.fetch(`${JOBS}/${sft.id}/data`)).text()).toBe(rows)
    expect(await codeOf(service, `${JOBS}/${sft.id}/groups`)).toEqual([404, 'rollouts_not_kept'])
    // every answer but one is beyond what a row holds: nothing of those is left but their rewards
    const short = await submit(service, model, groups, { packed_sequence_length: 16 })
    const list = await get<RolloutGroupList>(service, `${JOBS}/${short.id}/groups`)
    expect(list).toMatchObject({ group_count: 2, trained_count: 0 })
    expect(list.data[0]?.left_out).toBe('overlength')
  })

  it('survives a restart, is known to verify, and goes when it is deleted', async () => {
    service = await service.restart()
    const list = await get<RolloutGroupList>(service, `${JOBS}/${job.id}/groups`)
    expect(list.group_count).toBe(2)
    const report = async (): Promise<StorageReport> => {
      const text = await (await service.fetch('/v1/preview/verify', { method: 'POST' })).text()
      const found = text.split('\n').find((line) => line.includes('storage_report') && line.startsWith('data:'))
      return JSON.parse(found?.slice(5) ?? '{}') as StorageReport
    }
    expect(await report()).toMatchObject({ ok: true, missing: [], damaged: [] })
    const { status } = await service.json(`${JOBS}/${job.id}/data`, { method: 'DELETE' })
    expect(status).toBe(200)
    expect(await codeOf(service, `${JOBS}/${job.id}/groups`)).toEqual([404, 'training_data_not_kept'])
    expect(await get<TrainingJob>(service, `${JOBS}/${job.id}`)).toMatchObject({
      data_kept_until: null,
      group_count: null,
    })
    expect((await report()).ok).toBe(true)
  })
})

describe('how long it stays', () => {
  it('is not at all with 0, also for what was kept before, and as long as its model', async () => {
    let service = await createTestService()
    try {
      const model = await service.createModel('m')
      const job = await submit(service, model, [sampleGroup()])
      expect(job.data_kept_until).not.toBeNull()
      expect((await service.fetch(`${JOBS}/${job.id}/data`)).status).toBe(200)
      service = await service.restart({ keepTrainingDataMs: 0 })
      expect(await codeOf(service, `${JOBS}/${job.id}/data`)).toEqual([404, 'training_data_not_kept'])
      const other = await submit(service, model, [sampleGroup([0, 1])])
      expect(other.data_kept_until).toBeNull()
      service = await service.restart({ keepTrainingDataMs: 86_400_000 })
      // switched off, it was forgotten
      for (const { id } of [job, other]) {
        expect(await codeOf(service, `${JOBS}/${id}/data`)).toEqual([404, 'training_data_not_kept'])
      }
      const third = await submit(service, model, [sampleGroup([1, 0.25])])
      expect((await service.fetch(`${JOBS}/${third.id}/data`)).status).toBe(200)
      await service.json(`/v1/preview/models/${model}`, { method: 'DELETE' })
      expect(await codeOf(service, `${JOBS}/${third.id}/data`)).toEqual([404, 'training_data_not_kept'])
    } finally {
      await service.dispose()
    }
  })

  it('is within a bound: the oldest goes first', async () => {
    let service = await createTestService()
    try {
      const model = await service.createModel('m')
      const filled = (letter: string) => ({
        trajectories: [{ messages_and_choices: [{ role: 'user', content: letter.repeat(600_000) }], reward: 1 }],
      })
      const jobs: TrainingJob[] = []
      for (const letter of ['a', 'b', 'c']) jobs.push(await submit(service, model, [filled(letter)]))
      service = await service.restart({ keepTrainingDataBytes: 1_400_000 })
      const statuses: number[] = []
      for (const { id } of jobs) statuses.push((await service.fetch(`${JOBS}/${id}/data`)).status)
      expect(statuses).toEqual([404, 200, 200])
    } finally {
      await service.dispose()
    }
  })
})
