/**
 * What is told of a draw, against the distribution itself: float64, made from the same row of float32 by the rules as they are written, with
 * nothing of the sampler's: equal to 1e-9, and to 2e-6 where the sampler draws from a step's float32 probabilities.
 */
import { describe, expect, it } from 'vitest'
import { createRng } from '#base/util/rng.js'
import type { GenerationRules } from '#inference/engine/generation.js'
import type { LogitsRow } from '#inference/engine/logits-row.js'
import { Choice } from '#inference/engine/sampling/choice.js'
import type { DrawRecord } from '#inference/engine/sampling/draw-record.js'
import { RANDOM } from '../../../../support/generation-rules.js'

const NONE = Number.NEGATIVE_INFINITY
const EOS = 3

/** A row of a model: `spread` is how far logits lie apart. */
function makeRow(vocabulary: number, spread: number, seed: number): Float32Array {
  const rng = createRng(BigInt(seed))
  return Float32Array.from({ length: vocabulary }, () => (rng.uniform() + rng.uniform() + rng.uniform() - 1.5) * spread)
}

function logSoftmax(scores: readonly number[], inverse = 1): number[] {
  const top = Math.max(...scores)
  const total = scores.reduce((sum, score) => sum + Math.exp((score - top) * inverse), 0)
  return scores.map((score) => (score - top) * inverse - Math.log(total))
}

interface Drawn {
  readonly tokenId: number
  readonly reported: number
  readonly record: DrawRecord | undefined
}

interface Asked {
  readonly rules?: Partial<GenerationRules>
  readonly mask?: readonly number[]
  readonly written?: readonly number[]
  /** The step was asked for probabilities too. */
  readonly hasProbabilities?: boolean
}

function drawFrom(logits: Float32Array, { rules = {}, mask, written = [], hasProbabilities = false }: Asked): Drawn {
  const bits = new Uint32Array(Math.ceil(logits.length / 32))
  for (const id of mask ?? []) bits[id >>> 5] = (bits[id >>> 5] ?? 0) | (1 << (id & 31))
  const choice = new Choice(0, {
    rules: {
      ...RANDOM,
      recordsDraws: true,
      ...rules,
      ...(mask === undefined ? {} : { tokenMask: () => ({ next: () => bits, accept: () => undefined }) }),
    },
    stopRules: {
      eosTokenIds: new Set([EOS]),
      stopTokenIds: new Set(),
      ignoreEos: false,
      minTokens: 0,
      maxTokens: 1000,
    },
    promptIds: [1, 2],
    isSpeculative: false,
  })
  choice.outputIds.push(...written)
  const raw = logSoftmax([...logits])
  const atTemperature = logSoftmax([...logits], choice.inverseTemperature)
  const row: LogitsRow = {
    logits,
    logprobs: Float32Array.from(raw),
    probabilities: hasProbabilities ? Float32Array.from(atTemperature, Math.exp) : null,
  }
  const event = choice.next(row)
  if (event === null || !('tokenId' in event)) throw new Error('a token was expected', { cause: event })
  return { tokenId: event.tokenId, reported: event.logprob, record: event.drawn }
}

/** The tokens that can be drawn, by what vLLM documents of min_p, top_k and top_p, applied in this order at the temperature. */
function keptBy(scores: readonly number[], rules: Partial<GenerationRules>): number[] {
  const probabilities = logSoftmax(scores, 1 / (rules.temperature ?? 1)).map(Math.exp)
  const ids = scores.flatMap((score, id) => (score === NONE ? [] : [id]))
  const likeliest = Math.max(...ids.map((id) => probabilities[id] as number))
  const p = (id: number): number => probabilities[id] as number
  let kept = ids.filter((id) => p(id) >= (rules.minP ?? 0) * likeliest)
  if ((rules.topK ?? 0) > 0) {
    const border = kept.map((id) => scores[id] as number).sort((a, b) => b - a)[(rules.topK ?? 0) - 1] ?? NONE
    kept = kept.filter((id) => (scores[id] as number) >= border)
  }
  if ((rules.topP ?? 1) < 1) {
    const mass = kept.reduce((sum, id) => sum + p(id), 0)
    let above = 0
    kept = kept
      .sort((a, b) => p(b) - p(a))
      .filter((id) => {
        const isInside = above < (rules.topP ?? 1) * mass
        above += p(id)
        return isInside
      })
  }
  return kept
}

const seeds = Array.from({ length: 40 }, (_, i) => i)

