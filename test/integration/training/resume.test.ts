/**
 * A job that loses its worker goes on from its last resume point and ends with the same bytes as one that was left alone:
 * killed after every single step, before or after the point was stored.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createRng } from '#base/util/rng.js'
import type { WorkerJob } from '#contract/processes/worker.js'
import { ensureTinyRandomModel } from '#model/built-in/tiny-random.js'
import { DENSE_ATTENTION_TOKENS } from '#training/rows/attention-blocks.js'
import { attempt, type Death, type Held, nothing, timeless, timelessReport } from '../../support/model/attempts.js'

const STEPS = 20

let directory: string
let modelPath: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-resume-'))
  modelPath = await ensureTinyRandomModel(join(directory, 'model'))
})
afterAll(() => rm(directory, { recursive: true, force: true, maxRetries: 20 }))

const run = (held: Held, job: Partial<WorkerJob>, input: readonly unknown[], death: Death | null) =>
  attempt(held, job, { input, death, modelPath, preparedDir: join(directory, 'prepared') })

const rows = Array.from({ length: STEPS }, (_, i) => ({
  messages: [
    { role: 'user', content: `What is ${i}?` },
    { role: 'assistant', content: `It is ${i * i}.` },
  ],
}))

const rng = createRng('resume')
const ids = (length: number) => Array.from({ length }, () => 40 + rng.integer(60))
/** Ten groups of two answers, the n-th of `shortest` + n tokens. */
const groupsOf = (shortest: number) =>
  Array.from({ length: 10 }, (_, n) => ({
    trajectories: [0, 1].map((reward) => {
      const answer = ids(shortest + n)
      return {
        reward,
        messages_and_choices: [
          { role: 'user', content: 'hi' },
          {
            finish_reason: 'stop',
            index: 0,
            message: { role: 'assistant', content: 'x' },
            prompt_token_ids: ids(5),
            token_ids: answer,
            logprobs: { content: answer.map((id) => ({ token: `token_id:${id}`, logprob: -5, top_logprobs: [] })) },
          },
        ],
      }
    }),
  }))
const groups = groupsOf(4)

const ownGroups = groups.map(({ trajectories }) => ({
  trajectories: trajectories.map((each) => ({ ...each, initial_policy_version: 0, final_policy_version: 0 })),
}))

describe.each([
  [
    'SFT over two epochs',
    { kind: 'sft', config: { batch_size: 1, epochs: 2, learning_rate: 1e-3, learning_rate_schedule: 'cosine' } },
    rows.slice(0, STEPS / 2),
  ],
  [
    'SFT measured every third step, which keeps its best state',
    {
      kind: 'sft',
      has_validation: true,
      config: { batch_size: 1, epochs: 2, learning_rate: 3e-2, validation_interval: 3, keep_best: true },
    },
    rows.slice(0, STEPS / 2),
  ],
  [
    'preferences measured to the starting weights',
    { kind: 'dpo', config: { batch_size: 1, epochs: 2, learning_rate: 3e-3 } },
    rows.slice(0, STEPS / 2).map(({ messages: [question, answer] }) => ({
      prompt: [question],
      chosen: [answer],
      rejected: [{ role: 'assistant', content: 'I do not know.' }],
    })),
  ],
  [
    'answers with a label, shuffled, measured to the starting weights',
    {
      kind: 'dpo',
      config: { batch_size: 2, epochs: 4, learning_rate: 3e-3, loss_type: 'kto', shuffle: true, undesirable_weight: 2 },
    },
    rows.slice(0, STEPS / 2).map(({ messages: [question, answer] }, i) => ({
      prompt: [question],
      completion: [answer],
      label: i % 3 > 0,
    })),
  ],
  [
    'RL with log-probabilities of the starting weights',
    { kind: 'rl', config: { learning_rate: 1e-3, tokens_per_step: 2, precalculate_logprobs: true } },
    groups,
  ],
  [
    'RL whose updates are shortened',
    { kind: 'rl', config: { learning_rate: 1e-2, tokens_per_step: 2, target_kl: 1e-3 } },
    groups,
  ],
  [
    'RL in two passes, measured to a reference and to the start',
    {
      kind: 'rl',
      config: { learning_rate: 1e-3, tokens_per_step: 2, num_passes: 2, precalculate_logprobs: true, beta: 0.1 },
    },
    groups.slice(0, STEPS / 4),
  ],
  [
    'RL on rows whose attention goes in blocks',
    { kind: 'rl', config: { learning_rate: 1e-3, tokens_per_step: 2 } },
    groupsOf(DENSE_ATTENTION_TOKENS),
  ],
  [
    'RL on data of its own step with log-probabilities that cannot be true',
    { kind: 'rl', config: { learning_rate: 1e-3, tokens_per_step: 2 } },
    ownGroups,
  ],
] as [string, Partial<WorkerJob>, unknown[]][])('a job of 20 steps: %s', (_, job, input) => {
  it.each(['event', 'point'] as const)(
    'is killed at every step, with its %s, and ends as if it had not been',
    async (moment) => {
      const alone = nothing()
      expect(await run(alone, job, input, null)).toBe(false)
      expect(alone.events.length).toBe(1 + STEPS)

      const held = nothing()
      for (let step = 1; step <= STEPS; step++) {
        expect(await run(held, job, input, { step, moment })).toBe(true)
        expect(held.events.length).toBe(1 + step)
      }
      expect(await run(held, job, input, null)).toBe(false)

      expect([...held.files]).toEqual([...alone.files])
      expect(held.completion?.metrics).toEqual(alone.completion?.metrics)
      expect(timelessReport(held.completion)).toEqual(timelessReport(alone.completion))
      expect(held.events.map(timeless)).toEqual(alone.events.map(timeless))
      // Killed behind its point, a job repeats nothing; killed before, what the last point did not cover.
      expect(held.repeated.length).toBe(moment === 'point' ? 0 : 1 + STEPS)
    },
  )
})

