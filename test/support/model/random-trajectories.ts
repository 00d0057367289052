/**
 * Seeded random trajectories for property tests, and a text layer over a made-up template that needs no tokenizer files.
 *
 * The template writes each message as `<role> content words <end>`; a word is its own token, ids are given out by a table.
 */

import { createRng, type Rng } from '#base/util/rng.js'
import type { TrainingSequence } from '#training/rows/tokenize.js'
import type { Conversation, TrajectoryText } from '#training/rows/turns.js'

/** Runs a property for seeds 0..count-1; the failing seed is in the error's message. */
export function forSeeds(count: number, property: (rng: Rng) => void): void {
  for (let seed = 0; seed < count; seed += 1) {
    try {
      property(createRng(seed))
    } catch (cause) {
      throw new Error(`seed ${seed}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause })
    }
  }
}

/** A sequence from its tokens; `trained` are the indices with mask 1. */
export function sequenceOf(
  tokenIds: readonly number[],
  trained: readonly number[],
  extra: Partial<TrainingSequence> = {},
): TrainingSequence {
  const lossMask = Uint8Array.from(tokenIds, (_, t) => (trained.includes(t) ? 1 : 0))
  return {
    tokenIds: Int32Array.from(tokenIds),
    lossMask,
    logprobs: Float32Array.from(tokenIds, (id, t) => (lossMask[t] === 1 ? -id / 100 : Number.NaN)),
    advantage: 1,
    weight: 1,
    trainableTokenCount: trained.length,
    groupIndex: 0,
    trajectoryIndex: 0,
    isTruncated: false,
    ...extra,
  }
}

/** Sequences of several groups: some share a prompt inside their group, some have a prompt of their own. */
export function randomSequences(rng: Rng, maxLength: number): TrainingSequence[] {
  const sequences: TrainingSequence[] = []
  const groups = 1 + rng.integer(4)
  for (let groupIndex = 0; groupIndex < groups; groupIndex += 1) {
    const prompts = Array.from({ length: 1 + rng.integer(3) }, () => randomIds(rng, 1 + rng.integer(maxLength / 2)))
    const members = 1 + rng.integer(6)
    for (let trajectoryIndex = 0; trajectoryIndex < members; trajectoryIndex += 1) {
      const prompt = prompts[rng.integer(prompts.length)] ?? []
      const completion = randomIds(rng, 1 + rng.integer(maxLength - prompt.length))
      const trained = completion.map((_, t) => prompt.length + t).filter((_, t) => t === 0 || rng.uniform() < 0.8)
      sequences.push(
        sequenceOf([...prompt, ...completion], trained, {
          groupIndex,
          trajectoryIndex,
          advantage: rng.normal(),
          weight: rng.uniform() + 0.1,
        }),
      )
    }
  }
  return sequences
}

/** Ids from a small alphabet, so that accidental common prefixes happen. */
export function randomIds(rng: Rng, length: number): number[] {
  return Array.from({ length }, () => 10 + rng.integer(3))
}

/** The made-up template. `rendered` collects every conversation that was asked for. */
export function createWordText(
  options: { opensThinkBlock?: boolean } = {},
): TrajectoryText & { ids(text: string): number[]; rendered: Conversation[] } {
  const table = new Map<string, number>()
  const idOf = (word: string): number => {
    const known = table.get(word)
    if (known !== undefined) return known
    table.set(word, table.size)
    return table.size - 1
  }
  const ids = (text: string): number[] => text.split(' ').filter(Boolean).map(idOf)
  ids('<end> <think> </think> <system> <user> <assistant> <tool>')
  const rendered: Conversation[] = []
  const turn = (message: Conversation['messages'][number]): string =>
    `<${String(message['role'])}> ${String(message['content'])} <end>`
  return {
    ids,
    rendered,
    vocabularySize: 1000,
    renderPrompt: (conversation) => {
      rendered.push(conversation)
      const opening = options.opensThinkBlock === true ? '<think> </think>' : ''
      return ids(`${conversation.messages.map(turn).join(' ')} <assistant> ${opening}`)
    },
    renderLastTurn: (conversation) => {
      rendered.push(conversation)
      const before = ids(`${conversation.messages.slice(0, -1).map(turn).join(' ')} <assistant>`)
      const all = ids(conversation.messages.map(turn).join(' '))
      return { tokenIds: all, mask: all.map((_, t) => (t < before.length ? 0 : 1)) }
    },
    isControl: () => false,
    leftOutOf: ({ messages }) => messages.filter(({ role }) => role === 'unknown').map(({ role }) => String(role)),
    textOf: (some) => some.join(' '),
    tokenIdOf: (token) => table.get(token.text) ?? null,
  }
}
