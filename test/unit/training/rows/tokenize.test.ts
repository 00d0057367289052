/** From parsed trajectories to sequences: exact ids, prefix merging, fallbacks, and counts of what does not train. */
import { describe, expect, it } from 'vitest'
import { createRng } from '#base/util/rng.js'
import { parseTrajectoryGroups } from '#formats/rows/parse.js'
import { mergeTurns, tokenizeGroups } from '#training/rows/tokenize.js'
import { buildTrainingBatch } from '#training/rows/training-batch.js'
import { noSkips, type TrainableTurn, type TrajectoryText } from '#training/rows/turns.js'
import { createWordText, forSeeds, randomIds } from '../../../support/model/random-trajectories.js'

const base = {
  scaleRewards: true,
  lossAggregation: 'trajectory',
  allowTrainingWithoutLogprobs: false,
  maskTruncated: false,
} as const

type Json = Record<string, unknown>

function choice(ids: number[], extra: Json = {}): Json {
  return {
    index: 0,
    finish_reason: 'stop',
    message: { role: 'assistant', content: 'x' },
    token_ids: ids,
    logprobs: {
      content: ids.map((id) => ({ token: `token_id:${id}`, logprob: -id / 10, bytes: null, top_logprobs: [] })),
    },
    ...extra,
  }
}

interface Sampled {
  readonly prompt: readonly number[]
  readonly ids: readonly number[]
  readonly logprobs: readonly number[]
  readonly isCut: boolean
}

/** One answer as each protocol's exchange has it. */
function recordings({ prompt, ids, logprobs, isCut }: Sampled): Record<string, Json> {
  const finish = isCut ? 'length' : 'stop'
  const content = ids.map((id, t) => ({ token: `token_id:${id}`, logprob: logprobs[t], bytes: null, top_logprobs: [] }))
  const tokens = ids.map((id, t) => ({ token_id: id, logprob: logprobs[t] }))
  const completion = { text: 'x', finish_reason: finish, prompt_token_ids: prompt, token_ids: ids }
  return {
    chat_completions: {
      request: { messages: [user] },
      response: {
        prompt_token_ids: prompt,
        choices: [choice([...ids], { finish_reason: finish, logprobs: { content } })],
      },
    },
    completions: {
      request: { prompt: 'hello' },
      response: { choices: [{ ...completion, logprobs: { tokens: ids.map(String), token_logprobs: logprobs } }] },
    },
    responses: {
      request: { input: 'hello' },
      response: {
        status: isCut ? 'incomplete' : 'completed',
        output: [{ type: 'message', content: [{ type: 'output_text', text: 'x' }] }],
        token_generations: [{ prompt_token_ids: prompt, output_tokens: tokens, output_indices: [0] }],
      },
    },
    messages: {
      request: { messages: [user] },
      response: {
        content: [{ type: 'text', text: 'x' }],
        stop_reason: isCut ? 'max_tokens' : 'end_turn',
        ...{ prompt_token_ids: prompt, token_ids: ids, logprobs },
      },
    },
  }
}

/** One group: the given trajectory with reward 1 and an untrainable one with reward 0. */
function groupWith(trajectory: Json): ReturnType<typeof parseTrajectoryGroups> {
  return parseTrajectoryGroups([
    {
      trajectories: [
        { reward: 1, ...trajectory },
        { reward: 0, messages_and_choices: [] },
      ],
    },
  ])
}

function tokenize(
  trajectory: Json,
  options: Partial<Parameters<typeof tokenizeGroups>[1]> = {},
  text: TrajectoryText = createWordText(),
) {
  return tokenizeGroups(groupWith(trajectory), { ...base, text, ...options })
}

const user = { role: 'user', content: 'hello' }

