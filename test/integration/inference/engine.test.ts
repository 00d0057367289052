/**
 * The engine's promises on a tiny model: what a request gets does not depend on who shares its steps.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AppError } from '#base/errors/errors.js'
import { createDeferred } from '#base/util/deferred.js'
import type { Engine } from '#inference/engine/engine.js'
import type { AdapterSource } from '#inference/engine/generation.js'
import { hasFastIntegerProducts, withIntegerProducts } from '#inference/engine/runner/integer-weights.js'
import type { PreparedModel } from '#model/architectures/prepare.js'
import type { AdapterWeights } from '#model/weights/adapter.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import {
  engineFor,
  GREEDY,
  generate,
  maxDifference,
  prepareTiny,
  promptOf,
  RANDOM,
  randomAdapter,
} from './engine-harness.js'

let prepared: PreparedModel
let removeModel: () => Promise<void>
let engine: Engine

beforeAll(async () => {
  ;({ prepared, remove: removeModel } = await prepareTiny())
  engine = await engineFor(prepared, { prefixCacheBytes: 0 })
})
afterAll(async () => {
  await engine.close()
  await removeModel()
})

const adapterOf = (seed: number, rank: number): AdapterSource => randomAdapter(prepared, seed, rank)

describe('generation', () => {
  it('answers alone what it answers beside others that come and go', async () => {
    const requests = [
      { prompt: promptOf(30, 1), rules: { ...RANDOM, maxTokens: 12, seed: 1n } },
      { prompt: promptOf(5, 2), rules: { ...GREEDY, maxTokens: 3 } },
      { prompt: promptOf(70, 3), rules: { ...RANDOM, maxTokens: 20, seed: 3n, topK: 20 } },
      { prompt: promptOf(7, 4), rules: { ...RANDOM, maxTokens: 6, seed: 4n, topP: 0.8 } },
      { prompt: promptOf(8, 5), rules: { ...RANDOM, maxTokens: 9, seed: 5n, minP: 0.2 } },
      { prompt: promptOf(9, 6), rules: { ...RANDOM, maxTokens: 5, seed: 6n, repetitionPenalty: 1.3 } },
    ]
    const together = await Promise.all(requests.map(({ prompt, rules }) => generate(engine, prompt, rules)))
    for (const [i, { prompt, rules }] of requests.entries()) {
      const alone = await generate(engine, prompt, rules)
      expect(together[i]?.ids(), `request ${i}`).toEqual(alone.ids())
      expect(alone.ids()).toHaveLength(rules.maxTokens)
      expect(maxDifference(together[i]?.logprobs() ?? [], alone.logprobs())).toBeLessThan(1e-4)
    }
  })

  it('computes a long prompt in chunks as it does at once', async () => {
    const prompt = promptOf(150, 9)
    const chunked = await engineFor(prepared, { prefixCacheBytes: 0, prefillChunk: { alone: 40, sharing: 7 } })
    const whole = await generate(engine, prompt)
    const parts = await generate(chunked, prompt)
    expect(parts.ids()).toEqual(whole.ids())
    expect(maxDifference(parts.logprobs(), whole.logprobs())).toBeLessThan(1e-4)
    await chunked.close()
  })

  it('repeats itself for a seed and differs for another', async () => {
    const run = async (seed: bigint): Promise<number[]> =>
      (await generate(engine, promptOf(10), { ...RANDOM, seed, maxTokens: 16 })).ids()
    expect(await run(5n)).toEqual(await run(5n))
    expect(await run(5n)).not.toEqual(await run(6n))
    expect(await run(-(2n ** 63n))).not.toEqual(await run(2n ** 63n - 1n))
  })

  it('gives choice i of n what seed + i gives alone, also with more choices than rows', async () => {
    const rules = { ...RANDOM, seed: 40n, n: 6, maxTokens: 5 }
    const many = await generate(engine, promptOf(20), rules)
    for (let i = 0; i < 6; i++) {
      const alone = await generate(engine, promptOf(20), { ...rules, n: 1, seed: 40n + BigInt(i) })
      expect(many.ids(i), `choice ${i}`).toEqual(alone.ids())
    }
  })

  it('reports raw logprobs whatever the temperature, and alternatives by rank', async () => {
    const cold = await generate(engine, promptOf(10), { ...GREEDY, topLogprobs: 3, maxTokens: 1 })
    const warm = await generate(engine, promptOf(10), { ...RANDOM, temperature: 5, topLogprobs: 3, maxTokens: 1 })
    const [first] = cold.events
    expect(first?.top).toHaveLength(3)
    expect(first?.top[0]).toEqual({ id: first?.tokenId, logprob: first?.logprob })
    expect(warm.events[0]?.top).toEqual(first?.top)
  })

  it('forces a token by bias and still reports its raw logprob', async () => {
    const { events } = await generate(engine, promptOf(10), { ...GREEDY, logitBias: { '42': 100 }, maxTokens: 1 })
    expect(events[0]?.tokenId).toBe(42)
    expect(events[0]?.logprob).toBeLessThan(-1)
  })

  it('ends at stop ids, at the length limit and at the end of the context', async () => {
    const { events } = await generate(engine, promptOf(10), GREEDY)
    const second = events[1]?.tokenId ?? -1
    const at = events.findIndex((event) => event.tokenId === second)
    const stopped = await generate(engine, promptOf(10), { ...GREEDY, stopTokenIds: [second] })
    expect(stopped.events.at(-1)).toMatchObject({ tokenId: second, finishReason: 'stop', stopReason: second })
    expect(stopped.events).toHaveLength(at + 1)
    expect(events.at(-1)).toMatchObject({ finishReason: 'length', stopReason: null })
    const small = await engineFor(prepared, { maxContextLength: 40 })
    const full = await generate(small, promptOf(30), { ...GREEDY, maxTokens: null })
    expect(full.ids()).toHaveLength(10)
    expect(full.events.at(-1)?.finishReason).toBe('length')
    await small.close()
  })

  it('lets the listener end a choice', async () => {
    const { events, error } = await generate(engine, promptOf(10), GREEDY, { onToken: () => false })
    expect(events).toHaveLength(1)
    expect(error).toBeNull()
  })

  it('serves int8 through integer products close to float32, with the same bits alone and in a batch', async () => {
    const runtime = createOrtRuntime()
    const calibrationIds = promptOf(200, 3)
    const own = await prepareTiny()
    const integer = await withIntegerProducts(own.prepared, { runtime, threads: 1, calibrationIds })
    const quantized = await engineFor(integer, { precision: 'int8', prefixCacheBytes: 0 })
    const rules = { ...GREEDY, maxTokens: 1, topLogprobs: 5 }
    const exact = await generate(engine, promptOf(40), rules)
    const close = await generate(quantized, promptOf(40), rules)
    expect(Math.abs((close.events[0]?.logprob ?? 0) - (exact.events[0]?.logprob ?? 9))).toBeLessThan(0.05)
    expect(close.events[0]?.logprob).not.toBe(exact.events[0]?.logprob)
    const run = (i: number, adapter: AdapterSource | null = null) =>
      generate(quantized, promptOf(20, i), { ...RANDOM, maxTokens: 12 }, { adapter })
    const together = await Promise.all([run(1), run(2), run(3), run(1)])
    expect((await run(1)).events).toEqual(together[0]?.events)
    expect(together[3]?.events).toEqual(together[0]?.events)
    const adapted = await run(1, adapterOf(5, 4))
    expect(adapted.error).toBeNull()
    expect(maxDifference(adapted.logprobs(), together[0]?.logprobs() ?? [])).toBeGreaterThan(0.001)
    // nothing of a chunk in the middle of a prompt is read behind the last attention
    const cut = await engineFor(integer, { precision: 'int8', prefillChunk: { alone: 16, sharing: 16 } })
    expect((await generate(cut, promptOf(40), rules)).events[0]?.logprob).toBeCloseTo(close.events[0]?.logprob ?? 9, 2)
    await cut.close()
    await quantized.close()
    // What was prepared is found again, without a calibration.
    const again = await withIntegerProducts(own.prepared, { runtime, threads: 1, calibrationIds: [] })
    expect([...again.tensors('int8').keys()]).toEqual([...integer.tensors('int8').keys()])
    await own.remove()
  })

  it('knows whether integer products are exact and fast here', async () => {
    expect(typeof (await hasFastIntegerProducts(createOrtRuntime(), 1))).toBe('boolean')
  })

  it('serves int8 close to float32', async () => {
    const quantized = await engineFor(prepared, { precision: 'int8', prefillChunk: { alone: 16, sharing: 16 } })
    const exact = await generate(engine, promptOf(40), { ...GREEDY, maxTokens: 1, topLogprobs: 5 })
    const close = await generate(quantized, promptOf(40), { ...GREEDY, maxTokens: 1, topLogprobs: 5 })
    expect(Math.abs((close.events[0]?.logprob ?? 0) - (exact.events[0]?.logprob ?? 9))).toBeLessThan(0.05)
    await quantized.close()
  })
})

describe('token masks', () => {
  /** Allows odd ids, then even ids, in turn. */
  const alternating = (accepted: number[] = []) => ({
    next: () => Uint32Array.from({ length: 9 }, () => (accepted.length % 2 === 0 ? 0xaaaaaaaa : 0x55555555)),
    accept: (tokenId: number) => void accepted.push(tokenId),
  })

  it('bind every choice, and logprobs are those among the allowed tokens', async () => {
    const rules = { ...RANDOM, n: 2, maxTokens: 6, topLogprobs: 300 }
    const masked = await generate(engine, promptOf(10), { ...rules, tokenMask: () => alternating() })
    for (const choice of [0, 1]) expect(masked.ids(choice).map((id) => id % 2)).toEqual([1, 0, 1, 0, 1, 0])
    const [first] = masked.events
    const open = (await generate(engine, promptOf(10), { ...rules, maxTokens: 1 })).events[0]
    const odd = (open?.top ?? []).filter(({ id }) => id % 2 === 1)
    const mass = odd.reduce((sum, { logprob }) => sum + Math.exp(logprob), 0)
    const own = odd.find(({ id }) => id === first?.tokenId)
    expect(first?.logprob).toBeCloseTo((own?.logprob ?? 0) - Math.log(mass), 4)
  })

  it('hold under penalties and bias too', async () => {
    const rules = { ...GREEDY, repetitionPenalty: 1.5, logitBias: { '2': 100 }, maxTokens: 4 }
    const { events } = await generate(engine, promptOf(10), { ...rules, tokenMask: () => alternating() })
    expect(events.map(({ tokenId }) => tokenId % 2)).toEqual([1, 0, 1, 0])
  })

  it('fail their own request when they allow nothing or break', async () => {
    const nothing = { next: () => new Uint32Array(9), accept: () => undefined }
    const broken = {
      next: () => {
        throw new Error('grammar is gone')
      },
      accept: () => undefined,
    }
    const [empty, failed, good] = await Promise.all([
      generate(engine, promptOf(5), { ...GREEDY, tokenMask: () => nothing }),
      generate(engine, promptOf(5), { ...GREEDY, tokenMask: () => broken }),
      generate(engine, promptOf(5), GREEDY),
    ])
    expect(empty.error).toMatchObject({ code: 'empty_token_mask' })
    expect(failed.error).toMatchObject({ code: 'token_mask_failed' })
    expect(good.ids()).toHaveLength(8)
  })

  /** A mask that is late at these tokens, until the gate opens. */
  function lateMask(at: readonly number[], gate: Promise<void>) {
    const accepted: number[] = []
    const mask = alternating(accepted)
    let isOpen = false
    void gate.then(() => {
      isOpen = true
    })
    return { ...mask, ready: () => (!isOpen && at.includes(accepted.length) ? gate : null) }
  }

  it.each([[[0]], [[3]], [[0, 3, 5]]])('that are late (at %j) hold up their own choices only', async (at) => {
    const own = await engineFor(prepared)
    const rules = { ...RANDOM, n: 2, maxTokens: 6 }
    const inTime = await generate(own, promptOf(10), { ...rules, tokenMask: () => alternating() })
    const { promise: gate, resolve: open } = createDeferred<void>()
    const seen: number[] = []
    let isDone = false
    const late = generate(
      own,
      promptOf(10),
      { ...rules, tokenMask: () => lateMask(at, gate) },
      { onToken: ({ tokenId }) => seen.push(tokenId) > 0 },
    ).then((outcome) => {
      isDone = true
      return outcome
    })
    const others = await Promise.all([7, 8, 9].map((seed) => generate(own, promptOf(seed), GREEDY)))
    for (const other of others) expect(other.ids()).toHaveLength(8)
    expect(isDone).toBe(false)
    expect(seen.length).toBeLessThanOrEqual(2 * (at[0] ?? 0))
    open()
    const outcome = await late
    for (const choice of [0, 1]) expect(outcome.ids(choice)).toEqual(inTime.ids(choice))
    expect(maxDifference(outcome.logprobs(), inTime.logprobs())).toBeLessThan(1e-4)
    await own.close()
  })

  it('that never come do not keep the engine from closing, or their request from being aborted', async () => {
    const own = await engineFor(prepared)
    const never = new Promise<void>(() => undefined)
    const stuck = (id: string) =>
      generate(own, promptOf(10), { ...GREEDY, tokenMask: () => lateMask([2], never) }, { id })
    const [first, second] = [stuck('first'), stuck('second')]
    await generate(own, promptOf(5), { ...GREEDY, maxTokens: 30 })
    own.abort('first')
    expect((await first).abortedChoices).toEqual([0])
    await own.close()
    expect((await second).error).toMatchObject({ code: 'shutting_down' })
  })
})

