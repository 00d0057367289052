/** What a choice asks of a step, and that what it reads depends on its own rules only. */
import { describe, expect, it } from 'vitest'
import type { GenerationRules, TokenEvent } from '#inference/engine/generation.js'
import type { LogitsRow } from '#inference/engine/logits-row.js'
import { Choice } from '#inference/engine/sampling/choice.js'
import { RANDOM } from '../../../../support/generation-rules.js'

function choice(rules: Partial<GenerationRules> = {}): Choice {
  const stopRules = {
    eosTokenIds: new Set<number>(),
    stopTokenIds: new Set<number>(),
    ignoreEos: true,
    minTokens: 0,
    maxTokens: 8,
  }
  return new Choice(0, { rules: { ...RANDOM, ...rules }, stopRules, promptIds: [1], isSpeculative: false })
}

const PROBABILITIES = Float32Array.of(0.125, 0.5, 0.25, 0.125)

function next(given: Choice, row: Partial<LogitsRow>): TokenEvent {
  const event = given.next({ logits: null, logprobs: null, probabilities: null, ...row })
  if (event === null || !('tokenId' in event)) throw new Error('a token was expected')
  return event
}

describe('a choice at temperature 1', () => {
  it('asks for probabilities alone and tells the logarithm of the one that was drawn', () => {
    const plain = choice()
    expect(plain.fetch).toEqual(['probabilities'])
    const { tokenId, logprob } = next(plain, { probabilities: PROBABILITIES })
    expect(logprob).toBe(Math.log(PROBABILITIES[tokenId] as number))
  })

  it('tells the same where a neighbour needs log-probabilities too', () => {
    // other numbers than the logarithms, so that reading them would show
    const logprobs = PROBABILITIES.map((p) => Math.log(p) - 1)
    const alone = next(choice(), { probabilities: PROBABILITIES })
    const beside = next(choice(), { probabilities: PROBABILITIES, logprobs })
    expect(beside).toEqual(alone)
  })

  it('tells what the prompt gave for its first token', () => {
    const logprobs = PROBABILITIES.map((p) => Math.log(p))
    const { tokenId, logprob } = next(choice(), { logprobs })
    expect(logprob).toBe(logprobs[tokenId])
  })

  it('fails where the numbers are not finite', () => {
    const event = choice().next({ logits: null, logprobs: null, probabilities: PROBABILITIES.map(() => Number.NaN) })
    expect(event).toMatchObject({ code: 'non_finite_logits' })
  })
})

describe('other choices', () => {
  it.each([
    ['another temperature', { temperature: 0.7 }, ['logprobs', 'probabilities']],
    ['alternatives', { topLogprobs: 2 }, ['logprobs', 'probabilities']],
    ['chosen tokens', { logprobTokenIds: [3] }, ['logprobs', 'probabilities']],
    ['a truncated distribution', { topP: 0.9 }, ['logprobs']],
    ['the most likely token', { temperature: 0 }, ['logprobs']],
    ['a penalty', { repetitionPenalty: 1.1 }, ['logprobs', 'logits']],
  ] as const)('ask for log-probabilities: %s', (_, rules, fetch) => {
    expect(choice(rules).fetch).toEqual(fetch)
  })
})

describe('a choice with a mask that is free until a token comes', () => {
  const held = (): NonNullable<GenerationRules['tokenMask']> => () => {
    let isFree = true
    return {
      get isFree() {
        return isFree
      },
      next: () => (isFree ? null : Uint32Array.of(0b0001)),
      accept: (tokenId) => {
        isFree = isFree && tokenId !== 1
      },
    }
  }
  const sure = (id: number): LogitsRow => ({
    logits: null,
    logprobs: null,
    probabilities: Float32Array.from({ length: 4 }, (_, i) => (i === id ? 1 : 0)),
  })

  it('asks for what a choice without one asks for, until then', () => {
    const own = choice({ tokenMask: held() })
    expect(own.fetch).toEqual(['probabilities'])
    next(own, sure(2))
    expect(own.fetch).toEqual(['probabilities'])
    next(own, sure(1))
    expect(own.fetch).toEqual(['logprobs', 'probabilities'])
    const [half, none] = [Math.log(0.5), Number.NEGATIVE_INFINITY]
    const row = { logprobs: Float32Array.of(half, half, none, none), probabilities: Float32Array.of(0.5, 0.5, 0, 0) }
    expect(next(own, row)).toMatchObject({ tokenId: 0, logprob: 0 })
  })

  it('takes no guess behind that token: the step has no log-probabilities of it', () => {
    const own = choice({ tokenMask: held() })
    const events = own.nextAfter([2, 1, 3], (index) => sure([2, 1, 3, 3][index] ?? 0))
    expect(events).toMatchObject([{ tokenId: 2 }, { tokenId: 1 }])
    const free = choice()
    expect(free.nextAfter([2, 1, 3], (index) => sure([2, 1, 3, 3][index] ?? 0))).toHaveLength(4)
  })
})
