/** What a choice says of how it was sampled, from the request to the row that is computed: temperatures, kept sets, old log-probabilities. */
import { describe, expect, it } from 'vitest'
import { parseTrajectoryGroups } from '#formats/rows/parse.js'
import { packRows } from '#training/rows/pack.js'
import { tokenizeGroups } from '#training/rows/tokenize.js'
import { createWordText, sequenceOf } from '../../../support/model/random-trajectories.js'

type Json = Record<string, unknown>
const prompt = [1, 2, 3]
const ids = [7, 8, 9]
const raw = [-0.5, -0.6, -0.7]
const record = {
  temperature: 0.5,
  top_p: 0.8,
  top_k: 512,
  min_p: 0,
  logprobs: [-0.25, 0, -2],
  kept: { counts: [2, 1, 0], ids: [7, 4, 8] },
  unmodelled: [] as string[],
}
const choice = (extra: Json = {}): Json => ({
  index: 0,
  finish_reason: 'stop',
  message: { role: 'assistant', content: 'x' },
  prompt_token_ids: prompt,
  token_ids: ids,
  logprobs: { content: ids.map((id, t) => ({ token: `token_id:${id}`, logprob: raw[t] })) },
  ...extra,
})
const user = { role: 'user', content: 'hello' }

function tokenize(trajectory: Json, options: Partial<Parameters<typeof tokenizeGroups>[1]> = {}) {
  const groups = parseTrajectoryGroups([
    {
      trajectories: [
        { reward: 1, ...trajectory },
        { reward: 0, messages_and_choices: [] },
      ],
    },
  ])
  const base = { scaleRewards: true, lossAggregation: 'trajectory', maskTruncated: false } as const
  const text = createWordText()
  const result = tokenizeGroups(groups, { ...base, allowTrainingWithoutLogprobs: false, text, ...options })
  const [first] = result.sequences
  return {
    ...result,
    old: first === undefined ? null : Array.from(first.logprobs.subarray(3), (x) => Number(x.toFixed(4))),
    sampling: first?.sampling ?? null,
  }
}
const sampled = (sampling: unknown, options: Parameters<typeof tokenize>[1] = {}, extra: Json = {}) =>
  tokenize({ messages_and_choices: [user, choice({ sampling })], ...extra }, options)

describe('a choice that says how it was sampled', () => {
  it('trains at its temperature, from its sets, against log q', () => {
    const { old, sampling } = sampled(record)
    expect(old).toEqual([-0.25, 0, -2])
    expect([...sampling!.temperatures]).toEqual([1, 1, 1, 0.5, 0.5, 0.5])
    expect([...sampling!.kept]).toEqual([
      [3, Int32Array.of(7, 4)],
      [4, Int32Array.of(8)],
    ])
    expect(sampling!.isOldComputed).not.toContain(1)
  })

  it('trains as ever without a record, and with sampling_ratio raw', () => {
    expect(sampled(undefined)).toMatchObject({ old: raw, sampling: null })
    expect(sampled(record, { samplingRatio: 'raw' })).toMatchObject({ old: raw, sampling: null })
  })

  it('has a ratio of 1 where a rule is not modelled; a cut means the tokens without a set', () => {
    expect(sampled({ ...record, unmodelled: ['repetition_penalty'] }).old).toEqual([NaN, NaN, NaN])
    const { old, sampling } = sampled({ ...record, unmodelled: ['top_p'] })
    expect(old).toEqual([-0.25, 0, NaN])
    // what is known of the distribution is trained all the same
    expect(sampling!.temperatures[5]).toBe(0.5)
  })

  it('is left out at temperature 0, and counted', () => {
    const greedy = { ...record, temperature: 0, kept: { counts: [1, 1, 1], ids }, logprobs: [0, 0, 0] }
    const { sequences, skips } = sampled(greedy)
    expect(sequences).toEqual([])
    expect(skips).toMatchObject({ greedy: 1, no_trainable_turn: 2 })
    expect(sampled(greedy, { samplingRatio: 'raw' }).old).toEqual(raw)
  })

  it.each([
    ['of the weights that the job starts from: computed', { initial_policy_version: 4 }, 1],
    ['sampled from them to its end: computed', { initial_policy_version: 4, final_policy_version: 4 }, 1],
    ['of others: unknown', { initial_policy_version: 3 }, 0],
    ['sampled from several: unknown', { initial_policy_version: 4, final_policy_version: 5 }, 0],
    ['of nobody knows which: unknown', {}, 0],
  ])('has raw log-probabilities at a temperature, %s', (_, version, computed) => {
    const { old, sampling } = sampled({ temperature: 0.5 }, { currentStep: 4 }, version)
    expect(old).toEqual([NaN, NaN, NaN])
    expect([...sampling!.isOldComputed.subarray(3)]).toEqual([computed, computed, computed])
  })

  it('trains by its record alone, without other log-probabilities', () => {
    const messages = [user, choice({ logprobs: null, sampling: record })]
    expect(tokenize({ messages_and_choices: messages }).old).toEqual([-0.25, 0, -2])
  })

  it.each([
    ['logprobs', { ...record, logprobs: [-1] }],
    ['kept', { ...record, kept: { counts: [1, 1, 0], ids: [4, 8] } }],
  ])('is refused with the path of a wrong %s', (name, sampling) => {
    expect(() => sampled(sampling)).toThrow(
      expect.objectContaining({
        code: 'invalid_sampling',
        param: `trajectory_groups[0].trajectories[0].messages_and_choices[1].sampling.${name}`,
      }),
    )
  })
})

