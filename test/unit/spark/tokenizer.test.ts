/**
 * The tokenizer, the chat template and packed rows of `trainyard/spark`, on a vocabulary small enough to train in a test.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { JsonValue } from '#base/util/json.js'
import { createRng } from '#base/util/rng.js'
import { parseToolCalls } from '#formats/answers/tool-calls.js'
import { renderConversation } from '#model/text/render.js'
import { renderWithMask } from '#model/text/render-with-mask.js'
import { loadTextModel, type TextModel } from '#model/text/text-model.js'
import { ABILITIES, abilityOf } from '../../spark/abilities/index.js'
import { trainingConversation } from '../../spark/data/conversations.js'
import {
  createPacker,
  encodeConversation,
  LOSS,
  openRows,
  REAL,
  START,
  writeMixture,
} from '../../spark/data/mixture.js'
import { evaluateAbility } from '../../spark/evaluation.js'
import { TEXT_SOURCES } from '../../spark/text/documents.js'
import { writeTextModel } from '../../spark/text-model/text-model-files.js'
import { learnMerges } from '../../spark/text-model/tokenizer.js'

let directory: string
let model: TextModel

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'spark-'))
  writeTextModel(directory, { vocabularySize: 600, sizeBytes: 60_000, seed: 'test' })
  model = await loadTextModel(directory)
}, 60_000)
afterAll(() => rmSync(directory, { recursive: true, force: true, maxRetries: 20 }))

/** Rows and documents are plain data; the text layer takes JSON. */
const asJson = (value: unknown): JsonValue[] => JSON.parse(JSON.stringify(value ?? []))

describe('tokenizer', () => {
  test('the most frequent pair merges first and words are not crossed', () => {
    const merges = learnMerges(['ababab ababab ababab xy xy xy'], 9 + 256 + 2)
    expect(merges).toEqual([
      ['a', 'b'],
      ['ab', 'ab'],
    ])
    expect(learnMerges(['a b a b a b a b a b'], 9 + 256 + 1)[0]).not.toEqual(['a', 'b'])
  })

  test('every text comes back, also with bytes that no merge has seen', () => {
    const rng = createRng('round trip')
    const texts = TEXT_SOURCES.flatMap((source) => Array.from({ length: 10 }, () => source.generate(rng, 'heldOut')))
    for (const text of [...texts, 'naïve 東京 🚂\n\n\ttabs  and   spaces ', '<|im_end|> is text here', '']) {
      expect(model.tokenizer.decode(model.tokenizer.encode(text))).toBe(text)
    }
  })

  test('digits are single tokens, with or without a space before them', () => {
    const { tokenizer } = model
    const spell = (text: string) => tokenizer.encode(text).map((id) => tokenizer.decode([id]))
    expect(spell('127+34')).toEqual(['1', '2', '7', '+', '3', '4'])
    expect(spell('a 12')).toEqual(['a', ' ', '1', '2'])
  })

  test('control tokens have fixed ids and are only read on request; tool tags are one token and no control token', () => {
    const { tokenizer } = model
    expect(['<|endoftext|>', '<|im_start|>', '<|im_end|>'].map((token) => tokenizer.tokenToId(token))).toEqual([
      0, 1, 2,
    ])
    expect(tokenizer.encode('<|im_end|>')).not.toEqual([2])
    expect(tokenizer.encode('<tool_call>')).toHaveLength(1)
    expect(tokenizer.decode(tokenizer.encode('<tool_call>'), { skipSpecialTokens: true })).toBe('<tool_call>')
    expect(model.eosTokenIds).toEqual([2, 0])
  })

  test('the same seed gives the same merges', () => {
    const texts = ['the cat sat on the mat', 'the rat sat on the hat']
    expect(learnMerges(texts, 290)).toEqual(learnMerges(texts, 290))
  })
})