describe('tokenizeGroups on exact ids', () => {
  it('takes prompt and completion ids as given, masks the completion, keeps its logprobs', () => {
    const { sequences } = tokenize({ messages_and_choices: [user, choice([7, 8], { prompt_token_ids: [1, 2, 3] })] })
    expect(sequences.length).toBe(1)
    const [sequence] = sequences
    expect([...(sequence?.tokenIds ?? [])]).toEqual([1, 2, 3, 7, 8])
    expect([...(sequence?.lossMask ?? [])]).toEqual([0, 0, 0, 1, 1])
    expect(sequence?.logprobs[2]).toBeNaN()
    expect(sequence?.logprobs[3]).toBeCloseTo(-0.7, 6)
    expect(sequence?.advantage).toBeCloseTo(1, 5)
    expect(sequence?.weight).toBeCloseTo(0.5, 5)
  })

  it('needs no text layer when every choice carries its ids', () => {
    const text: TrajectoryText = {
      vocabularySize: 100,
      renderPrompt: () => {
        throw new Error('rendered')
      },
      renderLastTurn: () => {
        throw new Error('rendered')
      },
      isControl: () => false,
      leftOutOf: () => {
        throw new Error('rendered')
      },
      textOf: (ids) => ids.join(' '),
      tokenIdOf: () => null,
    }
    expect(
      tokenize({ messages_and_choices: [user, choice([7], { prompt_token_ids: [1] })] }, {}, text).sequences.length,
    ).toBe(1)
  })

  it('joins an append-only conversation into one sequence', () => {
    const { sequences } = tokenize({
      messages_and_choices: [
        user,
        choice([7], { prompt_token_ids: [1, 2] }),
        user,
        choice([9, 9], { prompt_token_ids: [1, 2, 7, 3, 4] }),
      ],
    })
    expect(sequences.map((s) => [...s.tokenIds])).toEqual([[1, 2, 7, 3, 4, 9, 9]])
    expect(sequences.map((s) => [...s.lossMask])).toEqual([[0, 0, 1, 0, 0, 1, 1]])
  })

  it('starts a new sequence when the next prompt does not continue, and shares the weight over both', () => {
    const { sequences } = tokenize({
      messages_and_choices: [
        user,
        choice([7], { prompt_token_ids: [1, 2] }),
        user,
        choice([9, 9], { prompt_token_ids: [1, 3] }),
      ],
    })
    expect(sequences.map((s) => [...s.tokenIds])).toEqual([
      [1, 2, 7],
      [1, 3, 9, 9],
    ])
    for (const sequence of sequences) expect(sequence.weight).toBeCloseTo(1 / 3, 5)
  })

  it('reads additional histories as sequences of the same trajectory', () => {
    const { sequences } = tokenize({
      messages_and_choices: [choice([7], { prompt_token_ids: [1] })],
      additional_histories: [{ messages_and_choices: [choice([8], { prompt_token_ids: [2] })] }],
    })
    expect(sequences.map((s) => [...s.tokenIds])).toEqual([
      [1, 7],
      [2, 8],
    ])
  })

  it('never trains the first token of a sequence, which nothing predicts', () => {
    const { sequences } = tokenize({ messages_and_choices: [choice([7, 8], { prompt_token_ids: [] })] })
    expect([...(sequences[0]?.lossMask ?? [])]).toEqual([0, 1])
    expect(sequences[0]?.trainableTokenCount).toBe(1)
  })

  it('refuses ids outside the vocabulary with the path of the trajectory', () => {
    expect(() => tokenize({ messages_and_choices: [choice([5000], { prompt_token_ids: [1] })] })).toThrow(
      expect.objectContaining({ code: 'invalid_token_id', param: 'trajectory_groups[0].trajectories[0]' }),
    )
  })

  it('reads recorded chat completions as one growing sequence', () => {
    const exchange = (prompt: number[], ids: number[]) => ({
      request: { messages: [user] },
      response: { prompt_token_ids: prompt, choices: [choice(ids)] },
    })
    const { sequences, skips } = tokenize({
      exchanges: { chat_completions: [exchange([1], [7]), exchange([1, 7, 2], [8])], responses: [{}] },
    })
    expect(sequences.map((s) => [...s.tokenIds])).toEqual([[1, 7, 2, 8]])
    expect(skips.unsupported_exchange).toBe(1)
  })

  it('makes the same of an answer, whichever of four protocols recorded it', () => {
    forSeeds(200, (rng) => {
      const prompt = randomIds(rng, 1 + rng.integer(6))
      const ids = randomIds(rng, 1 + rng.integer(8))
      const logprobs = ids.map(() => -5 * rng.uniform())
      const isCut = rng.uniform() < 0.3
      const [first = 0] = logprobs
      const recorded = recordings({ prompt, ids, logprobs, isCut })
      const made = Object.entries(recorded).map(([kind, exchange]) => {
        const { sequences, skips } = tokenize({ exchanges: { [kind]: [exchange] } })
        return { sequences, skips }
      })
      const [sequence] = made[0]?.sequences ?? []
      expect([...(sequence?.tokenIds ?? [])]).toEqual([...prompt, ...ids])
      expect([...(sequence?.lossMask ?? [])]).toEqual([...prompt.map(() => 0), ...ids.map(() => 1)])
      expect(sequence?.logprobs[prompt.length]).toBe(Math.fround(first))
      expect(sequence?.isTruncated).toBe(isCut)
      for (const other of made.slice(1)) expect(other).toEqual(made[0])
    })
  })
})

