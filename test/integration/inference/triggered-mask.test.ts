/**
 * A grammar that is followed from a trigger on says what the same grammar says that is followed from the first token: over the built-in
 * model's vocabulary, and over one that has tokens of a trigger and more.
 */
import { expect, test } from 'vitest'
import { systemClock } from '#base/util/clock.js'
import { createRng, type Rng } from '#base/util/rng.js'
import { compileGrammar } from '#inference/grammar/grammar.js'
import type { GrammarSpec } from '#inference/grammar/grammar-spec.js'
import { createTokenTable, type TokenTable, tokenBytes } from '#inference/grammar/token-table.js'
import { sparkDirectory } from '#model/built-in/spark.js'
import { loadTextModel } from '#model/text/text-model.js'

const tag = (trigger: string, begin: string): string =>
  JSON.stringify({
    type: 'structural_tag',
    format: {
      type: 'triggered_tags',
      triggers: [trigger],
      tags: [{ type: 'tag', begin, content: { type: 'regex', pattern: '[0-9]{1,3}' }, end: '!' }],
    },
  })
const ORDINARY = { isAtBeginning: false, isAfterReasoning: false }

const allows = (words: Uint32Array | null, id: number): boolean =>
  words === null || (((words[id >>> 5] ?? 0) >>> (id & 31)) & 1) === 1

/**
 * Random tokens, among them often those that begin or end a trigger, each allowed by the grammar that is always followed.
 *
 * @returns tokens that were taken without a mask, and with one
 */
async function compare(
  table: TokenTable,
  spec: GrammarSpec,
  near: RegExp,
  rng: Rng,
): Promise<readonly [number, number]> {
  const texts = Array.from(tokenBytes(table), (bytes) => Buffer.from(bytes).toString())
  const likely = texts.flatMap((text, id) => (near.test(text) ? [id] : []))
  const isWritten = (id: number): boolean => texts[id] !== ''
  if (spec.kind !== 'structural_tag') throw new Error('no tag')
  const { trigger: _, ...always } = spec
  const [lazy, full] = await Promise.all(
    [spec, always].map((one) => compileGrammar(one, table, { clock: systemClock })),
  )
  const counts: [number, number] = [0, 0]
  for (let answer = 0; answer < 40; answer++) {
    const [some, all] = [lazy?.open(), full?.open()]
    if (some === undefined || all === undefined) throw new Error('no mask')
    for (let step = 0; step < 60; step++) {
      const [own, reference] = [some.next(), all.next()]
      counts[own === null ? 0 : 1]++
      for (const [id] of texts.entries()) {
        if (isWritten(id) && allows(own, id) !== allows(reference, id)) {
          throw new Error(`${JSON.stringify(texts[id])}: ${own === null ? 'free' : 'masked'} in step ${step}`)
        }
      }
      const from = rng.uniform() < 0.6 ? likely : [...texts.keys()]
      const allowed = from.filter((id) => isWritten(id) && allows(reference, id))
      const any =
        allowed.length > 0 ? allowed : [...texts.keys()].filter((id) => isWritten(id) && allows(reference, id))
      const id = any[rng.integer(any.length)]
      if (id === undefined) break
      some.accept(id)
      all.accept(id)
    }
    some.close()
    all.close()
  }
  await Promise.all([lazy?.dispose(), full?.dispose()])
  return counts
}

test('where no token holds more than the trigger, text is free until one may have begun', async () => {
  const { tokenizer, eosTokenIds } = await loadTextModel(sparkDirectory())
  const table = await createTokenTable(tokenizer, tokenizer.vocabularySize, eosTokenIds)
  const spec: GrammarSpec = {
    kind: 'structural_tag',
    tag: tag('<tool_call>', '<tool_call>\n'),
    trigger: { ...ORDINARY, texts: ['<tool_call>'] },
  }
  const [free, masked] = await compare(table, spec, /<$|^(<?t|too?l?|_|c|call|call>|>|!|\d)$/, createRng(3n))
  expect(free).toBeGreaterThan(30)
  expect(masked).toBeGreaterThan(30)
})

test('where one does, every mask counts', async () => {
  const words = ['a', 'b', '[', '[[', '[x', '[[7', '[[x', 'a[', '7', '8', '!', '!a', '[[8!', ' ']
  const bytes = words.map((word) => Buffer.from(word))
  const starts = [0]
  for (const { length } of bytes) starts.push((starts.at(-1) ?? 0) + length)
  const offsets = new SharedArrayBuffer(4 * (starts.length + 1))
  new Uint32Array(offsets).set([...starts, starts.at(-1) ?? 0])
  const all = new SharedArrayBuffer(starts.at(-1) ?? 0)
  new Uint8Array(all).set(Buffer.concat(bytes))
  const table = { offsets, bytes: all, stopTokenIds: [words.length], controls: new Map() }
  const spec: GrammarSpec = {
    kind: 'structural_tag',
    tag: tag('[[', '[['),
    trigger: { ...ORDINARY, texts: ['[['] },
  }
  const [free, masked] = await compare(table, spec, /./, createRng(4n))
  expect(free).toBe(0)
  expect(masked).toBeGreaterThan(30)
})
