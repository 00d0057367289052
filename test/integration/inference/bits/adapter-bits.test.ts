/**
 * An answer through an adapter has the same bits whoever shares its steps, at the sizes of a real model on several threads.
 *
 * The runtime divides products over threads by their size, and adds up by how it divides them: the tiny model's are never divided.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { EngineOptions, RunnerOptions } from '#inference/engine/engine.js'
import type { AdapterSource, GenerationRules } from '#inference/engine/generation.js'
import { withIntegerProducts } from '#inference/engine/runner/integer-weights.js'
import { type PreparedModel, prepareBaseModel } from '#model/architectures/prepare.js'
import { type RandomModel, writeRandomModel } from '#model/built-in/tiny-random.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import { answerAmong, countingRuntime, engineFor, GREEDY, promptOf, RANDOM, randomAdapter } from '../engine-harness.js'

/** Of SmolLM2-135M, in one layer. */
const USUAL = { layerCount: 1, hiddenSize: 576, headCount: 9, kvHeadCount: 3, headSize: 64, mlpSize: 1536 }
/** So many numbers go into `down` that a narrow A is divided by rows. */
const TALL = { ...USUAL, hiddenSize: 64, headCount: 2, kvHeadCount: 1, headSize: 32, mlpSize: 8960 }

let directory: string
let prepared: PreparedModel
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'adapter-bits-'))
  prepared = await prepareRandom('usual', USUAL)
})
afterAll(() => rm(directory, { recursive: true, force: true, maxRetries: 20 }))

async function prepareRandom(name: string, sizes: Partial<RandomModel>): Promise<PreparedModel> {
  const source = await writeRandomModel(join(directory, name), { ...sizes, contextLength: 512 })
  return await prepareBaseModel(source, join(directory, `${name}-prepared`), ['f32'])
}

/** Compares an answer alone with the same among rows of its own adapter, of others and of none. */
async function expectSameBits(
  model: PreparedModel,
  {
    rank,
    sizes = [2, 3, 4, 8, 16],
    ...options
  }: { rank: number; sizes?: readonly number[] } & Partial<EngineOptions & RunnerOptions>,
) {
  const { runtime, steps } = countingRuntime({ spinMicroseconds: 0 })
  const own = randomAdapter(model, 1, rank)
  // others are also of other ranks, so that what lies side by side is wider than an adapter alone
  const other = Array.from({ length: 15 }, (_, i) =>
    randomAdapter(model, 2 + i, [rank, 3, rank, 2 * rank][i % 4] ?? rank),
  )
  const companies: Readonly<Record<string, (count: number) => readonly (AdapterSource | null)[]>> = {
    'of its own adapter': (count) => Array.from({ length: count }, () => own),
    'of other adapters': (count) => other.slice(0, count),
    'of none': (count) => Array.from({ length: count }, () => null),
    'of all kinds': (count) => Array.from({ length: count }, (_, i) => [own, null, other[i] ?? null][i % 3] ?? null),
  }
  const prefillChunk = { alone: 64, sharing: 64 }
  const engine = await engineFor(model, {
    runtime,
    prefillChunk,
    prefixCacheBytes: 0,
    maxConcurrentSequences: 16,
    ...options,
  })
  const kinds = [GREEDY, { ...RANDOM, seed: 11n }].map((kind) => ({ ...kind, maxTokens: 4, topLogprobs: 2 }))
  const watched = { prompt: promptOf(9, 99), adapter: own }
  const alone = []
  for (const rules of kinds) alone.push(await answerAmong(engine, { ...watched, rules }, []))
  for (const [name, companyOf] of Object.entries(companies)) {
    for (const [i, size] of sizes.entries()) {
      const before = steps.length
      const rules = kinds[i % 2] as GenerationRules
      const others = companyOf(size - 1).map((adapter, j) => ({ prompt: promptOf(5 + j, j), adapter }))
      const events = await answerAmong(engine, { ...watched, rules }, others)
      expect(steps.slice(before), 'rows of a step').toContain(size)
      expect(events).toHaveLength(4)
      expect(events, `rank ${rank}, among ${size} rows, the others ${name}`).toEqual(alone[i % 2])
    }
  }
  await engine.close()
}

describe('an answer through an adapter', () => {
  test.each([
    { rank: 8, threads: 2 },
    { rank: 32, threads: 2 },
    { rank: 8, threads: 4 },
  ])('has the same bits alone and among others: rank $rank, $threads threads', async ({ rank, threads }) => {
    await expectSameBits(prepared, { rank, threads })
  })

  test('has them where threads divide its tokens', async () => {
    await expectSameBits(await prepareRandom('tall', TALL), { rank: 5, threads: 8, sizes: [3, 8] })
  })

  test('has them at int8, too', async () => {
    const calibrationIds = promptOf(100, 3)
    const integer = await withIntegerProducts(prepared, { runtime: createOrtRuntime(), threads: 2, calibrationIds })
    await expectSameBits(integer, { rank: 8, threads: 2, precision: 'int8' })
  })
})
