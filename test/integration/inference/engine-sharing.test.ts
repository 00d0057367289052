/**
 * Who shares what: prompts computed once, rows and time divided over requests, and answers that do not show it.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { BEHIND_ALL } from '#contract/processes/priority.js'
import type { PreparedModel } from '#model/architectures/prepare.js'
import {
  countingRuntime,
  engineFor,
  GREEDY,
  generate,
  maxDifference,
  prepareTiny,
  promptOf,
  RANDOM,
} from './engine-harness.js'

let prepared: PreparedModel
let removeModel: () => Promise<void>
beforeAll(async () => {
  ;({ prepared, remove: removeModel } = await prepareTiny())
})
afterAll(() => removeModel())

const sum = (numbers: readonly number[]): number => numbers.reduce((total, x) => total + x, 0)

describe('prompts', () => {
  it('are computed once when equal requests arrive together, and each is answered with the bits it gets alone', async () => {
    const { runtime, steps } = countingRuntime()
    const prefillChunk = { alone: 40, sharing: 20 }
    const engine = await engineFor(prepared, { runtime, maxConcurrentSequences: 6, prefillChunk })
    const rules = { ...RANDOM, maxTokens: 9, topLogprobs: 3 }
    const prompt = promptOf(100)
    const run = (i: number) => generate(engine, prompt, { ...rules, seed: BigInt(i) })
    const together = await Promise.all([0, 1, 2, 3, 4, 5].map(run))
    expect(together.map(({ cachedTokens }) => cachedTokens)).toEqual([0, 96, 96, 96, 96, 96])
    // The prompt once, and of each answer all tokens but the last.
    expect(sum(steps)).toBe(100 + 6 * 8)
    for (const [i, outcome] of together.entries()) {
      const fresh = await engineFor(prepared, { prefillChunk })
      const alone = await generate(fresh, prompt, { ...rules, seed: BigInt(i) })
      expect(outcome.events).toEqual(alone.events)
      await fresh.close()
    }
    steps.length = 0
    const later = await run(7)
    expect(later.cachedTokens).toBe(96)
    expect(sum(steps)).toBe(8)
    await engine.close()
  })

  it('that begin alike and arrive together compute the common part once', async () => {
    const { runtime, steps } = countingRuntime()
    const engine = await engineFor(prepared, { runtime, prefillChunk: { alone: 32, sharing: 32 } })
    const common = promptOf(90)
    const prompts = [1, 2, 3].map((seed) => [...common, ...promptOf(10 + seed, seed)])
    const together = await Promise.all(prompts.map((prompt) => generate(engine, prompt, { ...GREEDY, maxTokens: 1 })))
    expect(together.map(({ cachedTokens }) => cachedTokens)).toEqual([0, 80, 80])
    expect(sum(steps)).toBe(101 + 22 + 23)
    for (const [i, prompt] of prompts.entries()) {
      const fresh = await engineFor(prepared)
      const alone = await generate(fresh, prompt, { ...GREEDY, maxTokens: 1 })
      expect(together[i]?.ids()).toEqual(alone.ids())
      expect(maxDifference(together[i]?.logprobs() ?? [], alone.logprobs())).toBeLessThan(1e-4)
      await fresh.close()
    }
    await engine.close()
  })

  it('are not cut for a few tokens more than a step takes', async () => {
    const { runtime, steps } = countingRuntime()
    const engine = await engineFor(prepared, { runtime })
    // 300 ms at one a token, which is taken for granted before the first step
    await generate(engine, promptOf(360), { ...GREEDY, maxTokens: 1 })
    expect(steps).toEqual([360])
    await engine.close()
    const other = await engineFor(prepared, { runtime })
    await generate(other, promptOf(400), { ...GREEDY, maxTokens: 1 })
    expect(steps.slice(1, 2)).toEqual([300])
    await other.close()
  })

  it('go on when the request they are shared with leaves', async () => {
    const engine = await engineFor(prepared, { prefillChunk: { alone: 16, sharing: 16 } })
    const prompt = promptOf(200)
    const first = generate(engine, prompt, GREEDY, { id: 'first' })
    const [same, longer] = [generate(engine, prompt), generate(engine, [...prompt, 1, 2, 3])]
    setTimeout(() => engine.abort('first'), 5)
    expect((await first).error).toBeNull()
    expect((await same).ids()).toHaveLength(8)
    expect((await longer).ids()).toHaveLength(8)
    await engine.close()
  })

  it('report how likely each of their tokens was, whatever is cached', async () => {
    const engine = await engineFor(prepared)
    const prompt = promptOf(60)
    await generate(engine, prompt)
    const { promptEvents, cachedTokens, events } = await generate(engine, prompt, {
      ...GREEDY,
      maxTokens: 2,
      promptLogprobs: 2,
    })
    expect(cachedTokens).toBe(0)
    expect(events).toHaveLength(2)
    expect(promptEvents.map(({ position }) => position)).toEqual(prompt.slice(1).map((_, i) => i + 1))
    expect(promptEvents.map(({ tokenId }) => tokenId)).toEqual(prompt.slice(1))
    for (const at of [1, 33, 59]) {
      const rules = { ...GREEDY, maxTokens: 1, topLogprobs: 300 }
      const { events: next } = await generate(engine, prompt.slice(0, at), rules)
      const expected = next[0]?.top.find(({ id }) => id === prompt[at])
      const got = promptEvents[at - 1]
      expect(got?.logprob).toBeCloseTo(expected?.logprob ?? 0, 4)
      expect(got?.top.map(({ id }) => id)).toEqual(next[0]?.top.slice(0, 2).map(({ id }) => id))
    }
    await engine.close()
  })
})

describe('answers', () => {
  it('keep their bits whoever comes, goes and gives way', async () => {
    const rules = { ...RANDOM, maxTokens: 40, seed: 11n, topLogprobs: 2 }
    // A prompt cut elsewhere is summed in another order: its chunks must not follow the clock here.
    const prefillChunk = { sharing: 64, alone: 128 }
    const quiet = await engineFor(prepared, { prefixCacheBytes: 0, prefillChunk })
    const alone = await generate(quiet, promptOf(50), rules)
    await quiet.close()
    const busy = await engineFor(prepared, { prefixCacheBytes: 0, maxConcurrentSequences: 5, prefillChunk })
    const others = [
      generate(busy, promptOf(20, 1), { ...RANDOM, n: 7, maxTokens: 30 }),
      generate(busy, promptOf(300, 2), { ...RANDOM, n: 2, maxTokens: 5 }),
    ]
    const watched = generate(busy, promptOf(50), rules)
    for (let i = 3; i < 9; i++) others.push(generate(busy, promptOf(9 * i, i), { ...RANDOM, maxTokens: i }))
    expect((await watched).events).toEqual(alone.events)
    for (const outcome of await Promise.all(others)) expect(outcome.error).toBeNull()
    await busy.close()
  })
})

/** Told of each token of a request, `begun` resolves at the first. */
function firstToken() {
  let begin: (isTokenThere: true) => void = () => undefined
  const begun = new Promise<true>((resolve) => {
    begin = resolve
  })
  const onToken = () => {
    begin(true)
    return true
  }
  return { begun, onToken }
}

