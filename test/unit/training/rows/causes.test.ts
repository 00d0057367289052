/**
 * Conversations that cannot become one sequence, each built so that one cause is at work, on a real tokenizer and templates:
 * what is trained then, and what the job's record says. And the same conversations with exact ids, which do merge.
 */
import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import type { JsonObject, JsonValue } from '#base/util/json.js'
import { parseTrajectoryGroups } from '#formats/rows/parse.js'
import { renderConversation } from '#model/text/render.js'
import type { TextModel } from '#model/text/text-model.js'
import { type TokenizedGroups, tokenizeGroups } from '#training/rows/tokenize.js'
import { bindText } from '#training/worker/text-binding.js'
import { createTinyTextModel } from '../../../support/model/tiny-tokenizer.js'

const template = (name: string): string =>
  readFileSync(new URL(`../../../fixtures/${name}.jinja`, import.meta.url), 'utf8')
const chatml = createTinyTextModel(template('chatml'))
const thinking = createTinyTextModel(template('thinking'))
/** Turns end with a line break, which is no control token: what follows can merge with it. */
const plain = createTinyTextModel(
  '{% for m in messages %}{{ m.role }}:{{ m.content }}\n\n\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}',
)
const END = '<|im_end|>'
/** Pieces that are one token; elsewhere in a text they would be encoded as characters. */
const CONTROL = [END, '<think>', '</think>', '<tool_call>', '</tool_call>']
/** Prints calls anew, as most templates do. */
const calling = createTinyTextModel(
  `{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %}{"arguments": {{ c.function.arguments | tojson }}}{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}`,
)

/** An assistant turn as it was sampled: `pieces` are encoded apart, so that they say where tokens begin. */
interface Sampled {
  readonly message: JsonObject
  readonly pieces: readonly string[]
  /** What the sampler was given; default what the template makes of the messages before. */
  readonly promptIds?: readonly number[]
}

/** @param hasExactPrompts choices say what they were prompted with, as ids that begin with all ids before */
function tokenize(
  model: TextModel,
  items: readonly (JsonObject | Sampled)[],
  hasExactPrompts = false,
): TokenizedGroups & { readonly trained: readonly string[] } {
  const { tokenizer } = model
  const idsOf = (pieces: readonly string[]): number[] =>
    pieces.flatMap((piece) =>
      CONTROL.includes(piece) ? (tokenizer.tokenToId(piece) ?? -1) : [...tokenizer.encode(piece)],
    )
  let ids: number[] = []
  let messages: JsonObject[] = []
  const sent = items.map((item): JsonValue => {
    if (!('pieces' in item)) {
      messages = [...messages, item as JsonObject]
      return item as JsonObject
    }
    const { message, pieces } = item as Sampled
    const kwargs = { enable_thinking: false }
    const rendered = renderConversation(model, { messages, addGenerationPrompt: true, kwargs })
    const text = tokenizer.decode([...rendered.tokenIds])
    // the server that sampled goes on from its own ids and encodes only what came since
    const known = tokenizer.decode(ids)
    const promptIds = text.startsWith(known) ? [...ids, ...tokenizer.encode(text.slice(known.length))] : ids
    const completionIds = idsOf(pieces)
    ids = [...promptIds, ...completionIds]
    messages = [...messages, message]
    return {
      message,
      finish_reason: 'stop',
      logprobs: {
        content: completionIds.map((id) => ({
          token: `token_id:${id}`,
          logprob: -1,
        })),
      },
      ...(hasExactPrompts ? { prompt_token_ids: promptIds, token_ids: completionIds } : {}),
    }
  })
  const trajectories = [
    { reward: 1, messages_and_choices: sent },
    { reward: 0, messages_and_choices: [] },
  ]
  const result = tokenizeGroups(parseTrajectoryGroups([{ trajectories }]), {
    text: bindText(model),
    scaleRewards: true,
    lossAggregation: 'trajectory',
    allowTrainingWithoutLogprobs: false,
    maskTruncated: false,
  })
  const trained = result.sequences.map(({ tokenIds, lossMask }) =>
    tokenizer.decode([...tokenIds].filter((_, t) => lossMask[t] === 1)),
  )
  return { ...result, trained }
}

const user = (content: string): JsonObject => ({ role: 'user', content })
const said = (content: string, pieces: readonly string[]): Sampled => ({
  message: { role: 'assistant', content },
  pieces,
})
const call = (sampled: string, args: string): Sampled => ({
  message: {
    role: 'assistant',
    content: '',
    tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: args } }],
  },
  pieces: [sampled, END],
})

const PATH = 'trajectory_groups[0].trajectories[0]'

