/** Trajectory JSON to types: what is accepted, and the path of what is refused. */
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { createDataNotes } from '#formats/rows/notes/data-notes.js'
import { parseTrajectoryGroups } from '#formats/rows/parse.js'
import { leastCpuMs } from '../../../support/process-cost.js'

type Json = Record<string, unknown>

const user = { role: 'user', content: 'hi' }
const message = { role: 'assistant', content: 'yes', refusal: null, tool_calls: null }
const choice = (extra: Json = {}): Json => ({ index: 0, finish_reason: 'stop', message, ...extra })
const entry = (token: string, logprob: unknown = -0.5): Json => ({ token, logprob, bytes: null, top_logprobs: [] })
const group = (trajectory: Json): Json[] => [{ trajectories: [{ reward: 1, messages_and_choices: [], ...trajectory }] }]
const parseChoice = (extra: Json, options = {}) => {
  const item = parseTrajectoryGroups(group({ messages_and_choices: [choice(extra)] }), options)[0].trajectories[0]
    .histories[0].items[0]
  if (item.kind !== 'choice') throw new Error('not a choice')
  return item
}

describe('parseTrajectoryGroups', () => {
  it('tells choices from messages by the presence of message', () => {
    const [parsed] = parseTrajectoryGroups(
      group({ messages_and_choices: [user, choice(), { role: 'tool', content: null }] }),
    )
    expect(parsed.trajectories[0].histories[0].items.map((item) => item.kind)).toEqual(['message', 'choice', 'message'])
  })

  it('keeps reward, versions, metrics and metadata, and counts null as absent', () => {
    const [parsed] = parseTrajectoryGroups([
      {
        trajectories: [
          {
            reward: -0.25,
            messages_and_choices: [],
            metrics: { solved: true, turns: 3, gone: null },
            metadata: { id: 'a' },
            initial_policy_version: 2,
            final_policy_version: null,
          },
        ],
        exceptions: [{ type: 'TimeoutError', message: 'late', traceback: '...' }],
        metadata: null,
        metrics: { pass: false },
        logs: ['x'],
        unknown: 1,
      },
    ])
    expect(parsed).toEqual({
      trajectories: [
        {
          histories: [],
          reward: -0.25,
          initialPolicyVersion: 2,
          finalPolicyVersion: null,
          metrics: { solved: 1, turns: 3 },
          metadata: { id: 'a' },
          unsupportedExchangeCount: 0,
        },
      ],
      exceptions: [{ type: 'TimeoutError', message: 'late' }],
      metadata: {},
      metrics: { pass: 0 },
      range: null,
    })
  })

  it('keeps what a reward can be; the least is 0 or the least of the group where only the most is said', () => {
    const rangeOf = (bounds: object, ...rewards: readonly number[]) =>
      parseTrajectoryGroups([{ ...bounds, trajectories: rewards.map((reward) => ({ reward })) }])[0].range
    expect(rangeOf({ min_reward: -1, max_reward: 2 }, 0, 1)).toEqual([-1, 2])
    expect(rangeOf({ max_reward: 10 }, 3)).toEqual([0, 10])
    expect(rangeOf({ max_reward: 0 }, -3, 0)).toEqual([-3, 0])
    expect(rangeOf({ min_reward: 0, max_reward: null }, 0)).toBeNull()
  })

  it.each([
    [{ max_reward: 'ten' }, 'trajectory_groups[0].max_reward', 'finite number'],
    [{ min_reward: 2, max_reward: 1 }, 'trajectory_groups[0].min_reward', 'more than max_reward, which is 1'],
    [{ max_reward: 0.5 }, 'trajectory_groups[0].trajectories[1].reward', 'is 1, outside of'],
  ])('refuses %j for rewards of 0 and 1', (bounds, param, problem) => {
    expect(() => parseTrajectoryGroups([{ ...bounds, trajectories: [{ reward: 0 }, { reward: 1 }] }])).toThrow(
      expect.objectContaining({ code: 'invalid_reward', param, message: expect.stringContaining(problem) }),
    )
  })

  it('takes a missing reward as 0, as newer clients leave defaults out', () => {
    expect(parseTrajectoryGroups([{ trajectories: [{}] }])[0].trajectories[0].reward).toBe(0)
  })

  it.each([
    [{ prompt: 'q', answer: 'a' }, 'is a prompt, expected trajectory groups', 'trainyard rollout'],
    [{ messages: [{ role: 'user', content: 'q' }] }, 'is a prompt, expected trajectory groups', 'trainyard rollout'],
    [{ instruction: 'i', input: '', output: 'o' }, 'is an Alpaca row', 'trainyard rollout'],
    [{ prompt: 'q', chosen: 'a', rejected: 'b' }, 'is a preference', 'trainyard train dpo'],
  ])('says what %j is instead of a group', (row, problem, hint) => {
    expect(() => parseTrajectoryGroups([{ trajectories: [] }, row])).toThrow(
      expect.objectContaining({
        message: expect.stringContaining(`trajectory_groups[1] ${problem}`),
        param: 'trajectory_groups[1]',
        hint: expect.stringContaining(hint),
      }),
    )
  })

  it('keeps groups of none and one', () => {
    expect(
      parseTrajectoryGroups([{ trajectories: [] }, { trajectories: [{ reward: 1 }] }]).map(
        (g) => g.trajectories.length,
      ),
    ).toEqual([0, 1])
  })

  it('reads token ids from token_ids, else from token_id texts, else keeps texts and bytes', () => {
    expect([...(parseChoice({ token_ids: [5, 6] }).tokenIds ?? [])]).toEqual([5, 6])
    const spelled = parseChoice({ logprobs: { content: [entry('token_id:5'), entry('token_id:6')] } })
    expect([...(spelled.tokenIds ?? [])]).toEqual([5, 6])
    expect(spelled.tokens).toBeNull()
    const texts = parseChoice({ logprobs: { content: [{ ...entry('ye'), bytes: [121, 101] }, entry('s')] } })
    expect(texts.tokenIds).toBeNull()
    expect(texts.tokens).toEqual([
      { text: 'ye', bytes: [121, 101] },
      { text: 's', bytes: null },
    ])
  })

  it('uses refusal logprobs when content is absent', () => {
    const parsed = parseChoice({ logprobs: { content: null, refusal: [entry('token_id:5')] } })
    expect([...(parsed.tokenIds ?? [])]).toEqual([5])
  })

  it('stores the rounding of a certain token as 0', () => {
    expect(parseChoice({ logprobs: { content: [entry('token_id:5', 5e-7)] } }).logprobs?.[0]).toBe(0)
  })

  it('turns each choice of a recorded chat completion into a history with the prompt ids of the response', () => {
    const exchange = {
      request: { model: 'm', messages: [user], tools: [{ type: 'function' }] },
      response: { prompt_token_ids: [1, 2], choices: [choice({ token_ids: [3] }), choice({ token_ids: [4] })] },
    }
    const [parsed] = parseTrajectoryGroups([
      {
        trajectories: [
          { reward: 1, exchanges: { chat_completions: [exchange], completions: [{}], responses: [], messages: null } },
        ],
      },
    ])
    const { histories, unsupportedExchangeCount } = parsed.trajectories[0]
    expect(histories.map((h) => [h.source, h.items.length, h.tools?.length])).toEqual([
      ['exchange', 2, 1],
      ['exchange', 2, 1],
    ])
    const item = histories[1].items[1]
    expect(item.kind === 'choice' ? [...(item.promptTokenIds ?? [])] : null).toEqual([1, 2])
    expect(unsupportedExchangeCount).toBe(1)
  })

  it('turns recorded exchanges of the other protocols into histories where they hold their tokens', () => {
    const generation = {
      prompt_token_ids: [1, 2],
      output_tokens: [
        { token_id: 3, logprob: -0.5 },
        { token_id: 4, logprob: -0.25 },
      ],
      output_indices: [0],
    }
    const output = [{ type: 'message', content: [{ type: 'output_text', text: 'a' }] }]
    const completion = {
      text: 'a',
      finish_reason: 'length',
      prompt_token_ids: [1, 2],
      token_ids: [3, 4],
      logprobs: { tokens: ['x', 'y'], token_logprobs: [-0.5, -0.25] },
    }
    const message = { prompt_token_ids: [1, 2], token_ids: [3, 4], logprobs: [-0.5, -0.25] }
    const exchanges = {
      completions: [
        { request: { prompt: 'p' }, response: { choices: [completion] } },
        { request: { prompt: 'p', echo: true }, response: { choices: [completion] } },
        { request: { prompt: 'p' }, response: { choices: [{ ...completion, prompt_token_ids: null }] } },
      ],
      responses: [
        { request: {}, response: { output, token_generations: [generation] } },
        { request: {}, response: { output } },
      ],
      messages: [
        {
          request: {},
          response: {
            ...message,
            stop_reason: 'tool_use',
            content: [{ type: 'tool_use', id: 't', name: 'look', input: { a: 1 } }],
          },
        },
      ],
    }
    const [parsed] = parseTrajectoryGroups([{ trajectories: [{ reward: 1, exchanges }] }])
    const { histories, unsupportedExchangeCount } = parsed.trajectories[0]
    const items = histories.map((history) => history.items[0])
    for (const item of items) {
      if (item.kind !== 'choice') throw new Error('no choice')
      expect([[...(item.promptTokenIds ?? [])], [...(item.tokenIds ?? [])]]).toEqual([
        [1, 2],
        [3, 4],
      ])
      expect([...(item.logprobs ?? [])]).toEqual([-0.5, -0.25])
    }
    expect(items.map((item) => (item.kind === 'choice' ? item.finishReason : null))).toEqual(['length', 'stop', 'stop'])
    const called = { name: 'look', arguments: '{"a":1}' }
    expect(items.map(({ message: said }) => said)).toEqual([
      { role: 'assistant', content: 'a' },
      { role: 'assistant', content: 'a' },
      { role: 'assistant', content: '', tool_calls: [{ id: 't', type: 'function', function: called }] },
    ])
    expect(unsupportedExchangeCount).toBe(3)
  })

  it('names the place of what is wrong in a recorded exchange', () => {
    const message = { prompt_token_ids: [1], token_ids: [3, 4], logprobs: [-0.5] }
    const trajectory = { exchanges: { messages: [{ request: {}, response: message }] } }
    expect(() => parseTrajectoryGroups([{ trajectories: [trajectory] }])).toThrow(
      'trajectory_groups[0].trajectories[0].exchanges.messages[0].response.logprobs',
    )
  })

  it('reads older forms of recorded answers, each as if it were the only one, and names what its prompt was made with', () => {
    const call = { name: 'look', arguments: '{}' }
    const ask = (message: Record<string, unknown>) => ({
      index: 0,
      message: { role: 'assistant', content: null, ...message },
    })
    const exchange = {
      request: { messages: [user], chat_template_kwargs: { enable_thinking: false }, temperature: 1, mood: 'x' },
      response: { choices: [ask({ function_call: call }), ask({ function_call: call }), ask({ refusal: 'No.' })] },
    }
    const notes = createDataNotes()
    const [parsed] = parseTrajectoryGroups([{ trajectories: [{ exchanges: { chat_completions: [exchange] } }] }], {
      notes,
    })
    const said = parsed.trajectories[0].histories.map(({ items }) => items[1].message)
    const called = {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'call_0', type: 'function', function: call }],
    }
    expect(said).toEqual([called, called, { role: 'assistant', content: 'No.' }])
    const at = 'trajectory_groups[0].trajectories[0].exchanges.chat_completions[0]'
    expect(notes.sentences()).toEqual([
      `fields that nothing reads: request.chat_template_kwargs (${at}.request)`,
      `older forms were converted: function_call as tool_calls (2 times, first ${at}.response.choices[0].message), refusal as content (${at}.response.choices[2].message)`,
    ])
    const known = { ...exchange, response: { ...exchange.response, prompt_token_ids: [1] } }
    const none = createDataNotes()
    parseTrajectoryGroups([{ trajectories: [{ exchanges: { chat_completions: [known] } }] }], { notes: none })
    expect(none.sentences().join()).not.toContain('request.')
  })

  const t = 'trajectory_groups[0].trajectories[0]'
  const c = `${t}.messages_and_choices[0]`
  const refused: [string, unknown, string, string][] = [
    ['no array', { a: 1 }, 'invalid_trajectory', 'trajectory_groups'],
    ['a group that is a list', [[]], 'invalid_trajectory', 'trajectory_groups[0]'],
    ['a group without trajectories', [{}], 'invalid_trajectory', 'trajectory_groups[0].trajectories'],
    ['a trajectory that is null', [{ trajectories: [null] }], 'invalid_trajectory', t],
    ['a text reward', group({ reward: '1' }), 'invalid_reward', `${t}.reward`],
    ['a boolean reward', group({ reward: true }), 'invalid_reward', `${t}.reward`],
    ['a null reward', group({ reward: null }), 'invalid_reward', `${t}.reward`],
    ['an infinite reward', JSON.parse('[{"trajectories":[{"reward":1e999}]}]'), 'invalid_reward', `${t}.reward`],
    ['an absurd reward', group({ reward: -1e200 }), 'invalid_reward', `${t}.reward`],
    [
      'a negative policy version',
      group({ initial_policy_version: -1 }),
      'invalid_policy_version',
      `${t}.initial_policy_version`,
    ],
    [
      'a fractional policy version',
      group({ final_policy_version: 1.5 }),
      'invalid_policy_version',
      `${t}.final_policy_version`,
    ],
    ['a text metric', group({ metrics: { a: 'x' } }), 'invalid_metric', `${t}.metrics.a`],
    [
      'an element without role or message',
      group({ messages_and_choices: [{ content: 'x' }] }),
      'invalid_trajectory',
      c,
    ],
    ['an empty role', group({ messages_and_choices: [{ role: '', content: 'x' }] }), 'invalid_trajectory', c],
    [
      'a content part that is text',
      group({ messages_and_choices: [{ role: 'user', content: [{ type: 'text', text: 'a' }, 'b'] }] }),
      'invalid_trajectory',
      `${c}.content[1]`,
    ],
    [
      'a numeric content',
      group({ messages_and_choices: [{ role: 'user', content: 5 }] }),
      'invalid_trajectory',
      `${c}.content`,
    ],
    [
      'a choice with a text message',
      group({ messages_and_choices: [{ message: 'x' }] }),
      'invalid_choice',
      `${c}.message`,
    ],
    ['tools that are no list', group({ messages_and_choices: [user], tools: {} }), 'invalid_trajectory', `${t}.tools`],
    [
      'a negative token id',
      group({ messages_and_choices: [choice({ token_ids: [1, -2] })] }),
      'invalid_token_id',
      `${c}.token_ids[1]`,
    ],
    [
      'a fractional prompt id',
      group({ messages_and_choices: [choice({ prompt_token_ids: [0.5] })] }),
      'invalid_token_id',
      `${c}.prompt_token_ids[0]`,
    ],
    [
      'a positive logprob',
      group({ messages_and_choices: [choice({ logprobs: { content: [entry('a', 0.1)] } })] }),
      'invalid_logprob',
      `${c}.logprobs.content[0].logprob`,
    ],
    [
      'a null logprob',
      group({ messages_and_choices: [choice({ logprobs: { content: [entry('a', null)] } })] }),
      'invalid_logprob',
      `${c}.logprobs.content[0].logprob`,
    ],
    [
      'more ids than logprobs',
      group({ messages_and_choices: [choice({ token_ids: [1, 2], logprobs: { content: [entry('a')] } })] }),
      'logprobs_mismatch',
      `${c}.logprobs.content`,
    ],
    [
      'ids that contradict the texts',
      group({ messages_and_choices: [choice({ token_ids: [1], logprobs: { content: [entry('token_id:2')] } })] }),
      'logprobs_mismatch',
      `${c}.logprobs.content[0].token`,
    ],
    [
      'a logprob entry without token',
      group({ messages_and_choices: [choice({ logprobs: { content: [{ logprob: -1 }] } })] }),
      'invalid_choice',
      `${c}.logprobs.content[0].token`,
    ],
    [
      'bytes beyond 255',
      group({ messages_and_choices: [choice({ logprobs: { content: [{ ...entry('a'), bytes: [256] }] } })] }),
      'invalid_choice',
      `${c}.logprobs.content[0].bytes`,
    ],
    [
      'an additional history with a wrong element',
      group({ additional_histories: [{ messages_and_choices: [7] }] }),
      'invalid_trajectory',
      `${t}.additional_histories[0].messages_and_choices[0]`,
    ],
    [
      'an exchange without request',
      group({ exchanges: { chat_completions: [{ response: { choices: [] } }] } }),
      'invalid_trajectory',
      `${t}.exchanges.chat_completions[0].request`,
    ],
  ]
  for (const [what, value, code, param] of refused) {
    it(`refuses ${what}, naming ${param}`, () => {
      expect(() => parseTrajectoryGroups(value)).toThrow(
        expect.objectContaining({ category: 'invalid_request', code, param, message: expect.stringContaining(param) }),
      )
    })
  }

  it('refuses ids outside the vocabulary and versions from the future when the limits are known', () => {
    expect(() => parseChoice({ token_ids: [100] }, { vocabularySize: 100 })).toThrow(
      expect.objectContaining({ code: 'invalid_token_id' }),
    )
    expect(() => parseChoice({ logprobs: { content: [entry('token_id:100')] } }, { vocabularySize: 100 })).toThrow(
      expect.objectContaining({ code: 'invalid_token_id' }),
    )
    expect(() => parseTrajectoryGroups(group({ initial_policy_version: 4 }), { currentStep: 3 })).toThrow(
      expect.objectContaining({ code: 'invalid_policy_version' }),
    )
    expect(parseTrajectoryGroups(group({ initial_policy_version: 3 }), { currentStep: 3 }).length).toBe(1)
  })

  it('names the largest id of each list, and where it stands', () => {
    const noted: [number, string][] = []
    const noteLargestId = (id: number, path: string) => void noted.push([id, path])
    parseChoice(
      {
        prompt_token_ids: [5, 90, 7],
        token_ids: [100],
        logprobs: { content: [entry('token_id:100')] },
      },
      { noteLargestId },
    )
    expect(noted.map(([id, path]) => [id, path.replace(/^.*?(?=prompt_|token_|logprobs)/, '')])).toEqual([
      [90, 'prompt_token_ids[1]'],
      [100, 'token_ids[0]'],
      [100, 'logprobs.content[0].token'],
    ])
  })

  it('does not take inherited names for fields', () => {
    const parsed = parseTrajectoryGroups(
      JSON.parse('[{"trajectories":[{"reward":1,"metrics":{"__proto__":2,"constructor":3}}]}]'),
    )
    expect(Object.entries(parsed[0].trajectories[0].metrics)).toEqual([
      ['__proto__', 2],
      ['constructor', 3],
    ])
  })

  it('reads a hundred thousand logprobs in less than ten times what JSON.parse needs', () => {
    const content = Array.from({ length: 10_000 }, (_, i) => entry(`token_id:${i % 1000}`))
    const body = JSON.stringify(
      Array.from({ length: 10 }, () => group({ messages_and_choices: [choice({ logprobs: { content } })] })[0]),
    )
    const value: unknown = JSON.parse(body)
    const parseMs = leastCpuMs(10, () => JSON.parse(body))
    const readMs = leastCpuMs(10, () => expect(parseTrajectoryGroups(value).length).toBe(10))
    expect(readMs).toBeLessThan(10 * parseMs)
  })

  it('reads what the Python client posts', () => {
    const body = JSON.parse(
      readFileSync(new URL('../../../fixtures/trajectories/client-train-request.json', import.meta.url), 'utf8'),
    )
    const groups = parseTrajectoryGroups(body.trajectory_groups)
    expect(groups.map((g) => [g.trajectories.length, g.exceptions.length])).toEqual([
      [2, 1],
      [2, 0],
    ])
    const [first] = groups[0].trajectories
    expect(first.histories.map((history) => history.items.map((item) => item.kind))).toEqual([
      ['message', 'message', 'choice', 'message', 'choice'],
      ['message', 'choice'],
    ])
    expect(first.histories[0].tools?.length).toBe(1)
    const sampled = first.histories[0].items[2]
    expect(sampled.kind === 'choice' ? [...(sampled.tokenIds ?? [])] : null).toEqual([11, 12, 13])
    expect(sampled.kind === 'choice' ? [...(sampled.promptTokenIds ?? [])] : null).toEqual([1, 2, 3, 4])
  })
})