describe('tokenizeGroups on text', () => {
  it('renders the prompt of a choice without prompt ids from the messages before it', () => {
    const text = createWordText()
    const { sequences } = tokenize({ messages_and_choices: [user, choice([7])] }, {}, text)
    expect([...(sequences[0]?.tokenIds ?? [])]).toEqual([...text.ids('<user> hello <end> <assistant>'), 7])
  })

  it('looks token texts up in the vocabulary', () => {
    const text = createWordText()
    const [a, b] = text.ids('good day')
    const tokens = ['good', 'day'].map((token) => ({ token, logprob: -1, bytes: null, top_logprobs: [] }))
    const { sequences } = tokenize(
      {
        messages_and_choices: [
          user,
          { message: { role: 'assistant', content: 'good day' }, logprobs: { content: tokens } },
        ],
      },
      {},
      text,
    )
    expect([...(sequences[0]?.tokenIds ?? [])].slice(-2)).toEqual([a, b])
  })

  it('skips and counts a choice whose token text is unknown', () => {
    const tokens = [{ token: 'never seen', logprob: -1, bytes: null, top_logprobs: [] }]
    const { sequences, skips } = tokenize({
      messages_and_choices: [user, { message: { role: 'assistant', content: 'x' }, logprobs: { content: tokens } }],
    })
    expect(sequences).toEqual([])
    expect(skips.unknown_token_text).toBe(1)
    expect(skips.no_trainable_turn).toBe(2)
  })

  it('drops the think block of the template when the completion opens its own', () => {
    const text = createWordText({ opensThinkBlock: true })
    const [think] = text.ids('<think>')
    const { sequences } = tokenize({ messages_and_choices: [user, choice([think ?? -1, 7])] }, {}, text)
    expect([...(sequences[0]?.tokenIds ?? [])]).toEqual([...text.ids('<user> hello <end> <assistant>'), think, 7])
  })

  it('keeps a prompt in which the user spoke of thinking', () => {
    const text = createWordText()
    const [think] = text.ids('<think>')
    const { sequences } = tokenize(
      { messages_and_choices: [{ role: 'user', content: '<think>' }, choice([think, 7])] },
      {},
      text,
    )
    expect([...(sequences[0]?.tokenIds ?? [])]).toEqual([...text.ids('<user> <think> <end> <assistant>'), think, 7])
  })

  it('shows the template no nulls and never a missing content', () => {
    const text = createWordText()
    const items = [
      { role: 'user', content: null, name: null },
      choice([7], { prompt_token_ids: null }),
      user,
      choice([8]),
    ]
    tokenize({ messages_and_choices: items }, {}, text)
    expect(text.rendered.at(-1)?.messages).toEqual([
      { role: 'user', content: '' },
      { role: 'assistant', content: 'x' },
      user,
    ])
  })

  it('leaves out and names a trajectory that the chat template refuses, and trains the others', () => {
    const text = createWordText()
    const refusing: TrajectoryText = {
      ...text,
      renderPrompt: (conversation) => {
        if (conversation.messages.some(({ content }) => content === 'odd')) throw new Error('roles must alternate.')
        return text.renderPrompt(conversation)
      },
    }
    const good = { messages_and_choices: [user, choice([7])] }
    // its first turn could be rendered: it is left out whole, and counted once
    const odd = { messages_and_choices: [user, choice([7]), { role: 'user', content: 'odd' }, choice([8])] }
    const leftOut: unknown[] = []
    const { sequences, skips, examples } = tokenizeGroups(
      parseTrajectoryGroups([
        {
          trajectories: [
            { ...good, reward: 0 },
            { ...odd, reward: 1 },
          ],
        },
      ]),
      { ...base, text: refusing, onLeftOut: (...told) => leftOut.push(told) },
    )
    expect(sequences.map(({ trajectoryIndex }) => trajectoryIndex)).toEqual([0])
    expect(skips).toEqual({ ...noSkips(), unrenderable: 1 })
    expect(examples.get('unrenderable')).toEqual([
      'trajectory_groups[0].trajectories[1] cannot be rendered by the chat template: roles must alternate',
    ])
    expect(leftOut).toEqual([['unrenderable', 0, 1]])
  })

  it('says which trajectory the chat template refused, where nothing else trains', () => {
    const text: TrajectoryText = {
      ...createWordText(),
      renderPrompt: () => {
        throw new Error('roles must alternate.')
      },
    }
    expect(() => tokenize({ messages_and_choices: [user, choice([7])] }, {}, text)).toThrow(
      expect.objectContaining({
        code: 'unrenderable_trajectory',
        message: expect.stringContaining('roles must alternate'),
      }),
    )
  })
})

