/**
 * A checkpoint published while streams of its model run, with the real engine and worker: each stream goes on with the weights it
 * began with to its last token, whoever asks afterwards gets the new ones, and nothing is lost.
 *
 * That a stream keeps its weights is not taken from what it says of itself: its tokens are scored again by both checkpoints.
 */
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { ChatChunk, ChatResponse } from '#contract/wire/chat-completions.js'
import type { CompletionResponse } from '#contract/wire/inference/completions.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'

const STREAMS = 4
const MAX_TOKENS = 1900
/** A machine may hold the job up until all streams have ended; then it is tried again. */
const MOST_TRIES = 20
const MESSAGES = [{ role: 'user', content: 'Count.' }]

let service: TestService
let model: string
beforeAll(async () => {
  service = await createTestService({ scripted: false, threads: 1 })
  model = await service.createModel('m')
  // its worker is kept for the next one, which then takes a fraction of a second
  await publish()
})
afterAll(() => service.dispose())

interface Streamed {
  readonly tokenIds: readonly number[]
  readonly logprobs: readonly number[]
  readonly promptTokenIds: readonly number[]
  readonly fingerprints: ReadonlySet<string>
  readonly finish: string | null
  readonly isWhole: boolean
}

interface RunningStream {
  /** Resolves with the first token. */
  readonly begun: Promise<unknown>
  readonly ended: Promise<Streamed>
  isRunning(): boolean
}

function startStream(seed: number): RunningStream {
  let begin: () => void = () => undefined
  const begun = new Promise<void>((resolve) => {
    begin = resolve
  })
  let isRunning = true
  const ended = (async () => {
    const response = await service.fetch('/v1/chat/completions', {
      json: {
        ...{ model: 'm', messages: MESSAGES, max_tokens: MAX_TOKENS, stream: true, seed },
        ...{ ignore_eos: true, logprobs: true, return_token_ids: true },
      },
    })
    let text = ''
    for await (const part of response.body ?? []) {
      text += Buffer.from(part).toString()
      if (text.includes('"token_ids":[')) begin()
    }
    isRunning = false
    const chunks = text
      .split('\n\n')
      .filter((line) => line.startsWith('data: {'))
      .map((line) => JSON.parse(line.slice(6)) as ChatChunk)
    const choices = chunks.flatMap((chunk) => chunk.choices)
    return {
      tokenIds: choices.flatMap((choice) => choice.token_ids ?? []),
      logprobs: choices.flatMap((choice) => choice.logprobs?.content?.map(({ logprob }) => logprob) ?? []),
      promptTokenIds: chunks.find((chunk) => chunk.prompt_token_ids)?.prompt_token_ids ?? [],
      fingerprints: new Set(chunks.map((chunk) => chunk.system_fingerprint ?? '')),
      finish: choices.at(-1)?.finish_reason ?? null,
      isWhole: text.trimEnd().endsWith('data: [DONE]'),
    }
  })()
  ended.catch(begin)
  return { begun, ended, isRunning: () => isRunning }
}

let published = 0
/** Trains one step on one row, another one each time: the same job twice is one job. @returns the new checkpoint's step */
async function publish(): Promise<number> {
  const row = { messages: [...MESSAGES, { role: 'assistant', content: `One, two, ${published++}.` }] }
  const { body: file } = await service.json<{ id: string }>('/v1/files?filename=a.jsonl', {
    method: 'POST',
    body: JSON.stringify(row),
  })
  const json = { model_id: model, training_data_url: file.id, config: { learning_rate: 0.05, batch_size: 1 } }
  const { body: job } = await service.json<TrainingJob>('/v1/preview/sft-training-jobs', { json })
  const ended = await service.waitForJob(job.id)
  expect(ended).toMatchObject({ status: 'completed' })
  return ended.step ?? 0
}

/** How far a stream's log-probabilities are, on average, from those that a checkpoint gives its tokens. */
async function distance({ promptTokenIds, tokenIds, logprobs }: Streamed, step: number): Promise<number> {
  const prompt = [...promptTokenIds, ...tokenIds]
  const json = { model: `m:step${step}`, prompt, echo: true, logprobs: 0, max_tokens: 0 }
  const { status, body } = await service.json<CompletionResponse>('/v1/completions', { json })
  expect(status, JSON.stringify(body)).toBe(200)
  const scored = body.choices[0]?.logprobs?.token_logprobs.slice(promptTokenIds.length) ?? []
  expect(scored).toHaveLength(logprobs.length)
  return scored.reduce<number>((sum, score, i) => sum + Math.abs((score ?? 0) - (logprobs[i] ?? 0)), 0) / scored.length
}

it('leaves running streams on their weights and gives new requests the new ones', { timeout: 300_000 }, async () => {
  for (let tries = 1; ; tries++) {
    const streams = Array.from({ length: STREAMS }, (_, i) => startStream(tries * STREAMS + i))
    await Promise.all(streams.map(({ begun }) => begun))
    const step = await publish()
    const running = streams.filter((stream) => stream.isRunning())
    const { body: next } = await service.json<ChatResponse>('/v1/chat/completions', {
      json: { model: 'm', messages: MESSAGES, max_tokens: 4 },
    })
    expect(next.system_fingerprint).toContain(`:step${step}:`)
    const all = await Promise.all(streams.map(({ ended }) => ended))
    for (const streamed of all) {
      expect([streamed.isWhole, streamed.finish, streamed.tokenIds.length]).toEqual([true, 'length', MAX_TOKENS])
      expect([...streamed.fingerprints].map((fingerprint) => /:step\d+:/.exec(fingerprint)?.[0])).toEqual([
        `:step${step - 1}:`,
      ])
    }
    if (running.length === 0 && tries < MOST_TRIES) continue
    expect(running.length, 'streams that ran when the checkpoint was published').toBeGreaterThan(0)
    for (const stream of running) {
      const streamed = await stream.ended
      const [kept, published] = [await distance(streamed, step - 1), await distance(streamed, step)]
      // the other order of addition in a whole pass, against another set of weights
      expect(kept).toBeLessThan(0.02)
      expect(published).toBeGreaterThan(10 * kept + 0.05)
    }
    return
  }
})