describe('a token drawn plainly', () => {
  it.each<[string, Asked]>([
    ['by nothing but the model', {}],
    ['from probabilities', { hasProbabilities: true }],
    ['under a mask of everything', { mask: Array.from({ length: 100 }, (_, i) => i) }],
    ['behind the least length', { rules: { minTokens: 1 }, written: [5] }],
    ['where no bad word has begun', { rules: { badWords: [[7, 8]] } }],
    ['with penalties before there is anything to penalize', { rules: { frequencyPenalty: 1 } }],
    ['truncated where nothing is left out', { rules: { topK: 100, topP: 0.999999999, minP: 1e-9 } }],
  ])('has no record: %s', (_, asked) => {
    for (const seed of seeds) {
      const { record } = drawFrom(makeRow(100, 3, seed), { ...asked, rules: { seed: BigInt(seed), ...asked.rules } })
      expect(record).toBeUndefined()
    }
  })

  it('has none where nobody asks', () => {
    expect(drawFrom(makeRow(100, 3, 1), { rules: { temperature: 0.5, recordsDraws: false } }).record).toBeUndefined()
  })
})

describe('log q and the kept set are those of the distribution', () => {
  const rules: readonly Partial<GenerationRules>[] = [
    { temperature: 0.3 },
    { temperature: 2 },
    { topK: 5 },
    { topK: 1 },
    { topP: 0.8 },
    { minP: 0.2 },
    { temperature: 0.5, topP: 0.8 },
    { temperature: 2, topK: 17, topP: 0.95, minP: 0.01 },
    { temperature: 1.7, allowedTokenIds: [4, 8, 15, 16, 23, 42] },
    { allowedTokenIds: [4, 8, 15, 16, 23, 42], topP: 0.7 },
  ]

  it.each(rules.map((each) => [JSON.stringify(each), each] as const))('%s', (_, each) => {
    for (const hasProbabilities of [false, true]) {
      for (const seed of seeds) {
        const logits = makeRow(300, 4, seed)
        const { tokenId, record } = drawFrom(logits, { rules: { ...each, seed: BigInt(seed) }, hasProbabilities })
        const raw = Float32Array.from(logSoftmax([...logits]))
        const allowed = each.allowedTokenIds ?? null
        const scores = Array.from(raw, (score, id) => (allowed === null || allowed.includes(id) ? score : NONE))
        const kept = keptBy(scores, each)
        const isCut = kept.length < 300
        expect(record?.unmodelled).toEqual([])
        expect(record?.keptIds?.toSorted((a, b) => a - b) ?? null).toEqual(isCut ? kept.sort((a, b) => a - b) : null)
        const q = logSoftmax(
          kept.map((id) => scores[id] as number),
          1 / (each.temperature ?? 1),
        )
        const tolerance = hasProbabilities && !isCut ? 2e-6 : 1e-9
        expect(Math.abs((record?.logprob ?? 1) - (q[kept.indexOf(tokenId)] as number))).toBeLessThan(tolerance)
      }
    }
  })

  it.each([0.5, 1, 2])('of a grammar that leaves few tokens, at temperature %f', (temperature) => {
    const mask = [2, 3, 5, 7, 11, 130, 131, 132, 299]
    for (const hasProbabilities of [false, true]) {
      for (const seed of seeds) {
        const logits = makeRow(300, 4, seed)
        const rules = { temperature, seed: BigInt(seed) }
        const { tokenId, record } = drawFrom(logits, { rules, mask, hasProbabilities })
        const q = logSoftmax(
          mask.map((id) => logits[id] as number),
          1 / temperature,
        )
        expect(record).toMatchObject({ keptIds: mask, unmodelled: [] })
        // scores are a row of float32 log-probabilities here, whose last bits are 2e-7 of a nat
        expect(Math.abs((record?.logprob ?? 1) - (q[mask.indexOf(tokenId)] as number))).toBeLessThan(5e-6)
      }
    }
  })

  it('of a set that XTC left: without what passes the threshold, but for the least likely of it', () => {
    const logits = Float32Array.from([0.4, 0.25, 0.2, 0.1, 0.05], Math.log)
    for (const seed of seeds) {
      const rules = { xtc: { probability: 1, threshold: 0.19 }, seed: BigInt(seed) }
      const { tokenId, record } = drawFrom(logits, { rules })
      expect(record).toMatchObject({ keptIds: [2, 3, 4], unmodelled: [] })
      expect(record?.logprob).toBeCloseTo(Math.log([0, 0, 0.2, 0.1, 0.05][tokenId] as number) - Math.log(0.35), 6)
    }
  })

  it('of the most likely token: it is certain', () => {
    for (const rules of [{ temperature: 0 }, { temperature: 0, topP: 0.5, frequencyPenalty: 1 }]) {
      const { tokenId, record } = drawFrom(makeRow(300, 4, 1), { rules, written: [9] })
      expect(record).toEqual({ logprob: 0, keptIds: [tokenId], unmodelled: [] })
    }
  })
})