describe('chat template', () => {
  test('without a system prompt nothing is written before the question', () => {
    const { text } = renderConversation(model, { messages: [{ role: 'user', content: 'Hi' }] })
    expect(text).toBe('<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n')
  })

  test.each(ABILITIES.map(({ name }) => name))('%s: the fast form is the template, token by token', (name) => {
    const rng = createRng(`template ${name}`)
    for (let index = 0; index < 6; index++) {
      const conversation = trainingConversation(rng, abilityOf(name))
      const fast = encodeConversation(model.tokenizer, conversation)
      const { tokenIds, mask } = renderWithMask(model, {
        messages: asJson(conversation.messages),
        tools: asJson(conversation.tools),
      })
      expect(fast.ids).toEqual(tokenIds)
      expect(fast.mask).toEqual([...mask])
    }
  })

  test('a call that the template writes is a call that the parser reads', () => {
    const rng = createRng('calls')
    const ability = abilityOf('tool-call')
    for (let index = 0; index < 40; index++) {
      const row = ability.generate(rng, 'heldOut')
      const { ids, mask } = encodeConversation(model.tokenizer, row)
      const written = model.tokenizer.decode(
        ids.filter((_, at) => mask[at] === 1),
        { skipSpecialTokens: true },
      )
      const { toolCalls } = parseToolCalls(written, () => 'id')
      const wanted = row.messages[row.messages.length - 1]?.tool_calls ?? []
      expect(toolCalls.map((call) => call.function)).toEqual(wanted.map((call) => call.function))
      expect(ability.score(row, written)).toBe(1)
    }
  })
})

describe('mixture', () => {
  const sequences = [5, 3, 8, 2, 7].map((length, index) => ({
    ids: Array.from({ length }, () => index + 1),
    mask: Array.from({ length }, (_, at) => (at > 1 ? 1 : 0)),
  }))

  test('packing keeps every sequence whole, marks its start and its trained tokens, and pads the rest', () => {
    const packer = createPacker({ rowLength: 10, paddingId: 0 })
    const rows = [...sequences.flatMap((sequence) => packer.add(sequence)), ...packer.finish()]
    const found: number[] = []
    for (const { ids, flags } of rows) {
      expect(ids.length).toBe(10)
      for (let at = 0; at < 10; at++) {
        const flag = flags[at]!
        expect(ids[at] === 0).toBe((flag & REAL) === 0)
        if ((flag & START) === 0) continue
        const { ids: wanted, mask } = sequences[ids[at]! - 1]!
        expect([...ids.slice(at, at + wanted.length)]).toEqual(wanted)
        expect([...flags.slice(at, at + wanted.length)].map((bits) => (bits & LOSS) / LOSS)).toEqual(mask)
        found.push(ids[at]!)
      }
    }
    expect(found.sort()).toEqual([1, 2, 3, 4, 5])
  })

  test('the same seed writes the same bytes, another seed others; the file reads back', () => {
    const write = (seed: string, name: string) =>
      writeMixture(join(directory, name), {
        tokenizer: model.tokenizer,
        tokens: 60_000,
        rowLengths: [128, 512],
        seed,
        heldOutCount: 5,
      })
    const first = write('a', 'first')
    const digests = ({ train }: typeof first) => train.map(({ sha256 }) => sha256)
    expect(digests(write('a', 'second'))).toEqual(digests(first))
    expect(digests(write('b', 'third'))).not.toEqual(digests(first))
    expect(Object.keys(first.sources).sort()).toEqual([...ABILITIES, ...TEXT_SOURCES].map(({ name }) => name).sort())
    let tokens = 0
    for (const { file, rowLength, rows: count } of first.train) {
      const rows = openRows(join(directory, 'first', file), rowLength)
      for (let index = 0; index < count; index++)
        tokens += rows.read(index).flags.filter((flag) => (flag & REAL) !== 0).length
      expect(() => rows.read(count)).toThrow(/has no row/)
      rows.close()
    }
    expect(tokens).toBe(first.tokens)
  }, 60_000)
})

describe('evaluation', () => {
  test('a server that knows the references gets 1, one that always says the same gets less', async () => {
    const ability = abilityOf('sort')
    const { heldOutRows } = await import('../../spark/data/conversations.js')
    const answers = new Map(
      heldOutRows(ability, 20).map(({ messages }) => [messages[0]!.content, messages[1]!.content]),
    )
    const askAll = async (request: object) => {
      const { messages } = request as { messages: { content: string }[] }
      return { role: 'assistant', content: answers.get(messages[0]!.content) ?? '' }
    }
    const right = await evaluateAbility(ability, { count: 20, concurrency: 3, ask: askAll })
    expect([right.rows, right.score, right.exact]).toEqual([20, 1, 1])
    const same = await evaluateAbility(ability, {
      count: 20,
      concurrency: 3,
      ask: async () => ({ role: 'assistant', content: '1, 2' }),
    })
    expect(same.score).toBeLessThan(0.2)
  })
})
