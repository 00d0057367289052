/**
 * How much of the answers that end in one step is kept for later prompts.
 */
import { describe, expect, test } from 'vitest'
import { KvRun } from '#inference/engine/runner/kv-run.js'
import { Choice } from '#inference/engine/sampling/choice.js'
import { PrefixCache } from '#inference/engine/scheduling/prefix-cache.js'
import type { Seat } from '#inference/engine/scheduling/running-choices.js'
import { AnswerKeeper } from '#inference/engine/scheduling/scheduler.js'
import { GREEDY } from '../../../../support/generation-rules.js'

const TOKENS = 16
/** 16 tokens of 64 kB: 1 MB. */
const SHAPE = { layerCount: 1, kvHeadCount: 1, headSize: 8192 }

/** Keys and values of so many tokens. */
function runOf(tokens: number): KvRun {
  const run = new KvRun(SHAPE, tokens)
  const data = new Float32Array(2 * tokens * SHAPE.headSize)
  run.append({ data, slots: 1, width: 1, row: 0, member: 0, tokens, count: tokens })
  return run
}

/** Answer number `seed` of 16 tokens to an empty prompt, each to a request of its own. */
function endedSeat(seed: number): Seat {
  const promptTokenIds: number[] = []
  const stopRules = { eosTokenIds: new Set<number>(), ignoreEos: true, stopTokenIds: new Set<number>(), minTokens: 0 }
  const rules = { ...stopRules, maxTokens: TOKENS }
  const choice = new Choice(0, { rules: GREEDY, stopRules: rules, promptIds: promptTokenIds, isSpeculative: false })
  for (let i = 0; i < TOKENS; i++) choice.outputIds.push(seed)
  const none = (): void => undefined
  return {
    active: {
      request: { id: String(seed), promptTokenIds, rules: GREEDY, adapter: null, cacheSalt: null },
      listener: {
        onStarted: none,
        onPromptToken: none,
        onToken: () => true,
        onAborted: none,
        onFinished: none,
        onFailed: none,
      },
      choices: [choice],
      search: null,
      isBehind: false,
      arrival: seed,
      priority: 0,
      keyId: '',
      admittedMs: 0,
      adapter: null,
      open: new Set(),
      isAborted: false,
    },
    choice,
    prompt: { sequence: runOf(0), row: { logits: null, logprobs: null, probabilities: null } },
    tail: null,
  }
}

/** How many of so many answers are found afterwards, and how many rows are free. */
function freed(count: number, areAlone: boolean): { readonly kept: number; readonly free: number } {
  const prefixes = new PrefixCache(Number.POSITIVE_INFINITY)
  const removed = new Set<Choice>()
  const running = { copyTail: () => runOf(TOKENS), remove: (choice: Choice) => void removed.add(choice) }
  const ended = Array.from({ length: count }, (_, i) => endedSeat(i))
  new AnswerKeeper(running, prefixes).free(ended, areAlone)
  const scope = { adapterDigest: null, cacheSalt: null }
  const found = ended.filter(({ choice }) => prefixes.match([...choice.outputIds, 1], scope).length > 0)
  return { kept: found.length, free: removed.size }
}

describe('answers that end in one step', () => {
  test('are all kept while nobody else is served, and as far as 16 MB go beside others', () => {
    expect(freed(40, true)).toEqual({ kept: 40, free: 40 })
    // 1,048,576 bytes each
    expect(freed(40, false)).toEqual({ kept: 16, free: 40 })
    expect(freed(1, false)).toEqual({ kept: 1, free: 1 })
  })
})