describe('sets of more than 512 tokens', () => {
  it('are not recorded, and what made them is named', () => {
    const flat = makeRow(2000, 0.1, 1)
    const named = (rules: Partial<GenerationRules>, mask?: readonly number[]): unknown => {
      const { record } = drawFrom(flat, { rules, ...(mask === undefined ? {} : { mask }) })
      expect(record?.keptIds).toBeNull()
      return record?.unmodelled
    }
    expect(named({ topP: 0.9 })).toEqual(['top_p'])
    expect(named({ topK: 513 })).toEqual(['top_k'])
    expect(named({ topK: 600, topP: 0.99, minP: 0.01 })).toEqual(['top_k', 'top_p', 'min_p'])
    const most = Array.from({ length: 1500 }, (_, i) => i)
    expect(named({ topP: 0.9 }, most)).toEqual(['top_p'])
    // the least likely token is 0.05% here, and stays
    expect(drawFrom(flat, { rules: { topK: 512 } }).record).toMatchObject({ unmodelled: [] })
  })

  it.each([0.5, 1, 2])('of a grammar: the whole vocabulary stands in, at temperature %f', (temperature) => {
    const mask = Array.from({ length: 1000 }, (_, i) => 2 * i)
    for (const hasProbabilities of [false, true]) {
      for (const seed of seeds) {
        const logits = makeRow(2000, 4, seed)
        const drawn = drawFrom(logits, { rules: { temperature, seed: BigInt(seed) }, mask, hasProbabilities })
        const whole = logSoftmax([...logits], 1 / temperature)
        expect(drawn.record).toMatchObject({ keptIds: null, unmodelled: [] })
        expect(Math.abs((drawn.record?.logprob ?? 1) - (whole[drawn.tokenId] as number))).toBeLessThan(5e-6)
      }
    }
  })
})

describe('what changes scores otherwise is named', () => {
  const wide = makeRow(2000, 4, 5)
  it.each<[Partial<GenerationRules>, readonly string[]]>([
    [{ repetitionPenalty: 1.3 }, ['repetition_penalty']],
    [{ frequencyPenalty: 0.5 }, ['frequency_penalty']],
    [{ presencePenalty: 0.5, frequencyPenalty: -0.5 }, ['frequency_penalty', 'presence_penalty']],
    [{ logitBias: { '7': 2 } }, ['logit_bias']],
    [{ dry: { multiplier: 1, base: 2, allowedLength: 1, lastTokens: -1, breakerIds: new Set() } }, ['dry_multiplier']],
    [{ logitBias: { '7': 2 }, topK: 9 }, ['logit_bias']],
    [{ frequencyPenalty: 0.5, temperature: 0.7 }, ['frequency_penalty']],
  ])('%j', (rules, names) => {
    const { record } = drawFrom(wide, { rules, written: [9, 9] })
    expect(record?.unmodelled).toEqual(names)
  })

  it('bans are beside what else leaves more than 512', () => {
    const likely = wide.slice()
    likely[EOS] = 3
    const named = (rules: Partial<GenerationRules>) => drawFrom(likely, { rules, written: [9] }).record?.unmodelled
    expect(named({ topK: 600, minTokens: 5 })).toEqual(['top_k', 'min_tokens'])
    expect(named({ badWords: [[EOS]], frequencyPenalty: 0.5 })).toEqual(['frequency_penalty', 'bad_words'])
  })
})

describe('bans that leave more than 512 tokens', () => {
  const wide = makeRow(2000, 4, 5)
  const most = Array.from({ length: 1990 }, (_, i) => i)
  it.each<[string, Asked]>([
    ['a least length', { rules: { minTokens: 5 } }],
    ['a bad word', { rules: { badWords: [[EOS]] } }],
    ['a bias that forbids', { rules: { logitBias: { [EOS]: NONE } } }],
    ['allowed tokens', { rules: { allowedTokenIds: most.filter((id) => id !== EOS) } }],
    ['with a grammar', { rules: { minTokens: 5 }, mask: most }],
    ['with a truncation that leaves nothing out', { rules: { minTokens: 5, topK: 1999 } }],
  ])('name nothing, and the whole vocabulary stands in: %s', (_, { rules, ...asked }) => {
    const likely = wide.slice()
    likely[EOS] = 10
    for (const temperature of [0.5, 1, 2]) {
      for (const hasProbabilities of [false, true]) {
        for (const seed of seeds) {
          const drawn = { temperature, seed: BigInt(seed), ...rules }
          const { tokenId, record } = drawFrom(likely, { ...asked, rules: drawn, hasProbabilities })
          const whole = logSoftmax([...likely], 1 / temperature)
          expect(record).toMatchObject({ keptIds: null, unmodelled: [] })
          expect(Math.abs((record?.logprob ?? 1) - (whole[tokenId] as number))).toBeLessThan(5e-6)
        }
      }
    }
  })

  it('are none where they take no more than rounding does, and all is said where fewer are left', () => {
    const few = { rules: { minTokens: 5 } }
    const unlikely = wide.slice()
    unlikely[EOS] = -40
    expect(drawFrom(unlikely, few).record).toBeUndefined()
    expect(drawFrom(makeRow(300, 3, 1), few).record).toMatchObject({ unmodelled: [] })
    expect(drawFrom(makeRow(300, 3, 1), few).record?.keptIds).toHaveLength(299)
  })
})