describe('adapters', () => {
  it('are mixed in one batch, each request with its own', async () => {
    const adapters = [adapterOf(1, 4), null, adapterOf(2, 2), adapterOf(1, 4)]
    const rules = { ...RANDOM, maxTokens: 10 }
    const run = (i: number) => generate(engine, promptOf(12, i), rules, { adapter: adapters[i] ?? null })
    const together = await Promise.all(adapters.map((_, i) => run(i)))
    for (const [i, outcome] of together.entries()) {
      const alone = await run(i)
      expect(outcome.error).toBeNull()
      expect(outcome.ids(), `request ${i}`).toEqual(alone.ids())
      expect(maxDifference(outcome.logprobs(), alone.logprobs())).toBeLessThan(1e-4)
    }
    const base = await generate(engine, promptOf(12, 0), rules)
    expect(maxDifference(base.logprobs(), together[0]?.logprobs() ?? [])).toBeGreaterThan(0.01)
  })

  it('are loaded once, and again after they are forgotten', async () => {
    const source = adapterOf(3, 2)
    let loads = 0
    const load = (): Promise<AdapterWeights> => {
      loads++
      return source.load()
    }
    const counted = { digest: source.digest, load }
    await Promise.all([1, 2].map((i) => generate(engine, promptOf(5, i), GREEDY, { adapter: counted })))
    await generate(engine, promptOf(5), GREEDY, { adapter: counted })
    expect(loads).toBe(1)
    engine.forgetAdapter(counted.digest)
    await generate(engine, promptOf(5), GREEDY, { adapter: counted })
    expect(loads).toBe(2)
  })

  it('that cannot be loaded fail their request only', async () => {
    const broken = { digest: 'broken', load: () => Promise.reject(new AppError('internal', 'gone', 'file is gone')) }
    const [bad, good] = await Promise.all([
      generate(engine, promptOf(5), GREEDY, { adapter: broken }),
      generate(engine, promptOf(5), GREEDY),
    ])
    expect(bad.error).toMatchObject({ code: 'gone' })
    expect(good.ids()).toHaveLength(8)
  })

  it('work on quantized weights beside base requests', async () => {
    const quantized = await engineFor(prepared, { precision: 'int8' })
    const base = await generate(quantized, promptOf(10), GREEDY)
    const both = await Promise.all([
      generate(quantized, promptOf(10), GREEDY),
      generate(quantized, promptOf(10), GREEDY, { adapter: adapterOf(5, 4) }),
    ])
    expect(both[0].ids()).toEqual(base.ids())
    expect(maxDifference(both[1].logprobs(), base.logprobs())).toBeGreaterThan(0.001)
    await quantized.close()
  })
})

