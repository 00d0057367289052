/**
 * RL jobs on answers that say how they were sampled: sampler and trainer agree on the distribution that was sampled, references and passes
 * before the first step are taken of the same one, and what cannot be done is said.
 *
 * Answers are given log q as float64 has it of the trainer's own logits, at a temperature of their own and from sets.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import { rolloutsHeadSchema } from '#contract/processes/rollouts.js'
import { parseTrajectoryGroups } from '#formats/rows/parse.js'
import { readRotaryFrequencies } from '#model/architectures/rotary-frequencies.js'
import { trainRl } from '#training/kinds/rl/rl-job.js'
import { createRolloutNotes, type RolloutNotes } from '#training/rollouts/rollout-notes.js'
import type { TrajectoryText } from '#training/rows/turns.js'
import { reportWarnings } from '#training/trainer/report.js'
import { sequenceRow, toRowBatch } from '#training/trainer/row-batch.js'
import { openRowSession } from '#training/trainer/row-session.js'
import { buildLogitsGraph } from '#training/trainer/train-graph.js'
import { resolveRlConfig } from '../../support/model/job-options.js'
import {
  createTrainingFixture,
  randomSequence,
  SMALL_CONFIG,
  type TrainingFixture,
} from '../../support/model/training-fixture.js'

const PROMPT = [4, 5, 6]
const ANSWERS = 6
const text: TrajectoryText = {
  vocabularySize: SMALL_CONFIG.vocabularySize,
  renderPrompt: () => PROMPT,
  renderLastTurn: () => ({ tokenIds: [1], mask: [1] }),
  leftOutOf: () => [],
  textOf: (ids) => ids.join(' '),
  isControl: () => false,
  tokenIdOf: () => null,
}

let fixture: TrainingFixture
/** Of each answer the logits of the base model before each of its tokens; a new adapter changes none. */
const answers: { readonly ids: number[]; readonly logits: number[][] }[] = []
beforeAll(async () => {
  fixture = await createTrainingFixture()
  const { prepared, runtime } = fixture
  const tensors = prepared.tensors('f32')
  const frequencies = await readRotaryFrequencies(tensors)
  const session = await openRowSession(buildLogitsGraph({ config: SMALL_CONFIG, tensors, adapter: null }), {
    runtime,
    directory: prepared.directory,
    frequencies,
    threads: 1,
  })
  for (let i = 0; i < ANSWERS; i += 1) {
    const ids = [...randomSequence(`answer ${i}`, 12, 0).tokenIds]
    const tokens = Int32Array.from([...PROMPT, ...ids])
    const { logits } = await session.run(toRowBatch([sequenceRow(tokens, new Uint8Array(tokens.length).fill(1))]), {})
    const values = logits!.data as Float32Array
    const at = (t: number) => [
      ...values.subarray(t * SMALL_CONFIG.vocabularySize, (t + 1) * SMALL_CONFIG.vocabularySize),
    ]
    answers.push({ ids, logits: ids.map((_, t) => at(PROMPT.length + t - 1)) })
  }
  await session.release()
})
afterAll(() => fixture.close())

/** log q of an id among some at a temperature, in float64. */
function logq(logits: readonly number[], id: number, temperature: number, among: readonly number[] | null): number {
  const z = (among ?? logits.map((_, v) => v)).map((v) => logits[v]! / temperature)
  const top = Math.max(...z)
  return logits[id]! / temperature - top - Math.log(z.reduce((sum, each) => sum + Math.exp(each - top), 0))
}

/** The nucleus of 0.8 at a temperature, with what was sampled. */
function nucleus(logits: readonly number[], id: number, temperature: number): number[] {
  const order = logits.map((_, v) => v).sort((a, b) => logits[b]! - logits[a]!)
  const kept: number[] = []
  for (let mass = 0; mass < 0.8; ) {
    const next = order[kept.length]!
    mass += Math.exp(logq(logits, next, temperature, null))
    kept.push(next)
  }
  return kept.includes(id) ? kept : [...kept, id]
}

type Sampling = 'full' | 'temperature alone'