it('ends several passes where it would have, wherever it was killed', async () => {
  const job: Partial<WorkerJob> = {
    kind: 'rl',
    config: { learning_rate: 1e-3, tokens_per_step: 2, num_passes: 4, precalculate_logprobs: true, target_kl: 6e-3 },
  }
  const input = groups.slice(0, 3)
  const alone = nothing()
  expect(await run(alone, job, input, null)).toBe(false)
  const steps = alone.events.length - 1
  expect(steps).toBeGreaterThan(6)
  expect(steps).toBeLessThan(24)
  const held = nothing()
  for (let step = 1; step <= steps; step++) expect(await run(held, job, input, { step, moment: 'point' })).toBe(true)
  expect(await run(held, job, input, null)).toBe(false)
  expect([...held.files]).toEqual([...alone.files])
  expect(held.completion?.metrics).toEqual(alone.completion?.metrics)
  expect(timelessReport(held.completion)).toEqual(timelessReport(alone.completion))
})

describe('a job that leaves inputs of its adapter out', () => {
  it.each([
    ['SFT', { kind: 'sft', config: { batch_size: 4, learning_rate: 1e-3 } }, rows],
    [
      'preferences',
      { kind: 'dpo', config: { batch_size: 4, learning_rate: 1e-3 } },
      rows.map(({ messages: [question, answer] }) => ({
        prompt: [question],
        chosen: [answer],
        rejected: [{ role: 'assistant', content: 'I do not know.' }],
      })),
    ],
    [
      'RL with log-probabilities of the starting weights',
      { kind: 'rl', config: { learning_rate: 1e-3, tokens_per_step: 16, precalculate_logprobs: true, target_kl: 0.2 } },
      groups,
    ],
  ] as [string, Partial<WorkerJob>, unknown[]][])(
    'does so alike wherever it was killed, and by its seed: %s',
    async (_, { kind, config }, input) => {
      const jobOf = (more: object): Partial<WorkerJob> => ({
        kind: kind as WorkerJob['kind'],
        config: { ...config, seed: 3, ...more },
      })
      const alone = nothing()
      await run(alone, jobOf({ lora_dropout: 0.3 }), input, null)
      for (const other of [{}, { lora_dropout: 0.2 }]) {
        const held = nothing()
        await run(held, jobOf(other), input, null)
        expect([...held.files]).not.toEqual([...alone.files])
        // a new adapter says nothing, whatever it leaves out: the first loss is that of any other job, the ones after it are not
        const losses = [alone, held].map(({ events }) => events.map(({ data }) => (data as { loss?: number }).loss))
        expect(losses[0]?.length).toBeGreaterThan(4)
        expect(losses[0]?.[1]).toBeCloseTo(losses[1]?.[1] as number, 6)
        expect(losses[0]?.at(-1)).not.toBe(losses[1]?.at(-1))
      }
      for (const step of [1, 3]) {
        const held = nothing()
        expect(await run(held, jobOf({ lora_dropout: 0.3 }), input, { step, moment: 'point' })).toBe(true)
        expect(await run(held, jobOf({ lora_dropout: 0.3 }), input, null)).toBe(false)
        expect([...held.files]).toEqual([...alone.files])
        expect(held.events.map(timeless)).toEqual(alone.events.map(timeless))
      }
    },
  )
})

it('begins again when its resume point is damaged', async () => {
  const job: Partial<WorkerJob> = { kind: 'sft', config: { batch_size: 4, learning_rate: 1e-3 } }
  const alone = nothing()
  await run(alone, job, rows, null)
  const held = nothing()
  expect(await run(held, job, rows, { step: 2, moment: 'point' })).toBe(true)
  held.resume = { bytes: held.resume!.bytes.slice(0, 100), events: held.resume!.events }
  expect(await run(held, job, rows, null)).toBe(false)
  expect([...held.files]).toEqual([...alone.files])
  expect(held.events.map(timeless)).toEqual(alone.events.map(timeless))
})