describe('what trains', () => {
  const plain = { role: 'assistant', content: 'good day' }

  it('leaves out choices without logprobs and plain assistant messages by default', () => {
    const { sequences, skips } = tokenize({
      messages_and_choices: [user, plain, user, { message: plain, token_ids: [1] }],
    })
    expect(sequences).toEqual([])
    expect(skips.no_logprobs).toBe(1)
  })

  it('trains both with allow_training_without_logprobs, logprobs unknown', () => {
    const text = createWordText()
    const { sequences } = tokenize(
      { messages_and_choices: [user, plain] },
      { allowTrainingWithoutLogprobs: true },
      text,
    )
    expect([...(sequences[0]?.tokenIds ?? [])]).toEqual(text.ids('<user> hello <end> <assistant> good day <end>'))
    expect([...(sequences[0]?.lossMask ?? [])]).toEqual([0, 0, 0, 0, 1, 1, 1])
    expect([...(sequences[0]?.logprobs ?? [])].every(Number.isNaN)).toBe(true)
    const exact = tokenize(
      { messages_and_choices: [{ message: plain, token_ids: [5], prompt_token_ids: [1] }] },
      { allowTrainingWithoutLogprobs: true },
    )
    expect([...(exact.sequences[0]?.tokenIds ?? [])]).toEqual([1, 5])
  })

  it('never trains earlier assistant messages of a recorded exchange', () => {
    const exchange = {
      request: { messages: [user, plain, user] },
      response: { choices: [choice([7], { prompt_token_ids: [1] })] },
    }
    const { sequences } = tokenize(
      { exchanges: { chat_completions: [exchange] } },
      { allowTrainingWithoutLogprobs: true },
    )
    expect(sequences.map((s) => s.trainableTokenCount)).toEqual([1])
  })

  it('masks completions cut by length only under mask_truncated', () => {
    const items = { messages_and_choices: [choice([7], { prompt_token_ids: [1], finish_reason: 'length' })] }
    expect(tokenize(items).sequences[0]?.isTruncated).toBe(true)
    const masked = tokenize(items, { maskTruncated: true })
    expect(masked.sequences).toEqual([])
    expect(masked.skips.masked_truncated).toBe(1)
  })

  it('skips empty completions', () => {
    expect(tokenize({ messages_and_choices: [choice([], { prompt_token_ids: [1] })] }).skips.empty_completion).toBe(1)
  })

  it('counts trajectories of groups without variance, of one and of none', () => {
    const one = { reward: 1, messages_and_choices: [choice([7], { prompt_token_ids: [1] })] }
    const groups = parseTrajectoryGroups([{ trajectories: [one, one] }, { trajectories: [one] }, { trajectories: [] }])
    const { sequences, skips } = tokenizeGroups(groups, { ...base, text: createWordText() })
    expect(sequences).toEqual([])
    expect(skips.zero_advantage).toBe(3)
  })
})