/** Answers at a temperature of each, every second token from its nucleus, every third from four words as a grammar leaves them. */
function groups(sampling: Sampling, extra: (index: number) => JsonObject = () => ({})) {
  const trajectories = answers.map(({ ids, logits }, i) => {
    const temperature = [0.3, 0.5, 1.7, 2, 0.5, 1][i]!
    const sets = ids.map((id, t): number[] => {
      if (sampling !== 'full') return []
      if (t % 3 === 0) return [...new Set([id, 1, 2, 3])]
      return t % 2 === 0 ? nucleus(logits[t]!, id, temperature) : []
    })
    const record = {
      temperature,
      top_p: 0.8,
      logprobs: ids.map((id, t) => logq(logits[t]!, id, temperature, sets[t]!.length > 0 ? sets[t]! : null)),
      kept: { counts: sets.map((set) => set.length), ids: sets.flat() },
    }
    const logprob = (t: number) => logq(logits[t]!, ids[t]!, 1, null)
    return {
      reward: i % 2,
      messages_and_choices: [
        { role: 'user', content: 'x' },
        {
          finish_reason: 'stop',
          message: { role: 'assistant', content: 'y' },
          prompt_token_ids: PROMPT,
          token_ids: ids,
          logprobs: { content: ids.map((id, t) => ({ token: `token_id:${id}`, logprob: logprob(t) })) },
          sampling: sampling === 'full' ? record : { temperature },
          ...extra(i),
        },
      ],
      initial_policy_version: 0,
    }
  })
  return parseTrajectoryGroups(JSON.parse(JSON.stringify([{ trajectories }])))
}

async function run(config: JsonObject, rows: ReturnType<typeof groups>, rollouts: RolloutNotes | null = null) {
  const context = fixture.context('sampled')
  const hyperparameters = resolveRlConfig(config)
  const job = trainRl({ groups: rows, hyperparameters, text, padTokenId: 0, currentStep: 0, rollouts }, context)
  const steps: Readonly<Record<string, number>>[] = []
  for await (const event of job) if (event.type === 'gradient_step') steps.push(event.data)
  const { report } = context.progress
  return { steps, facts: report.facts, warnings: reportWarnings(report, steps.length), adapter: context.adapter }
}