interface Case {
  readonly model: TextModel
  readonly items: readonly (JsonObject | Sampled)[]
  readonly cause: 'other_tokens' | 'other_text'
  /** First token that differs: now, and before. */
  readonly first: readonly [string, string]
  /** Completions, each of which trains exactly once. */
  readonly trained: readonly string[]
}

const CASES: Readonly<Record<string, Case>> = {
  'the template drops the reasoning of an earlier turn': {
    model: thinking,
    items: [
      user('q'),
      // the sampler thought although it was told not to: the prompt's own empty block is taken away then
      said('<think>\nabab\n</think>\n\nthe', ['<think>', '\nabab\n', '</think>', '\n\n', 'the', END]),
      user('q'),
      said('x', ['x', END]),
    ],
    cause: 'other_text',
    first: ['the', '<think>'],
    trained: [`<think>\nabab\n</think>\n\nthe${END}`, `x${END}`],
  },
  'the empty thinking block of the prompt is in no later prompt': {
    model: thinking,
    items: [user('q'), said('the', ['the', END]), user('q'), said('x', ['x', END])],
    cause: 'other_text',
    first: ['the', '<think>'],
    trained: [`the${END}`, `x${END}`],
  },
  'white space was sampled in other tokens than the tokenizer writes': {
    model: chatml,
    items: [user('q'), said('a\n\n\nb', ['a', '\n', '\n', '\n', 'b', END]), user('q'), said('x', ['x', END])],
    cause: 'other_tokens',
    first: ['\n\n', '\n'],
    trained: [`a\n\n\nb${END}`, `x${END}`],
  },
  'a word was sampled in pieces that the tokenizer joins': {
    model: chatml,
    items: [user('q'), said('abab', ['a', 'b', 'ab', END]), user('q'), said('x', ['x', END])],
    cause: 'other_tokens',
    first: ['abab', 'a'],
    trained: [`abab${END}`, `x${END}`],
  },
  'the client wrote the arguments of a call down with other spacing': {
    model: calling,
    items: [
      user('q'),
      call('{"arguments": {"a":1}}', '{"a": 1}'),
      { role: 'tool', tool_call_id: 'c', content: 'the' },
      said('x', ['x', END]),
    ],
    cause: 'other_text',
    first: [' ', '1'],
    trained: [`{"arguments": {"a":1}}${END}`, `x${END}`],
  },
  'the client wrote the arguments of a call down in another order': {
    model: calling,
    items: [
      user('q'),
      call('{"arguments": {"x": 1, "y": 2}}', '{"y": 2, "x": 1}'),
      { role: 'tool', tool_call_id: 'c', content: 'the' },
      said('x', ['x', END]),
    ],
    cause: 'other_text',
    first: ['y', 'x'],
    trained: [`{"arguments": {"x": 1, "y": 2}}${END}`, `x${END}`],
  },
  'a token reaches over the end of the turn': {
    model: plain,
    // the sampler stopped after the first line break; the template writes it and the next one as one token
    items: [user('q'), said('the', ['the', '\n']), user('q'), said('x', ['x', '\n\n'])],
    cause: 'other_tokens',
    first: ['\n\n', '\n'],
    trained: ['the\n', 'x\n\n'],
  },
}

describe('a conversation is cut, trains all the same, and the record says why', () => {
  test.each(Object.entries(CASES))('%s', (_, { model, items, cause, first: [now, before], trained }) => {
    const result = tokenize(model, items)
    expect(result.trained).toEqual(trained)
    expect(result.unmergedHistoryCount).toBe(1)
    const other = { other_tokens: 'other_text', other_text: 'other_tokens' }[cause]
    expect(result.splits.counts).toEqual({ [cause]: 1, [other]: 0 })
    const [example] = result.splits.examples
    expect(example).toContain(`${PATH}: the prompt of turn 2 `)
    expect(example).toMatch(/from token \d+ on: \d+ ".+" instead of \d+ ".+"$/)
    const [nowText, beforeText] = [...example!.matchAll(/\d+ ("(?:[^"\\]|\\.)*")(?= instead|$)/g)].map(([, text]) =>
      JSON.parse(text!),
    )
    expect([nowText, beforeText]).toEqual([now, before])
  })
})

describe('exact ids decide where they exist', () => {
  const respelled = Object.entries(CASES).filter(([, { cause }]) => cause === 'other_tokens')
  test.each(respelled)('%s, and yet it is one sequence', (_, { model, items, trained }) => {
    const result = tokenize(model, items, true)
    expect(result.unmergedHistoryCount).toBe(0)
    expect(result.trained).toEqual([trained.join('')])
  })
})
