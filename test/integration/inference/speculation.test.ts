import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Engine } from '#inference/engine/engine.js'
import type { GenerationRules } from '#inference/engine/generation.js'
import type { PreparedModel } from '#model/architectures/prepare.js'
import { countingRuntime, engineFor, GREEDY, generate, prepareTiny, promptOf, RANDOM } from './engine-harness.js'

let prepared: PreparedModel
let remove: () => Promise<void>
let plain: Engine
let guessing: Engine
let steps: number[]

beforeAll(async () => {
  const tiny = await prepareTiny()
  prepared = tiny.prepared
  remove = tiny.remove
  const counting = countingRuntime()
  steps = counting.steps
  plain = await engineFor(prepared, { prefixCacheBytes: 0 })
  guessing = await engineFor(prepared, { prefixCacheBytes: 0, speculation: 'auto', runtime: counting.runtime })
})
afterAll(async () => {
  await plain.close()
  await guessing.close()
  await remove()
})

/** A prompt of four tokens again and again, and the four: an answer held to these repeats them a quarter of the time. */
const WORDS = [40, 41, 42, 43]
const REPEATING = Array.from({ length: 24 }, (_, i) => WORDS[i % 4] as number)

async function expectSame(prompt: readonly number[], rules: GenerationRules): Promise<number> {
  const expected = await generate(plain, prompt, rules)
  const before = steps.length
  const got = await generate(guessing, prompt, rules)
  expect(got.error).toBeNull()
  expect(got.ids()).toEqual(expected.ids())
  expect(got.events.map(({ finishReason }) => finishReason)).toEqual(expected.events.map((event) => event.finishReason))
  for (const [i, event] of got.events.entries()) {
    expect(Math.abs(event.logprob - (expected.events[i]?.logprob ?? 0))).toBeLessThan(1e-4)
    expect(event.top.map(({ id }) => id)).toEqual(expected.events[i]?.top.map(({ id }) => id))
  }
  return steps.length - before
}

describe('guessed tokens', () => {
  it('give the same answer in fewer steps where it repeats itself', async () => {
    const count = await expectSame(promptOf(20), { ...GREEDY, maxTokens: 200, topLogprobs: 2 })
    expect(count).toBeLessThan(120)
    expect(Math.max(...steps)).toBeGreaterThan(4)
  })

  it('change nothing under rules that look at the answer', async () => {
    const rules = { ...GREEDY, maxTokens: 60, topLogprobs: 2, repetitionPenalty: 1.05, presencePenalty: 0.1 }
    await expectSame(REPEATING, rules)
    const mask = { next: () => null, accept: () => undefined }
    await expectSame(REPEATING, { ...GREEDY, maxTokens: 60, tokenMask: () => mask })
  })

  it('stop at a stop id and at the limit, whatever was guessed behind it', async () => {
    const { events } = await generate(plain, promptOf(20), { ...GREEDY, maxTokens: 40 })
    const late = events.findLast(({ tokenId }, i) => events.findIndex((event) => event.tokenId === tokenId) === i)
    await expectSame(promptOf(20), { ...GREEDY, maxTokens: 200, stopTokenIds: [late?.tokenId ?? 0] })
    for (const maxTokens of [1, 2, 3, 35]) await expectSame(promptOf(20), { ...GREEDY, maxTokens })
  })

  it('keep the distribution: what a seed gives, and its frequencies', async () => {
    const rules = { ...RANDOM, allowedTokenIds: WORDS, maxTokens: 4, topLogprobs: 300 }
    const counts = new Map<number, number>()
    const shares = new Map<number, number>()
    let guessedSteps = 0
    let drawn = 0
    for (let seed = 0n; seed < 250n; seed++) {
      const before = steps.length
      const { events } = await generate(guessing, REPEATING, { ...rules, seed })
      guessedSteps += steps.slice(before + 1).filter((tokens) => tokens > 1).length
      if (seed < 40n)
        expect((await generate(plain, REPEATING, { ...rules, seed })).ids()).toEqual(events.map((e) => e.tokenId))
      // The second token of answers that began as guessed: it was drawn from a guess's row.
      if (events[0]?.tokenId !== WORDS[0]) continue
      const second = events[1]
      if (second === undefined) continue
      drawn++
      counts.set(second.tokenId, (counts.get(second.tokenId) ?? 0) + 1)
      for (const { id, logprob } of second.top) if (WORDS.includes(id)) shares.set(id, Math.exp(logprob))
    }
    expect(guessedSteps).toBeGreaterThan(40)
    expect(drawn).toBeGreaterThan(30)
    const total = [...shares.values()].reduce((sum, share) => sum + share, 0)
    let chiSquare = 0
    for (const id of WORDS) {
      const expected = (drawn * (shares.get(id) ?? 0)) / total
      chiSquare += ((counts.get(id) ?? 0) - expected) ** 2 / expected
    }
    // Three degrees of freedom: 21.1 is exceeded once in 10,000.
    expect(chiSquare).toBeLessThan(21.1)
  })

  it('leave the bits of other choices alone', async () => {
    const prefillChunk = { sharing: 64, alone: 128 }
    const rules = { ...RANDOM, maxTokens: 30, seed: 11n, topLogprobs: 2 }
    const alone = await generate(plain, promptOf(50), rules)
    const mixed = await engineFor(prepared, { prefixCacheBytes: 0, speculation: 'auto', prefillChunk })
    const [watched] = await Promise.all([
      generate(mixed, promptOf(50), rules),
      generate(mixed, promptOf(20), { ...GREEDY, maxTokens: 60 }),
    ])
    expect(watched.events).toEqual(alone.events)
    await mixed.close()
  })
})