describe('rows', () => {
  it('go to every request before one gets all: a short one passes one with many choices', async () => {
    const engine = await engineFor(prepared, { maxConcurrentSequences: 4 })
    const order: string[] = []
    const { begun, onToken } = firstToken()
    const big = generate(engine, promptOf(10), { ...RANDOM, n: 12, maxTokens: 60 }, { onToken }).then((outcome) => {
      order.push('big')
      return outcome
    })
    await begun
    const small = await generate(engine, promptOf(12, 1), { ...GREEDY, maxTokens: 4 })
    order.push('small')
    expect(small.ids()).toHaveLength(4)
    const all = await big
    expect(order).toEqual(['small', 'big'])
    const seedless = Array.from({ length: 12 }, (_, i) => all.ids(i).length)
    expect(seedless).toEqual(Array.from({ length: 12 }, () => 60))
    await engine.close()
  })

  it('are filled by groups as they come: equal requests run in as few steps as their choices alone', async () => {
    const { runtime, steps } = countingRuntime()
    // prompts end one after the other
    const prefillChunk = { sharing: 16, alone: 16 }
    const engine = await engineFor(prepared, { runtime, maxConcurrentSequences: 8, prefixCacheBytes: 0, prefillChunk })
    const outcomes = await Promise.all(
      [0, 1, 2, 3].map((i) => generate(engine, promptOf(16, i), { ...RANDOM, n: 4, maxTokens: 30, seed: BigInt(i) })),
    )
    for (const outcome of outcomes) expect([0, 1, 2, 3].map((i) => outcome.ids(i).length)).toEqual([30, 30, 30, 30])
    expect(sum(steps)).toBe(4 * 16 + 16 * 29)
    // the four prompts, twice eight choices, and what the first ones began earlier
    expect(steps.length).toBeLessThanOrEqual(4 + 2 * 29 + 4)
    expect(engine.preemptions).toBe(0)
    await engine.close()
  })

  it('that are too few for all choices of a prompt keep them in one step with the others', async () => {
    const { runtime, steps } = countingRuntime()
    const prefillChunk = { sharing: 80, alone: 80 }
    const engine = await engineFor(prepared, { runtime, maxConcurrentSequences: 6, prefixCacheBytes: 0, prefillChunk })
    const rules = { ...RANDOM, n: 4, maxTokens: 30 }
    await Promise.all([1, 2].map((i) => generate(engine, promptOf(80, i), rules)))
    expect(sum(steps)).toBe(2 * 80 + 8 * 29)
    // six choices, then two
    expect(steps.length).toBeLessThanOrEqual(2 + 2 * 29 + 4)
    await engine.close()
  })

  it('are shared with a request that wants fewer, to the last of its choices', async () => {
    const engine = await engineFor(prepared, { maxConcurrentSequences: 8 })
    const order: string[] = []
    const { begun, onToken } = firstToken()
    const big = generate(engine, promptOf(10), { ...RANDOM, n: 16, maxTokens: 60 }, { onToken })
    await begun
    const small = generate(engine, promptOf(12, 1), { ...GREEDY, n: 3, maxTokens: 20 })
    await Promise.all([big.then(() => order.push('big')), small.then(() => order.push('small'))])
    expect(order).toEqual(['small', 'big'])
    expect(engine.preemptions).toBe(3)
    await engine.close()
  })

  it('are given back with nothing lost: choices that gave way go on with the same tokens', async () => {
    const rules = { ...RANDOM, n: 6, maxTokens: 30, seed: 3n }
    const quiet = await engineFor(prepared, { maxConcurrentSequences: 6 })
    const expected = await generate(quiet, promptOf(10), rules)
    await quiet.close()
    const { runtime, steps } = countingRuntime()
    const engine = await engineFor(prepared, { runtime, maxConcurrentSequences: 3, prefixCacheBytes: 0 })
    const big = generate(engine, promptOf(10), rules)
    const short = [1, 2, 3, 4].map(async (i) => {
      await new Promise((resolve) => setTimeout(resolve, 10 * i))
      return await generate(engine, promptOf(5, i), { ...GREEDY, maxTokens: 4 })
    })
    const got = await big
    for (let i = 0; i < 6; i++) expect(got.ids(i), `choice ${i}`).toEqual(expected.ids(i))
    await Promise.all(short)
    expect(sum(steps)).toBe(10 + 6 * 29 + 4 * (5 + 3))
    await engine.close()
  })

  it('go to requests of higher priority first', async () => {
    const engine = await engineFor(prepared, { maxConcurrentSequences: 1 })
    const order: number[] = []
    const run = (priority: number, i: number) =>
      generate(engine, promptOf(4, i), GREEDY, { priority }).then(() => order.push(i))
    await Promise.all([run(0, 0), run(5, 1), run(-1, 2), run(0, 3)])
    expect(order).toEqual([2, 0, 3, 1])
    await engine.close()
  })

  it('have nobody beside others who is behind all: their steps are as they are alone, and what waited loses nothing', async () => {
    const rules = { ...RANDOM, n: 3, maxTokens: 40, seed: 5n }
    const asked = { ...GREEDY, maxTokens: 12 }
    const quiet = await engineFor(prepared)
    const expected = await generate(quiet, promptOf(10), rules)
    const alone = await generate(quiet, promptOf(20, 1), asked)
    await quiet.close()
    const { runtime, steps } = countingRuntime()
    const engine = await engineFor(prepared, { runtime, prefixCacheBytes: 0 })
    let begin: () => void = () => undefined
    const begun = new Promise<void>((resolve) => (begin = resolve))
    const told: string[] = []
    const tell = (who: string) => (): boolean => {
      begin()
      told.push(who)
      return true
    }
    const behind = generate(engine, promptOf(10), rules, { priority: BEHIND_ALL, onToken: tell('behind') })
    await begun
    // a prompt of those behind waits, too, and so does one that comes meanwhile
    const later = generate(engine, promptOf(30, 2), GREEDY, { priority: BEHIND_ALL, onToken: tell('behind') })
    const person = generate(engine, promptOf(20, 1), asked, { onToken: tell('person') })
    expect((await person).ids()).toEqual(alone.ids())
    const own = told.slice(told.indexOf('person'), told.lastIndexOf('person') + 1)
    expect(own).toEqual(Array.from({ length: 12 }, () => 'person'))
    const from = steps.indexOf(20)
    expect(steps.slice(from, from + 12)).toEqual([20, ...Array.from({ length: 11 }, () => 1)])
    expect((await later).ids()).toHaveLength(8)
    const got = await behind
    for (let i = 0; i < 3; i++) expect(got.ids(i), `choice ${i}`).toEqual(expected.ids(i))
    expect(engine.waitingRequests).toBe(0)
    await engine.close()
  })

  it('are not held by a request whose adapter is being loaded', async () => {
    const engine = await engineFor(prepared, { maxConcurrentSequences: 1 })
    let fail: (error: Error) => void = () => undefined
    const load = () =>
      new Promise<never>((_, reject) => {
        fail = reject
      })
    const slow = generate(engine, promptOf(5), GREEDY, { adapter: { digest: 'slow', load } })
    expect((await generate(engine, promptOf(6))).ids()).toHaveLength(8)
    expect(engine.waitingRequests).toBe(1)
    const isIdle = engine.idle()
    fail(new Error('disk is gone'))
    expect((await slow).error).toMatchObject({ code: 'adapter_failed' })
    await isIdle
    await engine.close()
  })

  it('are limited by memory, and requests that wait for it are served', async () => {
    const engine = await engineFor(prepared, { maxConcurrentSequences: 8, kvCacheBytes: 1 })
    const outcomes = await Promise.all([1, 2, 3].map((i) => generate(engine, promptOf(40, i))))
    for (const outcome of outcomes) expect(outcome.ids()).toHaveLength(8)
    await engine.close()
  })
})

