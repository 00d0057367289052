/**
 * What is noted of an RL job's tokens, against references in float64: log-probabilities and entropies of the policy by the reference
 * decoder, ratios, advantages and weights by their formulas (`src/docs/reference/how-training-works.md`). Tolerances: 2e-4 nats for what the
 * float32 graph computes, 1e-5 relative for what follows from noted numbers.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import { parseTrajectoryGroups } from '#formats/rows/parse.js'
import type { AdapterWeights } from '#model/weights/adapter.js'
import { createRolloutFiles, type RolloutsFile } from '#plugins/job-data/rollouts-file.js'
import { trainRl } from '#training/kinds/rl/rl-job.js'
import { createRolloutNotes } from '#training/rollouts/rollout-notes.js'
import type { TrajectoryText } from '#training/rows/turns.js'
import { sequenceRow } from '#training/trainer/row-batch.js'
import { formulaWeights } from '../../support/model/decoder-goldens.js'
import { resolveRlConfig } from '../../support/model/job-options.js'
import {
  createTrainingFixture,
  randomSequence,
  SMALL_CONFIG,
  type TrainingFixture,
  withRandomB,
} from '../../support/model/training-fixture.js'
import { referenceLogp } from '../../support/reference/reference-decoder.js'

let fixture: TrainingFixture
let folder: string
beforeAll(async () => {
  fixture = await createTrainingFixture()
  folder = await mkdtemp(join(tmpdir(), 'trainyard-rollouts-'))
})
afterAll(async () => {
  await fixture.close()
  await rm(folder, { recursive: true, force: true })
})

const TEXT: TrajectoryText = {
  vocabularySize: SMALL_CONFIG.vocabularySize,
  renderPrompt: () => [1, 2, 3],
  renderLastTurn: () => ({ tokenIds: [1], mask: [1] }),
  leftOutOf: () => [],
  textOf: (ids) => ids.join(' '),
  isControl: () => false,
  tokenIdOf: () => null,
}
const NAMES = { bytesOf: (id: number) => Buffer.from(`<${id}>`), isControl: (id: number) => id === 7 }

/** Answers of different length behind one prompt, so that it is stored once; `lengths` by trajectory. */
function group(name: string, rewards: readonly number[], prompt: readonly number[] = [4, 5, 6, 7, 8]) {
  return {
    trajectories: rewards.map((reward, i) => {
      const ids = [...randomSequence(`${name} ${i}`, 9 + 3 * i, 0).tokenIds]
      return {
        reward,
        messages_and_choices: [
          { role: 'user', content: `asked in ${name}` },
          {
            index: 0,
            finish_reason: i === 1 ? 'length' : 'stop',
            message: { role: 'assistant', content: `answer ${i}` },
            prompt_token_ids: [...prompt],
            token_ids: ids,
            logprobs: {
              content: ids.map((id, t) => ({ token: `token_id:${id}`, logprob: -3 - t / 16, top_logprobs: [] })),
            },
          },
        ],
      }
    }),
  }
}

const GROUPS = [
  group('mixed', [1, 0, 0.25, 0]),
  group('flat', [0.5, 0.5]),
  group('alone', [1]),
  group('long', [0, 1], [4, ...randomSequence('long', 40, 0).tokenIds]),
]

function begin(config: JsonObject, { isNoted = true, maxBytes = 2 ** 20, isRandom = true } = {}) {
  const groups = parseTrajectoryGroups(JSON.parse(JSON.stringify(GROUPS)))
  const context = fixture.context('rollouts')
  const adapter = isRandom ? withRandomB(context.adapter, 'rollouts') : context.adapter
  const start = { ...adapter, a: copy(adapter.a), b: copy(adapter.b) }
  const rollouts = isNoted ? createRolloutNotes(NAMES, maxBytes) : null
  const hyperparameters = resolveRlConfig(config)
  const job = { groups, hyperparameters, text: TEXT, padTokenId: 0, currentStep: 3, rollouts }
  return { start, adapter, rollouts, running: trainRl(job, { ...context, adapter }) }
}

async function train(config: JsonObject, options: Parameters<typeof begin>[1] = {}) {
  const { start, adapter, rollouts, running } = begin(config, options)
  let next = await running.next()
  while (next.done !== true) next = await running.next()
  return { start, adapter, notes: rollouts?.encode() ?? null }
}

function copy(map: ReadonlyMap<string, Float32Array>): Map<string, Float32Array> {
  return new Map([...map].map(([path, values]) => [path, values.slice()]))
}

async function open(bytes: Uint8Array): Promise<RolloutsFile> {
  const path = join(folder, `${Math.floor(performance.now() * 1000)}`)
  await writeFile(path, bytes)
  return createRolloutFiles({ localFile: async () => path }).open('a'.repeat(64))
}

