/**
 * Beam search against all answers there are: every sequence of a few tokens, scored as a prompt.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Engine } from '#inference/engine/engine.js'
import type { GenerationRules, TokenEvent } from '#inference/engine/generation.js'
import type { PreparedModel } from '#model/architectures/prepare.js'
import { engineFor, GREEDY, prepareTiny } from './engine-harness.js'

let prepared: PreparedModel
let remove: () => Promise<void>
let engine: Engine
beforeAll(async () => {
  ;({ prepared, remove } = await prepareTiny())
  engine = await engineFor(prepared, { maxConcurrentSequences: 4 })
})
afterAll(async () => {
  await engine.close()
  await remove()
})

const EOS = 256
const PROMPT = [72, 105, 33]
const ALLOWED = [65, 66, EOS]
const MOST = 4
const RULES: GenerationRules = { ...GREEDY, ignoreEos: false, allowedTokenIds: ALLOWED, maxTokens: MOST }

/** Tokens of each choice, and the log-probabilities of the prompt's. */
function run(on: Engine, promptTokenIds: readonly number[], rules: GenerationRules) {
  return new Promise<{ choices: TokenEvent[][]; prompt: number[] }>((resolve, reject) => {
    const choices: TokenEvent[][] = Array.from({ length: rules.n }, () => [])
    const prompt: number[] = []
    const id = `${Math.random()}`
    on.submit(
      { id, promptTokenIds, rules, adapter: null, cacheSalt: null },
      {
        onStarted: () => undefined,
        onPromptToken: (event) => prompt.push(event.logprob),
        onToken: (event) => (choices[event.choice]?.push(event) ?? 0) > 0,
        onAborted: () => undefined,
        onFinished: () => resolve({ choices, prompt }),
        onFailed: reject,
      },
    )
  })
}

async function allAnswers(lengthPenalty: number): Promise<{ ids: number[]; score: number }[]> {
  const found: { ids: number[]; score: number }[] = []
  const extend = async (ids: number[]): Promise<void> => {
    if (ids.length === MOST || ids.at(-1) === EOS) {
      const { prompt } = await run(engine, [...PROMPT, ...ids], { ...GREEDY, maxTokens: 1, promptLogprobs: 0 })
      const sum = prompt.slice(PROMPT.length - 1).reduce((total, logprob) => total + logprob, 0)
      found.push({ ids, score: sum / ids.length ** lengthPenalty })
      return
    }
    for (const id of ALLOWED) await extend([...ids, id])
  }
  await extend([])
  return found.sort((a, b) => b.score - a.score)
}

test.each([1, 0, 2])(
  'finds the best of all answers, length penalty %d, however few rows there are',
  async (lengthPenalty) => {
    const expected = await allAnswers(lengthPenalty)
    expect(expected).toHaveLength(31)
    for (const maxConcurrentSequences of [16, 3]) {
      const own = await engineFor(prepared, { maxConcurrentSequences })
      // as wide as there are continuations one step before the last: nothing is lost on the way
      const { choices } = await run(own, PROMPT, { ...RULES, n: 12, beam: { lengthPenalty } })
      await own.close()
      const scores = choices.map(
        (events) => events.reduce((sum, { logprob }) => sum + logprob, 0) / events.length ** lengthPenalty,
      )
      expect(choices.map((events) => events.map(({ tokenId }) => tokenId))).toEqual(
        expected.slice(0, 12).map(({ ids }) => ids),
      )
      for (const [i, score] of scores.entries()) expect(Math.abs(score - (expected[i]?.score ?? 0))).toBeLessThan(1e-4)
      const ends = choices.map((events) => events.at(-1)?.finishReason)
      expect(ends).toEqual(expected.slice(0, 12).map(({ ids }) => (ids.at(-1) === EOS ? 'stop' : 'length')))
    }
  },
)

test('one beam is greedy, and beams run beside others without changing them', async () => {
  const greedy = await run(engine, PROMPT, { ...GREEDY, maxTokens: 12 })
  const wide = { ...GREEDY, maxTokens: 12, n: 4, beam: { lengthPenalty: 1 } }
  const [one, several, beside] = await Promise.all([
    run(engine, PROMPT, { ...wide, n: 1 }),
    run(engine, PROMPT, wide),
    run(engine, PROMPT, { ...GREEDY, maxTokens: 12 }),
  ])
  const ids = ({ choices }: { choices: TokenEvent[][] }) =>
    choices.map((events) => events.map(({ tokenId }) => tokenId))
  expect(ids(one)).toEqual(ids(greedy))
  expect(ids(beside)).toEqual(ids(greedy))
  const sum = (events: TokenEvent[] = []): number => events.reduce((total, { logprob }) => total + logprob, 0)
  expect(sum(several.choices[0])).toBeGreaterThanOrEqual(sum(greedy.choices[0]) - 1e-3)
  expect(new Set(ids(several).map(String)).size).toBe(4)
})

test('fewer answers than beams are an error of the request', async () => {
  const rules = { ...RULES, allowedTokenIds: [65], n: 3, maxTokens: 3, beam: { lengthPenalty: 1 } }
  await expect(run(engine, PROMPT, rules)).rejects.toMatchObject({ code: 'invalid_value', param: 'n' })
})
