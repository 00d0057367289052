/**
 * What changes logits before sampling, and in which order.
 */
import { describe, expect, it } from 'vitest'
import { createProcessors, type ProcessorRules } from '#inference/engine/sampling/logits-processors.js'

const NEUTRAL: ProcessorRules = {
  repetitionPenalty: 1,
  frequencyPenalty: 0,
  presencePenalty: 0,
  logitBias: null,
  allowedTokenIds: null,
  minTokens: 0,
}

function run(
  rules: Partial<ProcessorRules>,
  logits: number[],
  outputs: number[][] = [[]],
  prompt: number[] = [],
): number[] {
  const processors = createProcessors({ ...NEUTRAL, ...rules }, prompt, [0])
  let row = Float32Array.from(logits)
  for (const outputIds of outputs) {
    row = Float32Array.from(logits)
    for (const processor of processors) processor.apply(row, outputIds)
  }
  return [...row]
}

describe('logits processors', () => {
  it('are none for neutral rules', () => {
    expect(createProcessors(NEUTRAL, [1], [0])).toEqual([])
  })

  it('forbid everything but the allowed ids', () => {
    expect(run({ allowedTokenIds: [2, 0] }, [1, 2, 3])).toEqual([1, Number.NEGATIVE_INFINITY, 3])
  })

  it('forbid the last token of a bad word where the others have just been written', () => {
    const badWords = [[1], [2, 0], [3, 3, 0], [9, 9]]
    const none = Number.NEGATIVE_INFINITY
    expect(run({ badWords }, [5, 5, 5], [[]])).toEqual([5, none, 5])
    expect(run({ badWords }, [5, 5, 5], [[2]])).toEqual([none, none, 5])
    expect(run({ badWords }, [5, 5, 5], [[2, 4]])).toEqual([5, none, 5])
    expect(run({ badWords }, [5, 5, 5], [[3, 3]])).toEqual([none, none, 5])
    // what the prompt says does not count
    expect(run({ badWords }, [5, 5, 5], [[]], [2])).toEqual([5, none, 5])
  })

  it('leave a forbidden token forbidden whatever its bias would be clamped to', () => {
    expect(run({ logitBias: { '0': Number.NEGATIVE_INFINITY } }, [1, 1])).toEqual([Number.NEGATIVE_INFINITY, 1])
  })

  it('forbid stop tokens until min_tokens are generated', () => {
    expect(run({ minTokens: 2 }, [5, 1], [[1]])).toEqual([Number.NEGATIVE_INFINITY, 1])
    expect(run({ minTokens: 2 }, [5, 1], [[1, 1]])).toEqual([5, 1])
  })

  it('add biases clamped to ±100', () => {
    expect(run({ logitBias: { '1': 5, '2': -1000 } }, [1, 1, 1])).toEqual([1, 6, -99])
  })

  it('penalise repetition of prompt and output by the sign of the logit', () => {
    expect(run({ repetitionPenalty: 2 }, [4, -4, 4, -4], [[2, 2]], [1])).toEqual([4, -8, 2, -4])
  })

  it('penalise frequency and presence of the output only, counting across steps', () => {
    const outputs = [[3], [3, 3], [3, 3, 2]]
    expect(run({ frequencyPenalty: 0.5, presencePenalty: 1 }, [0, 0, 0, 0], outputs, [1])).toEqual([0, 0, -1.5, -2])
  })

  it('apply the repetition penalty after the bias', () => {
    expect(run({ logitBias: { '1': 4 }, repetitionPenalty: 2 }, [0, 2], [[1]])).toEqual([0, 3])
  })
})
