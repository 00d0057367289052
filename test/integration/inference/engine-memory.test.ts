/**
 * Memory of keys and values that choices leave is used by the next ones, and by nobody before.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import type { Engine } from '#inference/engine/engine.js'
import type { GenerationRules } from '#inference/engine/generation.js'
import { KvMemory } from '#inference/engine/runner/kv-memory.js'
import { RunningChoices } from '#inference/engine/scheduling/running-choices.js'
import type { PreparedModel } from '#model/architectures/prepare.js'
import {
  engineFor,
  GREEDY,
  generate,
  maxDifference,
  type Outcome,
  prepareTiny,
  promptOf,
  RANDOM,
  randomAdapter,
} from './engine-harness.js'

let prepared: PreparedModel
let removeModel: () => Promise<void>
beforeAll(async () => {
  ;({ prepared, remove: removeModel } = await prepareTiny())
})
afterAll(() => removeModel())
afterEach(() => {
  vi.restoreAllMocks()
  vi.useRealTimers()
})

interface Asked {
  readonly prompt: readonly number[]
  readonly rules: GenerationRules
  readonly adapter: number | null
  /** Tokens after which it is left (the listener ends the choice, or the client goes). */
  readonly left?: { readonly after: number; readonly how: 'ended' | 'aborted' }
}

/** Requests of every kind, more than there are rows. */
const REQUESTS: readonly Asked[] = [
  ...[20, 33, 47, 18, 25].map((length, i) => ({ prompt: promptOf(length, i), rules: RANDOM, adapter: null })),
  { prompt: promptOf(30, 6), rules: { ...RANDOM, n: 3, maxTokens: 70 }, adapter: null },
  { prompt: promptOf(21, 7), rules: { ...GREEDY, n: 3, maxTokens: 12, beam: { lengthPenalty: 1 } }, adapter: null },
  { prompt: promptOf(19, 8), rules: { ...RANDOM, maxTokens: 40 }, adapter: 1 },
  { prompt: promptOf(22, 9), rules: { ...RANDOM, maxTokens: 15 }, adapter: 2 },
  { prompt: promptOf(40, 10), rules: { ...RANDOM, maxTokens: 60 }, adapter: null, left: { after: 5, how: 'ended' } },
  {
    prompt: promptOf(41, 11),
    rules: { ...RANDOM, n: 2, maxTokens: 60 },
    adapter: 1,
    left: { after: 9, how: 'aborted' },
  },
  // repeats itself: several tokens are guessed at once, right and wrong
  { prompt: [5, 6, 7, 8, 5, 6, 7, 8, 5, 6], rules: { ...GREEDY, maxTokens: 90 }, adapter: null },
]

function ask(engine: Engine, asked: Asked, id: string): Promise<Outcome> {
  const { prompt, rules, adapter, left } = asked
  let tokens = 0
  return generate(engine, prompt, rules, {
    id,
    adapter: adapter === null ? null : randomAdapter(prepared, adapter, 2 * adapter),
    onToken: () => {
      if (++tokens !== left?.after) return true
      if (left.how === 'aborted') engine.abort(id)
      return left.how !== 'ended'
    },
  })
}

