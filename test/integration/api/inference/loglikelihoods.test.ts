/**
 * `/v1/completions` scores continuations as transformers does on the same weights: what evaluation harnesses ask for.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { CompletionResponse } from '#contract/wire/inference/completions.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

interface Case {
  readonly context: string
  readonly continuation: string
  readonly token_ids: readonly number[]
  readonly context_tokens: number
  readonly token_logprobs: readonly (number | null)[]
  readonly top: readonly (readonly (readonly [number, number])[] | null)[]
  readonly loglikelihood: number
  readonly is_greedy: boolean
}

/** Float32 on both sides, other orders of addition. */
const TOLERANCE = 5e-4

let service: TestService
let cases: readonly Case[]
beforeAll(async () => {
  service = await createTestService({ scripted: false, trainWorkers: 0, baseModels: ['trainyard/spark'] })
  const path = join(import.meta.dirname, '../../../goldens/loglikelihoods.json')
  cases = JSON.parse(await readFile(path, 'utf8')).cases
})
afterAll(() => service.dispose())

it('tokenizes contexts and continuations as transformers does', async () => {
  for (const { context, continuation, token_ids: tokenIds } of cases) {
    const { body } = await service.json<{ tokens: number[] }>('/tokenize', {
      json: { prompt: context + continuation, add_special_tokens: false },
    })
    expect(body.tokens).toEqual(tokenIds)
  }
})

it.each([1, 0])(
  'gives every token its log-probability and the likeliest beside it, max_tokens %i',
  async (maxTokens) => {
    const { status, body } = await service.json<CompletionResponse>('/v1/completions', {
      json: {
        prompt: cases.map((each) => each.token_ids),
        echo: true,
        logprobs: 3,
        max_tokens: maxTokens,
        temperature: 0,
        return_tokens_as_token_ids: true,
      },
    })
    expect(status).toBe(200)
    for (const [index, expected] of cases.entries()) {
      const logprobs = body.choices[index]?.logprobs
      const length = expected.token_ids.length
      expect(logprobs?.tokens.slice(0, length)).toEqual(expected.token_ids.map((id) => `token_id:${id}`))
      expect(logprobs?.token_logprobs).toHaveLength(length + maxTokens)
      for (let i = 1; i < length; i++) {
        expect(Math.abs((logprobs?.token_logprobs[i] ?? 1) - (expected.token_logprobs[i] ?? 2))).toBeLessThan(TOLERANCE)
        for (const [id, logprob] of expected.top[i] ?? []) {
          expect(Math.abs((logprobs?.top_logprobs[i]?.[`token_id:${id}`] ?? 1) - logprob)).toBeLessThan(TOLERANCE)
        }
      }
      const from = expected.context_tokens
      const sum = logprobs?.token_logprobs.slice(from, length).reduce<number>((total, each) => total + (each ?? 0), 0)
      expect(Math.abs((sum ?? 1) - expected.loglikelihood)).toBeLessThan(4 * TOLERANCE)
    }
  },
)
