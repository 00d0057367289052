/** Exact ids, `token_id:` texts and token texts lead to the same sequences, on a real tokenizer and chat template. */
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import type { Rng } from '#base/util/rng.js'
import { parseTrajectoryGroups } from '#formats/rows/parse.js'
import { renderConversation } from '#model/text/render.js'
import { type TrainingSequence, tokenizeGroups } from '#training/rows/tokenize.js'
import { bindText } from '#training/worker/text-binding.js'
import { forSeeds } from '../../../support/model/random-trajectories.js'
import { createTinyTextModel } from '../../../support/model/tiny-tokenizer.js'

const model = createTinyTextModel(readFileSync(new URL('../../../fixtures/chatml.jinja', import.meta.url), 'utf8'))
const text = bindText(model)
const endOfTurn = model.tokenizer.tokenToId('<|im_end|>') ?? -1

const words = [
  'the',
  ' the',
  'abab',
  'ß',
  '東京',
  '🙂',
  '\n',
  '\n\n',
  ' ',
  '<|im_end|>',
  '<|im_start|>user',
  '<think>',
  'x',
]

function randomText(rng: Rng): string {
  return Array.from({ length: 1 + rng.integer(5) }, () => words[rng.integer(words.length)]).join('')
}

/** One sampled turn: what an inference server returns in each of the three forms. */
interface SampledTurn {
  readonly message: JsonObject
  readonly promptIds: number[]
  readonly ids: number[]
}

/** A conversation as it would be sampled: each prompt rendered from the messages so far, completions ended by the model. */
function sampleConversation(rng: Rng): (JsonObject | SampledTurn)[] {
  const items: (JsonObject | SampledTurn)[] = []
  const messages: JsonObject[] = []
  for (let turns = 1 + rng.integer(3); turns > 0; turns -= 1) {
    const user = { role: 'user', content: randomText(rng) }
    messages.push(user)
    const content = randomText(rng)
    const promptIds = renderConversation(model, { messages, addGenerationPrompt: true }).tokenIds
    const turn = {
      message: { role: 'assistant', content },
      promptIds,
      ids: [...model.tokenizer.encode(content), endOfTurn],
    }
    messages.push(turn.message)
    items.push(user, turn)
  }
  return items
}

const isTurn = (item: JsonObject | SampledTurn): item is SampledTurn => 'promptIds' in item

function tokenize(items: readonly unknown[], allowTrainingWithoutLogprobs = false): readonly TrainingSequence[] {
  const trajectories = [{ reward: 1, messages_and_choices: items }, { reward: 0 }]
  return tokenizeGroups(parseTrajectoryGroups([{ trajectories }]), {
    text,
    scaleRewards: true,
    lossAggregation: 'trajectory',
    allowTrainingWithoutLogprobs,
    maskTruncated: false,
  }).sequences
}

const logprob = (t: number): number => -(t + 1) / 16

const forms: Record<string, (turn: SampledTurn) => unknown> = {
  'exact ids': ({ message, promptIds, ids }) => ({
    message,
    prompt_token_ids: promptIds,
    token_ids: ids,
    logprobs: { content: ids.map((_, t) => ({ token: 'unused', logprob: logprob(t) })) },
  }),
  'token_id texts': ({ message, ids }) => ({
    message,
    logprobs: { content: ids.map((id, t) => ({ token: `token_id:${id}`, logprob: logprob(t) })) },
  }),
  'token texts with bytes': ({ message, ids }) => ({
    message,
    logprobs: {
      content: ids.map((id, t) => ({
        token: model.tokenizer.isSpecial(id) ? model.tokenizer.idToToken(id) : model.tokenizer.decode([id]),
        logprob: logprob(t),
        bytes: [...model.tokenizer.tokenBytes(id)],
      })),
    },
  }),
}

describe('the three ways to name sampled tokens', () => {
  for (const name of ['token_id texts', 'token texts with bytes']) {
    it(`give the same sequences: exact ids and ${name}`, () => {
      forSeeds(60, (rng) => {
        const items = sampleConversation(rng)
        const inForm = (form: string): readonly TrainingSequence[] =>
          tokenize(items.map((item) => (isTurn(item) ? forms[form](item) : item)))
        expect(inForm(name)).toEqual(inForm('exact ids'))
      })
    })
  }

  it('merge an ordinary conversation into one sequence that ends with its last end-of-turn token', () => {
    const items = [{ role: 'user', content: 'the abab' }, null, { role: 'user', content: 'x' }, null]
    const messages: JsonObject[] = []
    const sampled = items.map((item) => {
      if (item !== null) {
        messages.push(item)
        return item
      }
      const promptIds = renderConversation(model, { messages, addGenerationPrompt: true }).tokenIds
      messages.push({ role: 'assistant', content: 'the' })
      return forms['exact ids']({
        message: { role: 'assistant', content: 'the' },
        promptIds,
        ids: [...model.tokenizer.encode('the'), endOfTurn],
      })
    })
    const [sequence, ...others] = tokenize(sampled)
    expect(others).toEqual([])
    expect(sequence.tokenIds.at(-1)).toBe(endOfTurn)
    expect(model.tokenizer.decode([...sequence.tokenIds].filter((_, t) => sequence.lossMask[t] === 1))).toBe(
      'the<|im_end|>the<|im_end|>',
    )
  })

  it('render a plain assistant message like the sampler would have written it', () => {
    forSeeds(40, (rng) => {
      const items = sampleConversation(rng)
      const plain = tokenize(
        items.map((item) => (isTurn(item) ? item.message : item)),
        true,
      )
      const exact = tokenize(items.map((item) => (isTurn(item) ? forms['exact ids'](item) : item)))
      const trained = (sequences: readonly TrainingSequence[]): string =>
        sequences.map((s) => model.tokenizer.decode([...s.tokenIds].filter((_, t) => s.lossMask[t] === 1))).join('')
      expect(trained(plain)).toBe(trained(exact))
      for (const sequence of plain) expect(sequence.logprobs.every(Number.isNaN)).toBe(true)
    })
  })

  it('never turn text that spells a control token into that token', () => {
    const [sequence] = tokenize([
      { role: 'user', content: 'say <|im_end|>' },
      forms['token_id texts']({
        message: { role: 'assistant', content: 'x' },
        promptIds: [],
        ids: model.tokenizer.encode('x'),
      }),
    ])
    expect([...sequence.tokenIds].filter((id) => id === endOfTurn).length).toBe(1)
  })
})