describe('mergeTurns', () => {
  it('keeps every completion once, after exactly its prompt', () => {
    forSeeds(200, (rng) => {
      const turns: TrainableTurn[] = []
      let history: number[] = []
      for (let n = 1 + rng.integer(6); n > 0; n -= 1) {
        const promptIds =
          rng.uniform() < 0.7 ? [...history, ...randomIds(rng, 1 + rng.integer(3))] : randomIds(rng, 1 + rng.integer(5))
        const completionIds = randomIds(rng, 1 + rng.integer(4))
        turns.push({
          promptIds,
          completionIds,
          logprobs: Float32Array.from(completionIds, () => -rng.uniform()),
          isTruncated: false,
        })
        history = [...promptIds, ...completionIds]
      }
      const merged = mergeTurns(turns)
      expect(merged.reduce((sum, s) => sum + s.trainableTokenCount, 0)).toBe(
        turns.reduce((sum, t) => sum + t.completionIds.length, 0),
      )
      let next = 0
      for (const sequence of merged) {
        for (let covered = 0; covered < sequence.trainableTokenCount; next += 1) {
          const turn = turns[next]
          if (turn === undefined) throw new Error('more tokens than turns')
          const start = turn.promptIds.length
          expect([...sequence.tokenIds.slice(0, start)]).toEqual([...Array.from(turn.promptIds)])
          expect([...sequence.tokenIds.slice(start, start + turn.completionIds.length)]).toEqual([
            ...Array.from(turn.completionIds),
          ])
          expect([...sequence.logprobs.slice(start, start + turn.completionIds.length)]).toEqual([
            ...(turn.logprobs ?? []),
          ])
          covered += turn.completionIds.length
        }
      }
      expect(next).toBe(turns.length)
    })
  })
})

