/**
 * A job that loses its worker goes on from its last resume point and ends with the same bytes as one that was left alone:
 * killed after every single step, before or after the point was stored.
 */
import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import { systemClock } from '#base/util/clock.js'
import { createRng } from '#base/util/rng.js'
import type { WorkerCompletion, WorkerEvents, WorkerJob } from '#contract/processes/worker.js'
import { ensureTinyRandomModel } from '#model/built-in/tiny-random.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import { DENSE_ATTENTION_TOKENS } from '#training/rows/attention-blocks.js'
import { createBaseModelOpener } from '#training/worker/base-model.js'
import { FencedError } from '#training/worker/fenced-requests.js'
import { runJob } from '#training/worker/run-job.js'
import type { WorkerClient } from '#training/worker/worker-client.js'
import { workerJob } from '../../support/model/worker-job.js'

const STEPS = 20

let directory: string
let modelPath: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-resume-'))
  modelPath = await ensureTinyRandomModel(join(directory, 'model'))
})
afterAll(() => rm(directory, { recursive: true, force: true, maxRetries: 20 }))

/** What the server holds of one job, across attempts. */
interface Held {
  readonly events: WorkerEvents['events']
  readonly files: Map<string, Uint8Array>
  resume: { readonly bytes: Uint8Array; readonly events: number } | null
  completion: WorkerCompletion | null
  /** Events posted again, which the real server leaves as they were. */
  readonly repeated: WorkerEvents['events']
}

/** When an attempt dies: with the event of gradient step `step`, or once the resume point behind it is stored. */
interface Death {
  readonly step: number
  readonly moment: 'event' | 'point'
}

const digest = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

/** Runs one attempt; resolves to whether it was killed. */
async function attempt(held: Held, job: Partial<WorkerJob>, input: readonly unknown[], death: Death | null) {
  const die = (): never => {
    throw new FencedError('killed')
  }
  const client: WorkerClient = {
    getJob: () => Promise.reject(new Error('unused')),
    openInput: async function* () {
      yield Buffer.from(input.map((line) => `${JSON.stringify(line)}\n`).join(''))
    },
    openValidation: async function* () {
      yield Buffer.from(input.map((line) => `${JSON.stringify(line)}\n`).join(''))
    },
    getParentFile: () => Promise.reject(new Error('unused')),
    getReferenceFile: () => Promise.reject(new Error('unused')),
    getBaseModelFiles: () => Promise.reject(new Error('unused')),
    openBaseModelFile: () => Promise.reject(new Error('unused')),
    heartbeat: () => Promise.reject(new Error('unused')),
    postEvents: async ({ offset, events }) => {
      if (offset > held.events.length) throw new Error(`a gap before event ${offset}`)
      if (offset < held.events.length) held.repeated.push(...events)
      else held.events.push(...events)
      if (death?.moment === 'event' && offset === death.step) die()
    },
    putFile: async (name, bytes) => {
      held.files.set(name, bytes.slice())
      return { sha256: digest(bytes), size_bytes: bytes.length }
    },
    getResumePoint: async (sha256) => {
      expect(digest(held.resume!.bytes)).toBe(sha256)
      return held.resume!.bytes
    },
    putResumePoint: async (bytes, events) => {
      held.resume = { bytes: bytes.slice(), events }
      if (death?.moment === 'point' && events === death.step + 1) die()
    },
    complete: async (completion) => {
      held.completion = completion
    },
    fail: () => Promise.reject(new Error('unused')),
  }
  const described = workerJob({
    resume_seconds: death === null ? 3600 : 0,
    resume: held.resume === null ? null : { sha256: digest(held.resume.bytes), events: held.resume.events },
    ...job,
  })
  const openBaseModel = createBaseModelOpener(() => Promise.resolve())
  const options = {
    runtime: createOrtRuntime(),
    clock: systemClock,
    logger: createLogger({ level: 'silent' }),
    threads: 1,
    openBaseModel: () => openBaseModel({ sourcePath: modelPath, preparedDir: join(directory, 'prepared') }),
  }
  try {
    await runJob({ client, job: described, isCancelRequested: () => false, ...options })
    return false
  } catch (error) {
    if (error instanceof FencedError) return true
    throw error
  }
}

const nothing = (): Held => ({ events: [], files: new Map(), resume: null, completion: null, repeated: [] })

/** An event without what depends on the clock. */
const timeless = ({ type, data }: WorkerEvents['events'][number]) => ({ type, data: { ...data, tokens_per_second: 0 } })

/** A report without what depends on the clock and on what is free on the machine. */
const timelessReport = (completion: WorkerCompletion | null) => ({
  ...completion?.report,
  seconds: {},
  facts: { ...completion?.report?.facts, memory: {} },
})

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
      expect(await attempt(alone, job, input, null)).toBe(false)
      expect(alone.events.length).toBe(1 + STEPS)

      const held = nothing()
      for (let step = 1; step <= STEPS; step++) {
        expect(await attempt(held, job, input, { step, moment })).toBe(true)
        expect(held.events.length).toBe(1 + step)
      }
      expect(await attempt(held, job, input, null)).toBe(false)

      expect([...held.files]).toEqual([...alone.files])
      expect(held.completion?.metrics).toEqual(alone.completion?.metrics)
      expect(timelessReport(held.completion)).toEqual(timelessReport(alone.completion))
      expect(held.events.map(timeless)).toEqual(alone.events.map(timeless))
      // Killed behind its point, a job repeats nothing; killed before, what the last point did not cover.
      expect(held.repeated.length).toBe(moment === 'point' ? 0 : 1 + STEPS)
    },
  )
})

it('begins again when its resume point is damaged', async () => {
  const job: Partial<WorkerJob> = { kind: 'sft', config: { batch_size: 4, learning_rate: 1e-3 } }
  const alone = nothing()
  await attempt(alone, job, rows, null)
  const held = nothing()
  expect(await attempt(held, job, rows, { step: 2, moment: 'point' })).toBe(true)
  held.resume = { bytes: held.resume!.bytes.slice(0, 100), events: held.resume!.events }
  expect(await attempt(held, job, rows, null)).toBe(false)
  expect([...held.files]).toEqual([...alone.files])
  expect(held.events.map(timeless)).toEqual(alone.events.map(timeless))
})