describe('a recorded exchange', () => {
  const chat = (request: Json, extra: Json = {}) =>
    tokenize(
      {
        exchanges: {
          chat_completions: [
            {
              request: { messages: [user], ...request },
              response: { choices: [choice(extra)], prompt_token_ids: prompt },
            },
          ],
        },
        initial_policy_version: 4,
      },
      { currentStep: 4 },
    )

  it('takes the temperature of its request where the answer says nothing', () => {
    expect(chat({}).sampling).toBeNull()
    expect(chat({ temperature: 1, top_p: 1, top_k: -1 }).sampling).toBeNull()
    const { sampling, old } = chat({ temperature: 0.5 })
    expect(sampling!.temperatures[3]).toBe(0.5)
    expect([...sampling!.isOldComputed]).toEqual([0, 0, 0, 1, 1, 1])
    expect(old).toEqual([NaN, NaN, NaN])
    // the answer's own record wins
    expect(chat({ temperature: 2 }, { sampling: record }).old).toEqual([-0.25, 0, -2])
  })

  it('at a tiny temperature is greedy, as engines have it, at a small one the lowest that they draw at', () => {
    for (const temperature of [1e-39, 1e-8]) {
      expect(chat({ temperature, top_p: 0.5 }).skips, `${temperature}`).toMatchObject({ greedy: 1 })
      expect(chat({}, { sampling: { ...record, temperature } }).skips, `${temperature}`).toMatchObject({ greedy: 1 })
    }
    expect(chat({ temperature: 1e-3 }).sampling!.temperatures[3]).toBeCloseTo(0.01, 8)
    expect(chat({}, { sampling: { ...record, temperature: 1e-4 } }).sampling!.temperatures[3]).toBeCloseTo(0.01, 8)
  })

  it.each([
    { top_p: 0.9 },
    { min_p: 0.1 },
    { top_k: 20 },
    { presence_penalty: 1 },
    { logit_bias: { 5: 2 } },
    { response_format: { type: 'json_object' } },
    { tool_choice: 'required' },
    { tool_choice: { type: 'function', function: { name: 'f' } } },
    { tool_choice: { type: 'any' } },
    { tool_choice: { type: 'allowed_tools', mode: 'required', tools: [] } },
    { tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'required', tools: [] } } },
  ])('has a ratio of 1 where its request asked for %j, and nobody recorded what could be drawn', (request) => {
    const { old, sampling } = chat(request)
    expect(old).toEqual([NaN, NaN, NaN])
    expect(sampling!.isOldComputed).not.toContain(1)
  })

  it.each([
    'auto',
    'none',
    { type: 'auto' },
    { type: 'none' },
    { type: 'allowed_tools', mode: 'auto', tools: [] },
    { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [] } },
  ])('was drawn plainly where its request left the call to the model: %j', (choice) => {
    expect(chat({ tool_choice: choice }).sampling).toBeNull()
  })

  it('carries records of the other protocols to their rows', () => {
    const completion = { text: 'x', finish_reason: 'stop', prompt_token_ids: prompt, token_ids: ids, sampling: record }
    const generation = {
      prompt_token_ids: prompt,
      output_tokens: ids.map((id, t) => ({ token_id: id, logprob: raw[t] })),
    }
    const exchanges: Record<string, Json> = {
      completions: {
        request: { prompt: 'x' },
        response: { choices: [{ ...completion, logprobs: { token_logprobs: raw } }] },
      },
      responses: {
        request: { input: 'x' },
        response: { status: 'completed', output: [], token_generations: [{ ...generation, sampling: record }] },
      },
      messages: {
        request: { messages: [user] },
        response: {
          content: [],
          stop_reason: 'end_turn',
          prompt_token_ids: prompt,
          token_ids: ids,
          logprobs: raw,
          sampling: record,
        },
      },
    }
    for (const [kind, exchange] of Object.entries(exchanges)) {
      expect(tokenize({ exchanges: { [kind]: [exchange] } }).old, kind).toEqual([-0.25, 0, -2])
      const { sampling: _, ...bare } = exchange['response'] as Json
      expect(Object.keys(bare).length).toBeGreaterThan(0)
    }
  })
})

it('packs what each sequence says beside its tokens, shared prompts before them', () => {
  const of = (first: number, temperature: number, set: readonly number[] | null) =>
    sequenceOf([1, 2, 3, first, first + 1], [3, 4], {
      sampling: {
        temperatures: Float32Array.of(1, 1, 1, temperature, temperature),
        kept: new Map(set === null ? [] : [[4, Int32Array.from(set)]]),
        isOldComputed: Uint8Array.of(0, 0, 0, 0, temperature === 2 ? 1 : 0),
      },
    })
  const sequences = [of(10, 0.5, [11, 5]), of(20, 2, null), sequenceOf([1, 2, 3, 30, 31], [3, 4])]
  const [row] = packRows(sequences, { rowLength: 32, padTokenId: 0, padMultiple: 1 })
  const seen = Array.from(row!.tokens, (id, t) => {
    const { temperatures, kept, isOldComputed } = row!.sampling!
    return [id, temperatures[t], [...(kept.get(t) ?? [])], isOldComputed[t]]
  })
  expect(seen.filter(([id]) => (id as number) >= 10)).toEqual([
    [10, 0.5, [], 0],
    [11, 0.5, [11, 5], 0],
    [20, 2, [], 0],
    [21, 2, [], 1],
    [30, 1, [], 0],
    [31, 1, [], 0],
  ])
  expect(packRows([sequences[2]!], { rowLength: 32, padTokenId: 0, padMultiple: 1 })[0]!.sampling).toBeNull()
})