describe('buildTrainingBatch', () => {
  const options = {
    ...base,
    text: createWordText(),
    advantageBalance: 0,
    packedSequenceLength: null,
    tokensPerStep: null,
    gradAccumulationSequences: 1,
    contextLength: 64,
    padTokenId: 0,
    seed: 'job',
  }
  const trajectory = (reward: number, prompt: number, completion: number) => ({
    reward,
    messages_and_choices: [choice(Array(completion).fill(7), { prompt_token_ids: Array(prompt).fill(1) })],
  })

  it('counts the histories whose turns do not merge, not those that are apart anyway', () => {
    const turn = (prompt: number[]) => choice([7, 7], { prompt_token_ids: prompt })
    const built = (messages: object[], histories: object[] = []) =>
      buildTrainingBatch(
        parseTrajectoryGroups([
          {
            trajectories: [
              { reward: 1, messages_and_choices: messages, additional_histories: histories },
              trajectory(0, 4, 2),
            ],
          },
        ]),
        options,
      ).unmergedHistoryCount
    expect(built([turn([1, 2]), turn([1, 2, 7, 7, 3])])).toBe(0)
    expect(built([turn([1, 2])], [{ messages_and_choices: [turn([5])] }])).toBe(0)
    expect(built([turn([1, 2]), turn([1, 9, 7, 7, 3])])).toBe(1)
  })

  it('drops overlength sequences whole after their rewards shaped the advantages', () => {
    const batch = buildTrainingBatch(
      parseTrajectoryGroups([{ trajectories: [trajectory(1, 60, 10), trajectory(0, 4, 2), trajectory(0, 4, 2)] }]),
      options,
    )
    expect(batch.skips.overlength).toBe(1)
    expect(batch.trainedTrajectoryCount).toBe(2)
    const row = batch.steps[0]?.rows[0]
    expect([...(row?.advantages ?? [])].filter((a) => a !== 0).every((a) => Math.abs(a + 1) < 1e-6)).toBe(true)
  })

  it('scales over the whole call: every trajectory weighs the same, mean absolute advantage 1', () => {
    const rng = createRng('batch')
    const groups = Array.from({ length: 4 }, () => ({
      trajectories: Array.from({ length: 3 }, () => trajectory(rng.normal(), 1 + rng.integer(9), 1 + rng.integer(20))),
    }))
    const batch = buildTrainingBatch(parseTrajectoryGroups(groups), options)
    let absolute = 0
    let weight = 0
    for (const row of batch.steps.flatMap(({ rows }) => rows)) {
      for (const [t, bit] of row.lossMask.entries()) {
        if (bit === 0) continue
        weight += row.weights[t] ?? 0
        absolute += Math.abs(row.advantages[t] ?? 0) * (row.weights[t] ?? 0)
      }
    }
    expect(weight / batch.trainableTokenCount).toBeCloseTo(1, 5)
    expect(absolute / batch.trainableTokenCount).toBeCloseTo(1, 5)
  })

  it('trains the others as if an overlength answer that teaches nothing had not been sent', () => {
    const group = (n: number) => ({
      trajectories: Array.from({ length: 8 }, (_, i) => trajectory((i + n) % 2, 20, 12)),
    })
    const groups = Array.from({ length: 40 }, (_, n) => group(n))
    const tooLong = { trajectories: [trajectory(1, 4000, 1000), trajectory(0, 4000, 1000)] }
    const long = { ...options, contextLength: 4096 }
    const without = buildTrainingBatch(parseTrajectoryGroups(groups), long)
    const dropped = buildTrainingBatch(parseTrajectoryGroups([...groups, tooLong]), long)
    expect(dropped.skips.overlength).toBe(2)
    expect(dropped.stepLength).toBe(2048)
    expect(dropped.steps).toEqual(without.steps)
  })

  it('covers one packed row of the asked-for length with a step, or several, or the asked-for tokens', () => {
    const groups = parseTrajectoryGroups([
      { trajectories: Array.from({ length: 8 }, (_, i) => trajectory(i % 2, 4, 12)) },
    ])
    const steps = (extra: object) =>
      buildTrainingBatch(groups, { ...options, ...extra }).steps.map((s) => s.sequenceCount)
    expect(steps({})).toEqual([4, 4])
    expect(steps({ packedSequenceLength: 32 })).toEqual([2, 2, 2, 2])
    expect(steps({ packedSequenceLength: 32, gradAccumulationSequences: 3 })).toEqual([6, 2])
    expect(steps({ packedSequenceLength: 32, tokensPerStep: 10 })).toEqual(Array(8).fill(1))
  })

  it('rescales weights under constant aggregation so that weight / tokens of the step is the same everywhere', () => {
    const groups = parseTrajectoryGroups(
      Array.from({ length: 6 }, (_, n) => ({
        trajectories: Array.from({ length: 3 }, (_, i) => trajectory(i, 2 + n, 1 + 5 * i)),
      })),
    )
    const { steps } = buildTrainingBatch(groups, { ...options, lossAggregation: 'constant', tokensPerStep: 30 })
    const perToken = steps.flatMap(({ rows, trainableTokenCount }) =>
      rows.flatMap((row) => [...row.weights].filter((w) => w > 0).map((w) => w / trainableTokenCount)),
    )
    expect(steps.length).toBeGreaterThan(2)
    for (const value of perToken) expect(value / (perToken[0] ?? 0)).toBeCloseTo(1, 5)
  })

  it('divides by a number of tokens of its own under constant aggregation where one is given', () => {
    const groups = parseTrajectoryGroups(
      Array.from({ length: 6 }, (_, n) => ({
        trajectories: Array.from({ length: 3 }, (_, i) => trajectory(i, 2 + n, 1 + 5 * i)),
      })),
    )
    const { steps, trainableTokenCount, trainedTrajectoryCount } = buildTrainingBatch(groups, {
      ...options,
      lossAggregation: 'constant',
      tokensPerStep: 30,
      maxCompletionLength: 50,
    })
    const tokens = steps.flatMap(({ rows, trainableTokenCount: count }) =>
      rows.flatMap((row) => [...row.weights].filter((w) => w > 0).map((w) => w / count)),
    )
    expect(tokens.length).toBe(trainableTokenCount)
    // Dr. GRPO: 1 / (trajectories of a step * constant length)
    const wanted = 1 / ((trainedTrajectoryCount / steps.length) * 50)
    for (const value of tokens) expect(value / wanted).toBeCloseTo(1, 5)
  })

  it('has no step when nothing can be trained on', () => {
    expect(buildTrainingBatch(parseTrajectoryGroups([]), options).steps).toEqual([])
    expect(buildTrainingBatch(parseTrajectoryGroups([{ trajectories: [] }]), options).steps).toEqual([])
  })
})
