/**
 * An answer has the same bits whoever shares its steps on more threads than the model has key/value heads, however long its context.
 *
 * The runtime then divides a head's product over threads, in as many parts as there are threads for each head in the step; sums of
 * more than 128 numbers would follow that.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Engine, EngineOptions, RunnerOptions } from '#inference/engine/engine.js'
import { withIntegerProducts } from '#inference/engine/runner/integer-weights.js'
import { type PreparedModel, prepareBaseModel } from '#model/architectures/prepare.js'
import { type RandomModel, writeRandomModel } from '#model/built-in/tiny-random.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import type { Runtime } from '#numerics/runtime/runtime.js'
import {
  type Asked,
  answerAmong,
  countingRuntime,
  engineFor,
  generate,
  promptOf,
  RANDOM,
  randomAdapter,
} from '../engine-harness.js'

/** What surrounds attention is small. */
const ONE_LAYER = { layerCount: 1, hiddenSize: 128, mlpSize: 128, standardDeviation: 0.1 }
/** Heads of SmolLM2-135M. */
const THREE_HEADS = { ...ONE_LAYER, headCount: 9, kvHeadCount: 3, headSize: 64 }

let directory: string
let prepared: PreparedModel
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'thread-bits-'))
  prepared = await prepareRandom('three-heads', THREE_HEADS)
})
afterAll(() => rm(directory, { recursive: true, force: true, maxRetries: 20 }))

async function prepareRandom(name: string, sizes: Partial<RandomModel>): Promise<PreparedModel> {
  const source = await writeRandomModel(join(directory, name), { ...sizes, contextLength: 2048 })
  return await prepareBaseModel(source, join(directory, `${name}-prepared`), ['f32'])
}

/**
 * Compares answers alone with the same among others: of the same prompt, of prompts of their own, with and without adapters.
 *
 * The prompt is computed once for all of them, and its answer's tokens are new ones each time.
 */
async function expectSameBits(
  model: PreparedModel,
  {
    lengths,
    tokens = 4,
    ...options
  }: { readonly lengths: readonly number[]; readonly tokens?: number } & Partial<EngineOptions & RunnerOptions>,
) {
  const { runtime, steps } = countingRuntime({ spinMicroseconds: 0 })
  const engine: Engine = await engineFor(model, {
    runtime,
    prefillChunk: { alone: 128, sharing: 128 },
    maxConcurrentSequences: 16,
    ...options,
  })
  const adapters = [1, 2].map((seed) => randomAdapter(model, seed, 4))
  for (const length of lengths) {
    const prompt = promptOf(length, length)
    for (const adapter of [null, adapters[0] ?? null]) {
      const watched = { prompt, adapter, rules: { ...RANDOM, seed: 5n, maxTokens: tokens, topLogprobs: 2 } }
      const sharing: Asked = { prompt, adapter }
      const others = (count: number): Asked[] =>
        Array.from({ length: count }, (_, i) => ({
          prompt: promptOf([40, length - 9, length + 70][i % 3] ?? 40, 7 * i + 1),
          adapter: [null, ...adapters][i % 3] ?? null,
        }))
      const companies: Readonly<Record<string, readonly Asked[]>> = {
        'one of its prompt': [sharing],
        'seven of its prompt': Array.from({ length: 7 }, () => sharing),
        'one other': others(1),
        'three others': others(3),
        'seven others': others(7),
        'both kinds': [...others(3), sharing, sharing],
      }
      const alone = await answerAmong(engine, watched, [])
      for (const [name, company] of Object.entries(companies)) {
        const before = steps.length
        const events = await answerAmong(engine, watched, company)
        expect(Math.max(...steps.slice(before)), 'tokens of a step').toBeGreaterThan(1)
        expect(events).toHaveLength(tokens)
        expect(events, `${length} tokens${adapter === null ? '' : ' and an adapter'}, among ${name}`).toEqual(alone)
      }
      const siblings = await answerAmong(engine, { ...watched, rules: { ...watched.rules, n: 5 } }, [])
      const first = siblings.filter(({ choice }) => choice === 0)
      expect(first, `${length} tokens, one of five choices`).toEqual(alone)
    }
  }
  await engine.close()
}

describe('an answer on more threads than key/value heads', () => {
  test.each([2, 4, 8])('has the same bits alone and among others: %d threads', async (threads) => {
    await expectSameBits(prepared, { threads, lengths: [150, 320, 620] })
  })

  test('has them where the answer is what is long', async () => {
    const model = await prepareRandom('one-head', { ...ONE_LAYER, headCount: 9, kvHeadCount: 1, headSize: 128 })
    await expectSameBits(model, { threads: 4, lengths: [20], tokens: 160 })
  })

  test('has them at int8, too', async () => {
    const calibrationIds = promptOf(100, 3)
    const integer = await withIntegerProducts(prepared, { runtime: createOrtRuntime(), threads: 1, calibrationIds })
    await expectSameBits(integer, { threads: 4, lengths: [150, 320], precision: 'int8' })
  })
})

describe('an answer on fewer threads than its graph is made for, as beside a job', () => {
  /** Prompts, running answers, several choices and adapters of one engine, all its log-probabilities. */
  async function answers(
    model: PreparedModel,
    threads: number,
    given: Partial<EngineOptions & RunnerOptions>,
  ): Promise<unknown[]> {
    const real = createOrtRuntime({ spinMicroseconds: 0 })
    const runtime: Runtime = {
      ...real,
      loadSession: (path, options) => real.loadSession(path, { ...options, threads }),
    }
    const engine = await engineFor(model, { runtime, maxConcurrentSequences: 16, ...given })
    const adapters = [null, randomAdapter(model, 1, 4), randomAdapter(model, 2, 8)]
    const found: unknown[] = []
    for (const length of [5, 150, 320]) {
      for (const adapter of adapters) {
        for (const n of [1, 5]) {
          const rules = { ...RANDOM, seed: 5n, maxTokens: 4, topLogprobs: 2, n }
          found.push((await generate(engine, promptOf(length, length), rules, { adapter })).events)
        }
      }
    }
    await engine.close()
    return found
  }

  test.each([2, 4, 8])('has the bits of %d threads', async (threads) => {
    const wide = await answers(prepared, threads, { threads })
    expect(wide.flat()).toHaveLength(3 * 3 * (1 + 5) * 4)
    for (const fewer of new Set([threads / 2, 1])) expect(await answers(prepared, fewer, { threads })).toEqual(wide)
  })

  test('has them at int8, too', async () => {
    const calibrationIds = promptOf(100, 3)
    const integer = await withIntegerProducts(prepared, { runtime: createOrtRuntime(), threads: 1, calibrationIds })
    const wide = await answers(integer, 4, { threads: 4, precision: 'int8' })
    for (const fewer of [2, 1]) expect(await answers(integer, fewer, { threads: 4, precision: 'int8' })).toEqual(wide)
  })
})

describe('an answer of a model', () => {
  test('whose query heads have keys of their own has the same bits alone and among others', async () => {
    const model = await prepareRandom('own-keys', { ...ONE_LAYER, headCount: 4, kvHeadCount: 4, headSize: 32 })
    for (const threads of [1, 8]) await expectSameBits(model, { threads, lengths: [150, 320] })
  })

  test('with heads of 256 numbers has the same bits alone and among others', async () => {
    const model = await prepareRandom('large-heads', { ...ONE_LAYER, headCount: 4, kvHeadCount: 1, headSize: 256 })
    for (const threads of [1, 2, 8]) await expectSameBits(model, { threads, lengths: [30, 150, 320] })
  })
})