describe('prefix cache', () => {
  it('reuses full blocks of a prompt and of the answer, with the same logits', async () => {
    const cached = await engineFor(prepared)
    const prompt = promptOf(50, 3)
    const first = await generate(cached, prompt, { ...GREEDY, maxTokens: 20 })
    const again = await generate(cached, prompt, { ...GREEDY, maxTokens: 20 })
    expect(first.cachedTokens).toBe(0)
    expect(again.cachedTokens).toBe(48)
    expect(again.ids()).toEqual(first.ids())
    expect(maxDifference(again.logprobs(), first.logprobs())).toBeLessThan(1e-4)
    const conversation = [...prompt, ...first.ids(), 1, 2, 3]
    const next = await generate(cached, conversation)
    expect(next.cachedTokens).toBe(64)
    expect(next.ids()).toEqual((await generate(engine, conversation)).ids())
    await cached.close()
  })

  it('always computes the last prompt token', async () => {
    const cached = await engineFor(prepared)
    await generate(cached, promptOf(33))
    expect((await generate(cached, promptOf(32))).cachedTokens).toBe(16)
    await cached.close()
  })

  it('does not cross adapters or salts', async () => {
    const cached = await engineFor(prepared)
    const prompt = promptOf(40)
    await generate(cached, prompt, GREEDY, { adapter: adapterOf(1, 4), cacheSalt: 'a' })
    for (const extra of [{}, { cacheSalt: 'a' }, { adapter: adapterOf(2, 4), cacheSalt: 'a' }]) {
      const outcome = await generate(cached, prompt, GREEDY, extra)
      expect(outcome.cachedTokens).toBe(0)
    }
    expect((await generate(cached, prompt, GREEDY, { adapter: adapterOf(1, 4), cacheSalt: 'a' })).cachedTokens).toBe(32)
    await cached.close()
  })
})