describe('memory of keys and values', () => {
  it('is not read by anybody once it is given back, and all of it is', async () => {
    const alone: Outcome[] = []
    for (const [i, asked] of REQUESTS.entries()) {
      const fresh = await engineFor(prepared)
      alone.push(await ask(fresh, asked, `alone-${i}`))
      await fresh.close()
    }
    const { give, take } = KvMemory.prototype
    const memories = new Set<KvMemory>()
    let used = 0
    vi.spyOn(KvMemory.prototype, 'give').mockImplementation(function (this: KvMemory, array) {
      // who reads it nevertheless gets no numbers, and the next one must find zeros
      array.fill(Number.NaN)
      give.call(this, array)
    })
    vi.spyOn(KvMemory.prototype, 'take').mockImplementation(function (this: KvMemory, length) {
      memories.add(this)
      const before = this.sizeBytes
      const array = take.call(this, length)
      if (length > 0 && this.sizeBytes === before) used++
      return array
    })
    const engine = await engineFor(prepared, { maxConcurrentSequences: 6, speculation: 'auto' })
    for (let round = 0; round < 3; round++) {
      const together = await Promise.all(REQUESTS.map((asked, i) => ask(engine, asked, `${round}-${i}`)))
      for (const [i, outcome] of together.entries()) {
        expect(outcome.error, `request ${i}`).toBeNull()
        for (let choice = 0; choice < (REQUESTS[i]?.rules.n ?? 1); choice++) {
          const ids = alone[i]?.ids(choice) ?? []
          // when a request that leaves does so is a matter of the other choices' pace
          const count = REQUESTS[i]?.left === undefined ? ids.length : Math.min(ids.length, outcome.ids(choice).length)
          expect(outcome.ids(choice).slice(0, count), `request ${i}`).toEqual(ids.slice(0, count))
          const difference = maxDifference(
            outcome.logprobs(choice).slice(0, count),
            alone[i]?.logprobs(choice).slice(0, count) ?? [],
          )
          expect(difference, `request ${i}`).toBeLessThan(1e-4)
        }
      }
      await engine.idle()
      engine.forgetAdapter('adapter-1')
      expect([...memories].map(({ usedBytes }) => usedBytes)).toEqual([0])
    }
    expect(used).toBeGreaterThan(100)
    await engine.close()
  })

  it('goes back when the engine has been idle for a while, and not before', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const trim = vi.spyOn(KvMemory.prototype, 'trim')
    const engine = await engineFor(prepared)
    const first = await generate(engine, promptOf(20))
    await engine.idle()
    vi.advanceTimersByTime(9_000)
    await generate(engine, promptOf(21))
    await engine.idle()
    vi.advanceTimersByTime(9_000)
    expect(trim).not.toHaveBeenCalled()
    vi.advanceTimersByTime(1_000)
    expect(trim).toHaveBeenCalledOnce()
    const [memory] = trim.mock.contexts
    expect(memory instanceof KvMemory && memory.sizeBytes).toBe(0)
    expect((await generate(engine, promptOf(20))).events).toEqual(first.events)
    await engine.close()
  })
})

describe('what is kept for later prompts', () => {
  it('goes when the engine has been idle: soon all but the latest, in the end everything', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const engine = await engineFor(prepared)
    const cachedOf = async (id: number): Promise<number> =>
      (await generate(engine, promptOf(engine.contextLength / 2 + 1, id))).cachedTokens
    // four prompts of half a context each
    for (const id of [1, 2, 3, 4]) expect(await cachedOf(id)).toBe(0)
    expect(await cachedOf(4)).toBeGreaterThan(0)
    await engine.idle()
    vi.advanceTimersByTime(30_000)
    expect(await cachedOf(4)).toBeGreaterThan(0)
    expect(await cachedOf(1)).toBe(0)
    await engine.idle()
    vi.advanceTimersByTime(600_000)
    expect(await cachedOf(1)).toBe(0)
    await engine.close()
  })
})

describe('answers that end together', () => {
  it('are told of, and what they say is sent, before they are kept for later prompts', async () => {
    const engine = await engineFor(prepared)
    const order: string[] = []
    const { copyTail } = RunningChoices.prototype
    vi.spyOn(RunningChoices.prototype, 'copyTail').mockImplementation(function (this: RunningChoices, ...args) {
      order.push('kept')
      return copyTail.apply(this, args)
    })
    const prompts = [17, 18, 19].map((length, seed) => promptOf(length, seed))
    const ask = async (prompt: readonly number[]): Promise<Outcome> => {
      const outcome = await generate(engine, prompt, { ...GREEDY, maxTokens: 20, ignoreEos: true })
      // as the host does: one message for all that a step says
      order.push('sent')
      return outcome
    }
    const outcomes = await Promise.all(prompts.map(ask))
    await engine.idle()
    expect(order).toEqual(['sent', 'sent', 'sent', 'kept', 'kept', 'kept'])
    for (const [i, prompt] of prompts.entries()) {
      const next = await generate(engine, [...prompt, ...(outcomes[i]?.ids() ?? []), 9])
      expect(next.cachedTokens).toBeGreaterThanOrEqual(32)
    }
    await engine.close()
  })
})