describe('an RL job on answers that say how they were sampled', () => {
  it('agrees with the sampler: the same distributions, a ratio of 1', async () => {
    const { steps, facts, warnings } = await run({}, groups('full'))
    expect(facts['sampler_mismatch']!['kl']).toBeLessThan(1e-9)
    expect(facts['sampling']).toMatchObject({ recorded: 72, unknown: 0, unmodelled: 0 })
    expect(steps[0]!['importance_ratio_mean']).toBeCloseTo(1, 5)
    expect(warnings.filter((each) => each.includes('sampl'))).toEqual([])
  })

  it('does not with sampling_ratio raw, where raw numbers are compared, and says what it leaves unread', async () => {
    const raw = await run({ sampling_ratio: 'raw' }, groups('full'))
    expect(raw.facts['sampler_mismatch']!['kl']).toBeLessThan(1e-9)
    expect(raw.facts['sampling']).toMatchObject({ ignored: 72 })
    expect(raw.warnings.join()).toContain('sampling_ratio raw')
    const sampled = await run({}, groups('full'))
    const [path, values] = [...sampled.adapter.b][0]!
    expect(raw.adapter.b.get(path)).not.toEqual(values)
  })

  it('takes references and passes before the first step of the same distributions: k3 begins at 0', async () => {
    const options = { beta: 0.1, kl_penalty_coef: 0.1, precalculate_logprobs: true }
    const { steps } = await run(options, groups('full'))
    // a new adapter is the base model, which is the reference
    expect(Math.abs(steps[0]!['kl_policy_ref']!)).toBeLessThan(1e-6)
    expect(steps[0]!['importance_ratio_mean']).toBeCloseTo(1, 5)
  })

  it('computes what nobody wrote down, of answers of its first step, and says so', async () => {
    const { steps, facts, warnings } = await run(
      { packed_sequence_length: 16, learning_rate: 0.05 },
      groups('temperature alone'),
    )
    // at temperature 1 the raw numbers are log q
    expect(facts['sampling']).toMatchObject({ computed: 60, unknown: 0 })
    expect(warnings.join()).toContain('60 tokens were drawn at a temperature')
    expect(steps[0]!['importance_ratio_mean']).toBeCloseTo(1, 5)
    // by a later step the policy has moved from the one that sampled
    expect(Math.abs(steps.at(-1)!['importance_ratio_mean']! - 1)).toBeGreaterThan(1e-4)
  })

  it('counts what others sampled as the policy being trained, and says so by name', async () => {
    const rows = groups('temperature alone').map((group) => ({
      ...group,
      trajectories: group.trajectories.map((each) => ({ ...each, initialPolicyVersion: null })),
    }))
    const { steps, warnings } = await run({ packed_sequence_length: 16, learning_rate: 0.05 }, rows)
    expect(warnings.join()).toContain('60 of 72 sampled tokens were drawn at another temperature')
    const ofOthers = steps.filter((step) => step['importance_ratio_mean'] === 1)
    expect(ofOthers.length).toBeGreaterThanOrEqual(5)
    const penalized = groups('full', () => ({
      sampling: { temperature: 0.5, logprobs: answers[0]!.ids.map(() => -1), unmodelled: ['repetition_penalty'] },
    }))
    const found = await run({}, penalized)
    expect(found.warnings.join()).toContain('repetition_penalty (72 tokens)')
    expect(found.steps[0]!['importance_ratio_mean']).toBe(1)
  })

  it('notes of each token how it was drawn, and nothing of plain ones', async () => {
    const noted = async (rows: ReturnType<typeof groups>) => {
      const notes = createRolloutNotes({ bytesOf: () => new Uint8Array(0), isControl: () => false }, 2 ** 20)
      await run({}, rows, notes)
      const { bytes } = notes.encode()!
      const start = bytes.indexOf(10) + 1
      return {
        head: rolloutsHeadSchema.parse(JSON.parse(Buffer.from(bytes.subarray(0, start)).toString())),
        bytes,
        start,
      }
    }
    const { head, bytes, start } = await noted(groups('full'))
    const third = head.sequences.find(({ trajectory }) => trajectory === 2)!
    const column = (name: 'temperature' | 'kept') => {
      const at = start + third.offset + 4 * (third.length + third.trained * head.columns.indexOf(name))
      return [...new Float32Array(Uint8Array.from(bytes.subarray(at, at + 4 * third.trained)).buffer)]
    }
    expect(column('temperature')).toEqual(Array(12).fill(Math.fround(1.7)))
    // four words as a grammar leaves them, or a nucleus, or everything
    const [first, second, nucleusSize] = column('kept')
    expect(first).toBe(new Set([answers[2]!.ids[0], 1, 2, 3]).size)
    expect(second).toBeNaN()
    expect(nucleusSize).toBe(nucleus(answers[2]!.logits[2]!, answers[2]!.ids[2]!, 1.7).length)
    expect((await noted(groups('full', () => ({ sampling: null })))).head.columns).not.toContain('temperature')
  })

  it('leaves greedy answers out and says why', async () => {
    const rows = groups('full', (i) => (i === 1 ? { sampling: { temperature: 0 } } : {}))
    const { warnings, facts } = await run({}, rows)
    expect(facts['sampling']).toMatchObject({ greedy: 12 })
    expect(warnings.join()).toContain('12 of 72 sampled tokens were drawn at temperature 0')
  })

  it('gives the bits of plain answers to answers whose record says that they are', async () => {
    const plain = groups('full', () => ({ sampling: null }))
    const said = groups('full', (i) => ({
      sampling: {
        temperature: 1,
        logprobs: answers[i]!.ids.map((id, t) => logq(answers[i]!.logits[t]!, id, 1, null)),
      },
    }))
    const [first, second] = [await run({ learning_rate: 0.01 }, plain), await run({ learning_rate: 0.01 }, said)]
    for (const [path, values] of first.adapter.b) {
      expect(Buffer.from(second.adapter.b.get(path)!.buffer)).toEqual(Buffer.from(values.buffer))
    }
  })
})