describe('scheduling', () => {
  it('frees everything when a request is aborted, in whatever state it is', async () => {
    const small = await engineFor(prepared, { maxConcurrentSequences: 1 })
    const order: string[] = []
    const running = generate(
      small,
      promptOf(5),
      { ...GREEDY, maxTokens: 2000 },
      {
        id: 'running',
        onToken: () => {
          if (order.push('token') === 3) {
            small.abort('waiting')
            small.abort('running')
          }
          return true
        },
      },
    )
    const waiting = generate(small, promptOf(5), GREEDY, { id: 'waiting' })
    const last = generate(small, promptOf(5), GREEDY, { id: 'last' })
    small.abort('unknown')
    expect((await running).abortedChoices).toEqual([0])
    expect((await running).ids()).toHaveLength(3)
    expect((await waiting).abortedChoices).toEqual([0])
    expect((await waiting).events).toEqual([])
    expect((await last).ids()).toHaveLength(8)
    await small.idle()
    expect(small.runningSequences).toBe(0)
    expect(small.waitingRequests).toBe(0)
    await small.close()
  })

  it('does not stall running streams while a long prompt is computed', async () => {
    const sharing = await engineFor(prepared, { prefillChunk: { alone: 500, sharing: 10 } })
    let tokensBefore = 0
    const stream = generate(
      sharing,
      promptOf(5),
      { ...GREEDY, maxTokens: 60 },
      {
        onToken: () => {
          tokensBefore++
          return true
        },
      },
    )
    let atStart = 0
    const long = await generate(sharing, promptOf(300, 1), GREEDY, {
      onToken: () => {
        atStart ||= tokensBefore
        return true
      },
    })
    expect(long.ids()).toHaveLength(8)
    expect(atStart).toBeGreaterThan(20)
    await stream
    await sharing.close()
  })

  it('serves requests in order of arrival', async () => {
    const small = await engineFor(prepared, { maxConcurrentSequences: 1 })
    const finished: number[] = []
    await Promise.all([0, 1, 2, 3].map((i) => generate(small, promptOf(4, i)).then(() => finished.push(i))))
    expect(finished).toEqual([0, 1, 2, 3])
    await small.close()
  })

  it('refuses what exceeds the queue and takes requests again later', async () => {
    const small = await engineFor(prepared, { maxConcurrentSequences: 1, maxWaiting: 2 })
    const taken = [0, 1].map((i) => generate(small, promptOf(4, i)))
    await expect(generate(small, promptOf(4))).rejects.toMatchObject({ category: 'rate_limited', code: 'queue_full' })
    await Promise.all(taken)
    expect((await generate(small, promptOf(4))).ids()).toHaveLength(8)
    await small.close()
  })

  it('fails what is in flight when it closes, and refuses more', async () => {
    const closing = await engineFor(prepared)
    const running = generate(closing, promptOf(5), { ...GREEDY, maxTokens: 1000 })
    await closing.close()
    expect((await running).error).toMatchObject({ category: 'unavailable' })
    await expect(generate(closing, promptOf(5))).rejects.toMatchObject({ code: 'shutting_down' })
  })
})

