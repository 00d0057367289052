/** Steps of `train rl` follow the size of the model. */
import { describe, expect, it } from 'vitest'
import { defaultTokensPerStep } from '#cli/input/step-length.js'

describe('defaultTokensPerStep', () => {
  it.each([
    ['trainyard/spark', 384],
    ['HuggingFaceTB/SmolLM2-135M-Instruct', 1024],
    ['Qwen/Qwen3-0.6B', 1024],
    ['gemma-3-270m-it', 1024],
    ['meta-llama/Llama-3.2-1B-Instruct', null],
    ['Qwen/Qwen3-30B-A3B-Instruct-2507', null],
    ['my-model', null],
  ])('of %s are %s', (name, tokens) => {
    expect(defaultTokensPerStep(name)).toBe(tokens)
  })
})
