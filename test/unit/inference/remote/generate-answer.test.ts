/** How tokens were drawn, as nodes tell it: our own engine its record, vLLM what it cannot be told of. */
import { describe, expect, it } from 'vitest'
import type { GenerationRules, TokenEvent } from '#inference/engine/generation.js'
import { toTokenEvents } from '#inference/remote/generate-answer.js'
import { GREEDY, RANDOM } from '../../../support/generation-rules.js'

const choice = {
  index: 0,
  token_ids: [7],
  logprobs: { content: [{ token_id: 7, logprob: -0.5, top_logprobs: [] }] },
  finish_reason: null,
}

function drawnBy(
  engine: 'onnx' | 'vllm',
  rules: Partial<GenerationRules>,
  { isHeld = false, drawn }: { readonly isHeld?: boolean; readonly drawn?: object } = {},
): TokenEvent['drawn'] {
  const content = choice.logprobs.content.map((position) => ({
    ...position,
    ...(drawn === undefined ? {} : { drawn }),
  }))
  const options = { engine, rules: { ...RANDOM, recordsDraws: true, ...rules }, isHeld, eosTokenIds: new Set<number>() }
  return toTokenEvents({ ...choice, logprobs: { content } } as never, options)[0]?.drawn
}

describe('vLLM', () => {
  it('draws plainly where nothing else is asked', () => {
    expect(drawnBy('vllm', {})).toBeUndefined()
    expect(drawnBy('vllm', { temperature: 0.5, recordsDraws: false })).toBeUndefined()
  })

  it('is certain where it is greedy, whatever the rules', () => {
    const certain = { logprob: 0, keptIds: [7], unmodelled: [] }
    expect(drawnBy('vllm', { ...GREEDY, frequencyPenalty: 1 }, { isHeld: true })).toEqual(certain)
  })

  it.each<[Partial<GenerationRules>, string]>([
    [{ topK: 5 }, 'top_k'],
    [{ topP: 0.5 }, 'top_p'],
    [{ minP: 0.5 }, 'min_p'],
    [{ repetitionPenalty: 2 }, 'repetition_penalty'],
    [{ frequencyPenalty: 1 }, 'frequency_penalty'],
    [{ presencePenalty: 1 }, 'presence_penalty'],
    [{ logitBias: { 1: 2 } }, 'logit_bias'],
    [{ allowedTokenIds: [7] }, 'allowed_token_ids'],
    [{ badWords: [[1]] }, 'bad_words'],
    [{ minTokens: 3 }, 'min_tokens'],
  ])('is named for what it does not tell: %j', (rules, name) => {
    expect(drawnBy('vllm', rules)).toEqual({ logprob: -0.5, keptIds: null, unmodelled: [name] })
  })

  it('tells raw log-probabilities alone: at a temperature they are nobody’s, and it is no rule that cannot be followed', () => {
    expect(drawnBy('vllm', { temperature: 0.5 })).toEqual({ logprob: null, keptIds: null, unmodelled: [] })
    const cut = drawnBy('vllm', { temperature: 0.5, topP: 0.9 })
    expect(cut).toEqual({ logprob: null, keptIds: null, unmodelled: ['top_p'] })
  })

  it('is named for a grammar', () => {
    expect(drawnBy('vllm', {}, { isHeld: true })?.unmodelled).toEqual(['structured_outputs'])
  })
})

it('our own engine tells it itself', () => {
  expect(drawnBy('onnx', { temperature: 0.5 })).toBeUndefined()
  const drawn = { logprob: -0.25, kept_ids: [7, 9], unmodelled: ['logit_bias'] }
  expect(drawnBy('onnx', {}, { drawn })).toEqual({ logprob: -0.25, keptIds: [7, 9], unmodelled: ['logit_bias'] })
  expect(drawnBy('onnx', {}, { drawn: { logprob: -0.25 } })).toEqual({ logprob: -0.25, keptIds: null, unmodelled: [] })
})