describe('admission', () => {
  it('refuses a prompt and answer beyond the context with the text clients match on', async () => {
    const small = await engineFor(prepared, { maxContextLength: 40 })
    await expect(generate(small, promptOf(35), GREEDY)).rejects.toMatchObject({
      code: 'context_length_exceeded',
      param: 'input_tokens',
      message:
        "This model's maximum context length is 40 tokens. However, you requested 8 output tokens and your prompt " +
        'contains at least 35 input tokens, for a total of at least 43 tokens. Please reduce the length of the input ' +
        'prompt or the number of requested output tokens. (parameter=input_tokens, value=35)',
    })
    await expect(generate(small, promptOf(40), { ...GREEDY, maxTokens: null })).rejects.toThrow(
      'max_tokens must be at least 1, got 0.',
    )
    expect((await generate(small, promptOf(32), GREEDY)).ids()).toHaveLength(8)
    await small.close()
  })

  it.each([
    ['stop_token_ids', { stopTokenIds: [5, 259] }],
    ['logit_bias', { logitBias: { '-1': 1 } }],
    ['allowed_token_ids', { allowedTokenIds: [] }],
    ['allowed_token_ids', { allowedTokenIds: [1.5] }],
  ] as const)('refuses ids outside the vocabulary in %s', async (param, rules) => {
    await expect(generate(engine, promptOf(4), { ...GREEDY, ...rules })).rejects.toMatchObject({
      category: 'invalid_request',
      param,
    })
  })
})