/** The weights that base and adapter make together, float64. */
function merged({ config, a, b }: AdapterWeights): Map<string, Float64Array> {
  const weights = new Map(
    [...formulaWeights(SMALL_CONFIG)].map(([name, { data }]) => [name, Float64Array.from(data)] as const),
  )
  for (const [path, values] of a) {
    const [name, weight] = [...weights].find(([key]) => key.endsWith(`${path}.weight`)) ?? []
    if (name === undefined || weight === undefined) throw new Error(`no weight for ${path}`)
    const right = b.get(path) ?? new Float32Array(0)
    const inner = values.length / config.rank
    for (let o = 0; o < right.length / config.rank; o++) {
      for (let i = 0; i < inner; i++) {
        let sum = 0
        for (let r = 0; r < config.rank; r++) {
          sum += (right[o * config.rank + r] as number) * (values[r * inner + i] as number)
        }
        weight[o * inner + i] = (weight[o * inner + i] as number) + (config.alpha / config.rank) * sum
      }
    }
  }
  return weights
}

const ROOM = Buffer.alloc(80 * 1024 ** 2)

describe('notes of rollouts', () => {
  it('are what the reference computes of the same tokens, token by token', async () => {
    // three rows of ART's and a rate of 0: every step sees the policy of the start
    const { start, notes } = await train({ learning_rate: 0, packed_sequence_length: 64 })
    const file = await open(notes!.bytes)
    const { head } = file
    expect(head.sequences).toHaveLength(6)
    expect(new Set(head.sequences.map(({ step }) => step)).size).toBeGreaterThan(1)
    const weights = merged(start)
    const vocabulary = Array.from({ length: SMALL_CONFIG.vocabularySize }, (_, label) => label)
    for (const sequence of head.sequences) {
      const { ids, isTrained, columns } = await file.readTokens(sequence, 0, sequence.length)
      const sent = GROUPS[sequence.group]!.trajectories[sequence.trajectory]!.messages_and_choices[1] as {
        prompt_token_ids: number[]
        token_ids: number[]
        logprobs: { content: { logprob: number }[] }
      }
      const prompt = sent.prompt_token_ids.length
      expect([...ids]).toEqual([...sent.prompt_token_ids, ...sent.token_ids])
      expect([...isTrained]).toEqual([...ids.keys()].map((t) => (t < prompt ? 0 : 1)))
      const row = sequenceRow(ids, isTrained)
      for (let t = prompt; t < ids.length; t++) {
        const at = { position: t - 1, row: 0, index: t }
        const all = referenceLogp(
          SMALL_CONFIG,
          weights,
          [row],
          vocabulary.map((label) => ({ ...at, label })),
        )
        const [sampler, old, learner, ratio, entropy] = (
          ['sampler_logprob', 'old_logprob', 'learner_logprob', 'ratio', 'entropy'] as const
        ).map((name) => columns.get(name)![t]!)
        expect(Math.abs(learner! - all[ids[t]!]!)).toBeLessThan(2e-4)
        expect(Math.abs(entropy! + all.reduce((sum, logp) => sum + Math.exp(logp) * logp, 0))).toBeLessThan(2e-4)
        expect(sampler).toBe(Math.fround(sent.logprobs.content[t - prompt]!.logprob))
        expect(old).toBe(sampler)
        expect(Math.abs(ratio! / Math.exp(learner! - old!) - 1)).toBeLessThan(1e-5)
      }
    }
    // advantages and weights by the closed form: centred, over the standard deviation, over the mean size; equal shares
    const trained = [0, 3].flatMap((g) => GROUPS[g]!.trajectories.map(({ reward }, t) => ({ g, t, reward })))
    const raw = trained.map(({ g, reward }) => {
      const rewards = GROUPS[g]!.trajectories.map((each) => each.reward)
      const mean = rewards.reduce((sum, each) => sum + each, 0) / rewards.length
      const deviation = Math.sqrt(rewards.reduce((sum, each) => sum + (each - mean) ** 2, 0) / rewards.length)
      return (reward - mean) / (deviation + 1e-6)
    })
    const size = raw.reduce((sum, each) => sum + Math.abs(each), 0) / raw.length
    const total = trained.reduce((sum, { t }) => sum + 9 + 3 * t, 0)
    trained.forEach(({ g, t }, i) => {
      const listed = head.groups[g]!.trajectories[t]!
      expect(Math.abs(listed.advantage! - raw[i]! / size)).toBeLessThan(1e-5)
      expect(Math.abs(listed.weight! / (total / trained.length / (9 + 3 * t)) - 1)).toBeLessThan(1e-5)
      expect(listed.tokens).toBe(9 + 3 * t)
    })
  })

  it('say of what does not train why, and what a group was asked', async () => {
    const { notes } = await train({ learning_rate: 0 })
    const { head } = await open(notes!.bytes)
    expect(notes).toMatchObject({ groups: 4, trajectories: 9 })
    expect(head.groups.map(({ preview }) => preview)).toEqual(
      ['mixed', 'flat', 'alone', 'long'].map((name) => `asked in ${name}`),
    )
    expect(head.groups[1]!.trajectories.map(({ left_out: reason }) => reason)).toEqual([
      'equal_rewards',
      'equal_rewards',
    ])
    expect(head.groups[2]!.trajectories[0]).toMatchObject({ left_out: 'single_trajectory', tokens: 0 })
    expect(head.groups[0]!.trajectories.map(({ is_cut: isCut }) => isCut === true)).toEqual([false, true, false, false])
    const short = await train({ learning_rate: 0, packed_sequence_length: 32 })
    const left = (await open(short.notes!.bytes)).head.groups[3]!.trajectories
    expect(left.map(({ left_out: reason }) => reason)).toEqual(['overlength', 'overlength'])
    expect(head.parent_step).toBe(3)
  })

  it("follow the policy: old log-probabilities are the trainer's own where they are computed, and later steps see the update", async () => {
    const config = { learning_rate: 0.05, precalculate_logprobs: true, packed_sequence_length: 64 }
    const file = await open((await train(config)).notes!.bytes)
    expect(file.head.columns).toContain('old_logprob')
    let moved = 0
    for (const sequence of file.head.sequences) {
      const { isTrained, columns } = await file.readTokens(sequence, 0, sequence.length)
      isTrained.forEach((bit, t) => {
        if (bit === 0) return
        const [old, learner, ratio] = (['old_logprob', 'learner_logprob', 'ratio'] as const).map(
          (name) => columns.get(name)![t]!,
        )
        expect(Math.abs(ratio! / Math.exp(learner! - old!) - 1)).toBeLessThan(1e-5)
        if (sequence.step === 1) expect(Math.abs(ratio! - 1)).toBeLessThan(1e-4)
        else moved = Math.max(moved, Math.abs(ratio! - 1))
      })
    }
    expect(moved).toBeGreaterThan(0.01)
  })

  it('change no bit of what is learnt', async () => {
    const config = { learning_rate: 0.05, packed_sequence_length: 64 }
    const [noted, plain] = [await train(config), await train(config, { isNoted: false })]
    for (const [path, values] of plain.adapter.b) expect(noted.adapter.b.get(path)).toEqual(values)
    expect(plain.notes).toBeNull()
  })

  it('count what was not trained because the job ended before its step, apart from what was too much to keep', async () => {
    const { rollouts, running } = begin({ learning_rate: 0, packed_sequence_length: 64 })
    for await (const { type } of running) if (type === 'gradient_step') break
    const { head } = await open(rollouts!.encode()!.bytes)
    expect(head.sequences.length).toBeGreaterThan(0)
    expect({ omitted: head.omitted, untrained: head.untrained }).toEqual({
      omitted: 0,
      untrained: 6 - head.sequences.length,
    })
    expect(head.untrained).toBeGreaterThan(0)
  })

  it('count what an earlier attempt trained', async () => {
    const rollouts = createRolloutNotes(NAMES, 1024)
    const clip = { low: null, high: null }
    rollouts.begin({ groups: [], clip, parentStep: 0, stepSequences: [3, 2, 4], stepsBefore: 1 })
    expect((await open(rollouts.encode()!.bytes)).head).toMatchObject({ omitted: 3, untrained: 6 })
  })

  it('keep what fits, count the rest, and name every token they keep', async () => {
    const { notes } = await train({ learning_rate: 0, packed_sequence_length: 64 }, { maxBytes: 900 })
    const file = await open(notes!.bytes)
    expect(file.head.sequences.length).toBeGreaterThan(0)
    expect(file.head.sequences.length + file.head.omitted).toBe(6)
    expect(file.head.untrained).toBe(0)
    const pieces = await file.readPieces()
    for (const sequence of file.head.sequences) {
      for (const id of await file.readIds(sequence)) {
        expect(Buffer.from(pieces.get(id)!.bytes).toString()).toBe(`<${id}>`)
        expect(pieces.get(id)!.isControl).toBe(id === 7)
      }
    }
    // a part of a sequence is that part of the whole
    const [sequence] = file.head.sequences
    const whole = await file.readTokens(sequence!, 0, sequence!.length)
    const part = await file.readTokens(sequence!, 4, 9)
    expect([...part.ids]).toEqual([...whole.ids.slice(4, 9)])
    for (const [name, values] of part.columns) expect(values).toEqual(whole.columns.get(name)!.slice(4, 9))
  })

  it('that are damaged are refused, and none are made of a file that is none', async () => {
    const { notes } = await train({ learning_rate: 0 })
    const { head } = await open(notes!.bytes)
    /** As large as it says: nothing but the bounds refuses it. */
    const claiming = (claim: object) => Buffer.concat([Buffer.from(`${JSON.stringify({ ...head, ...claim })}\n`), ROOM])
    for (const bytes of [
      Buffer.from('{"version":2}\n'),
      Buffer.from('no line'),
      Buffer.from('{"version":1'),
      Buffer.alloc(0),
      claiming({ pieces: { offset: 0, count: 2 ** 20 + 1, bytes: 0 } }),
      claiming({ pieces: { offset: 0, count: 1, bytes: 2 ** 26 + 1 } }),
      claiming({ sequences: [{ ...head.sequences[0], length: 2 ** 20 + 1 }] }),
    ]) {
      await expect(open(bytes)).rejects.toMatchObject({ code: 'rollouts_damaged' })
    }
    const cut = await open(notes!.bytes.subarray(0, notes!.bytes.length - 600))
    await expect(cut.readPieces()).rejects.toMatchObject({ code: 'rollouts_damaged' })
  })
})
