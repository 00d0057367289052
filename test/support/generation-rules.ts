/** Rules of generation that tests start from: eight tokens, nothing else in force. */
import type { GenerationRules } from '#inference/engine/generation.js'

export const GREEDY: GenerationRules = {
  temperature: 0,
  topP: 1,
  topK: 0,
  minP: 0,
  repetitionPenalty: 1,
  frequencyPenalty: 0,
  presencePenalty: 0,
  logitBias: null,
  allowedTokenIds: null,
  seed: null,
  n: 1,
  maxTokens: 8,
  minTokens: 0,
  stopTokenIds: [],
  ignoreEos: true,
  topLogprobs: 0,
}

export const RANDOM: GenerationRules = { ...GREEDY, temperature: 1, seed: 7n }
