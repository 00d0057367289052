/** Requests as bodies for engine nodes: our own engine reads the same request again, vLLM is told it in its own words. */
import { describe, expect, it } from 'vitest'
import type { GenerationRequest, GenerationRules, RuleWords } from '#inference/engine/generation.js'
import { toGenerateBody } from '#inference/remote/generate-body.js'
import { readGenerateBody, toEngineRequest } from '#plugins/engine-nodes/node/generate-request.js'
import { GREEDY } from '../../../support/generation-rules.js'

const OPTIONS = { contextLength: 512, eosTokenIds: [2] }
const WORDS: RuleWords = { grammar: null, isAfterReasoning: false, badWords: [] }

function request(rules: Partial<GenerationRules> = {}, more: Partial<GenerationRequest> = {}): GenerationRequest {
  const all = { ...GREEDY, ...rules }
  return { id: 'r', promptTokenIds: [1, 2, 3], rules: all, adapter: null, cacheSalt: null, words: WORDS, ...more }
}

describe('a body for our own engine', () => {
  it('is read as the request that it was written from', () => {
    const rules: GenerationRules = {
      ...GREEDY,
      temperature: 0.1 + 0.2,
      topP: 0.95,
      seed: -9_007_199_254_740_993n,
      n: 3,
      logitBias: { 5: 1e-7, 7: Number.NEGATIVE_INFINITY },
      allowedTokenIds: [1, 2],
      stopTokenIds: [9],
      ignoreEos: false,
      logprobTokenIds: [4],
      promptLogprobs: 2,
      badWords: [[1, 2], [3]],
      repetition: { minPatternSize: 1, maxPatternSize: 4, minCount: 3 },
      dry: { multiplier: 1, base: 1.75, allowedLength: 2, lastTokens: -1, breakerIds: new Set([8]) },
      xtc: { probability: 0.5, threshold: 0.1 },
      beam: { lengthPenalty: 1 },
      recordsDraws: true,
    }
    const grammar = { kind: 'regex', pattern: 'a+' } as const
    const words = { ...WORDS, grammar, isAfterReasoning: true }
    const asked = request(rules, { words, cacheSalt: '@seed@', priority: 3, keyId: 'k' })
    const read = readGenerateBody(toGenerateBody(asked, 'onnx', OPTIONS))
    const back = toEngineRequest(read, null, null)
    expect(back.rules).toEqual(rules)
    expect(read.grammar).toEqual(grammar)
    expect(read.own.grammar_after_reasoning).toBe(true)
    expect(back).toMatchObject({ promptTokenIds: [1, 2, 3], cacheSalt: '@seed@', priority: 3, keyId: 'k' })
  })

  it('is refused with the field where it is wrong, and where it is vLLM’s', () => {
    expect(() => readGenerateBody('{')).toThrow('the body is not JSON')
    const body = JSON.parse(toGenerateBody(request(), 'onnx', OPTIONS)) as { sampling_params: object }
    const wrong = { ...body, token_ids: [-1] }
    expect(() => readGenerateBody(JSON.stringify(wrong))).toThrow('token_ids.0')
    const foreign = { ...body, sampling_params: { ...body.sampling_params, structured_outputs: { regex: 'a' } } }
    expect(() => readGenerateBody(JSON.stringify(foreign))).toThrow("structured_outputs is vLLM's")
  })
})

describe('a body for vLLM', () => {
  const params = (rules: Partial<GenerationRules>, more: Partial<GenerationRequest> = {}) =>
    (JSON.parse(toGenerateBody(request(rules, more), 'vllm', OPTIONS)) as { sampling_params: Record<string, unknown> })
      .sampling_params

  it('says which tokens end an answer, and how long it may be', () => {
    expect(params({ ignoreEos: false, stopTokenIds: [9], maxTokens: null })).toMatchObject({
      ignore_eos: true,
      stop_token_ids: [2, 9],
      max_tokens: 509,
      detokenize: false,
    })
    expect(params({ ignoreEos: true })['stop_token_ids']).toEqual([])
  })

  it('has every digit of a seed, and nothing of the request’s own is taken for it', () => {
    const text = toGenerateBody(
      request({ seed: 2n ** 63n - 1n, temperature: 1 }, { cacheSalt: '@seed@' }),
      'vllm',
      OPTIONS,
    )
    expect(text).toContain('"seed":9223372036854775807,')
    expect(text).toContain('"cache_salt":"@seed@"')
  })

  it('asks for one more than it needs, for the sampled token takes a place', () => {
    expect(params({ topLogprobs: 0 })['logprobs']).toBe(0)
    expect(params({ hasLogprobs: false })).not.toHaveProperty('logprobs')
    expect(params({ topLogprobs: 3 })['logprobs']).toBe(4)
    expect(params({ logprobTokenIds: [0, 5] })).toMatchObject({ logprobs: 3, logprob_token_ids: [0, 5, 1] })
  })

  it('has grammars and words in vLLM’s words', () => {
    const words = (grammar: RuleWords['grammar']): Partial<GenerationRequest> => ({ words: { ...WORDS, grammar } })
    const schema = { kind: 'json_schema', schema: '{}', isWhitespaceFree: true } as const
    expect(params({}, words(schema))['structured_outputs']).toEqual({ json: '{}', disable_any_whitespace: true })
    const choice = { kind: 'choice', choices: ['a'] } as const
    expect(params({}, words(choice))['structured_outputs']).toEqual({ choice: ['a'] })
    expect(params({}, { words: { ...WORDS, badWords: ['x'] } })).toMatchObject({ bad_words: ['x'] })
  })

  it.each<[string, Partial<GenerationRules>, Partial<GenerationRequest>]>([
    [
      'dry_multiplier',
      { dry: { multiplier: 1, base: 2, allowedLength: 2, lastTokens: -1, breakerIds: new Set() } },
      {},
    ],
    ['xtc_probability', { xtc: { probability: 1, threshold: 0.1 } }, {}],
    ['use_beam_search', { beam: { lengthPenalty: 1 } }, {}],
    ['logit_bias', { logitBias: { 5: Number.NEGATIVE_INFINITY } }, {}],
    ['logprob_token_ids', { topLogprobs: 1, logprobTokenIds: [1] }, {}],
    ['response_format', {}, { words: { grammar: { kind: 'regex' }, isAfterReasoning: true, badWords: [] } }],
  ])('refuses %s by name', (param, rules, more) => {
    expect(() => params(rules, more)).toThrow(expect.objectContaining({ code: 'unsupported_by_engine', param }))
  })

  it('refuses strict tools whose mark counts at the beginning only: they would be held to it everywhere', () => {
    const trigger = { texts: ['{"name"'], isAtBeginning: true, isAfterReasoning: false }
    const words = { ...WORDS, grammar: { kind: 'structural_tag', tag: '{}', trigger } }
    const refused = expect.objectContaining({ code: 'unsupported_by_engine', param: 'tools' })
    expect(() => params({}, { words })).toThrow(refused)
  })

  it('sends calls that are held from their mark on behind reasoning too, which they leave alone', () => {
    const trigger = { texts: ['<tool_call>'], isAtBeginning: false, isAfterReasoning: true }
    const grammar = { kind: 'structural_tag', tag: '{}', trigger }
    const words = { grammar, isAfterReasoning: true, badWords: [] }
    expect(params({}, { words })).toMatchObject({ structured_outputs: { structural_tag: '{}' } })
  })
})