describe('keys', () => {
  const long = { ...GREEDY, maxTokens: 30, ignoreEos: true }

  it('take turns at rows: another key’s one answer does not wait for the many of one, which keep their bits', async () => {
    const engine = await engineFor(prepared, { maxConcurrentSequences: 2 })
    const ended: string[] = []
    const ask = async (name: string, seed: number, keyId: string, rules = long) => {
      const outcome = await generate(engine, promptOf(20, seed), rules, { keyId })
      ended.push(name)
      return outcome
    }
    // the first two have the rows when the other key comes
    let begin: () => void = () => undefined
    const begun = new Promise<void>((resolve) => {
      begin = resolve
    })
    const first = generate(engine, promptOf(20, 1), long, {
      keyId: 'many',
      onToken: () => {
        begin()
        return true
      },
    })
    const others = [2, 3, 4, 5, 6].map((seed) => ask('many', seed, 'many'))
    await begun
    const one = ask('one', 9, 'one', { ...long, maxTokens: 4 })
    await one
    expect(ended.length).toBeLessThan(3)
    expect(engine.preemptions).toBeGreaterThan(0)
    for (const [i, outcome] of (await Promise.all([first, ...others])).entries()) {
      const alone = await engineFor(prepared, { maxConcurrentSequences: 2 })
      expect(outcome.ids()).toEqual((await generate(alone, promptOf(20, i + 1), long)).ids())
      await alone.close()
    }
    await engine.close()
  })

  it('take turns at prompts: another key’s one is computed after one of the many', async () => {
    const engine = await engineFor(prepared, { maxConcurrentSequences: 8, prefillChunk: { alone: 64, sharing: 64 } })
    const ended: string[] = []
    const ask = async (name: string, seed: number, keyId: string) => {
      await generate(engine, promptOf(200, seed), { ...GREEDY, maxTokens: 1 }, { keyId })
      ended.push(name)
    }
    const many = [1, 2, 3, 4, 5, 6].map((seed) => ask('many', seed, 'many'))
    const one = ask('one', 9, 'one')
    await Promise.all([...many, one])
    expect(ended.indexOf('one')).toBeLessThan(3)
    await engine.close()
  })
})
