/**
 * `tokenizer.json` files of many kinds against what the reference implementation does with them.
 *
 * The goldens are made by `test/support/model/make-tokenizer-goldens.py`: small vocabularies with the normalizers,
 * pre-tokenizers, decoders and added tokens of well-known models, and texts that provoke their differences.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import type { JsonValue } from '#base/util/json.js'
import { createHuggingFaceTokenizer } from '#model/text/hf-tokenizer.js'
import { createStreamDecoder } from '#model/text/stream-decoder.js'

interface Golden {
  readonly tokenizer: JsonValue
  readonly cases: readonly {
    readonly text: string
    readonly ids: readonly number[]
    readonly withSpecial: readonly number[]
    readonly decoded: string
    readonly skipped: string
  }[]
}

const folder = new URL('../../../fixtures/tokenizers/', import.meta.url)
const files = readdirSync(folder).filter((name) => name.endsWith('.json'))

test('tokenizer goldens: there are files to check', () => {
  expect(files.length).toBeGreaterThan(8)
})

describe.each(files)('%s', (file) => {
  const golden: Golden = JSON.parse(readFileSync(new URL(file, folder), 'utf8'))
  const tokenizer = createHuggingFaceTokenizer(golden.tokenizer)

  test('encodes as the reference does', () => {
    const differences = golden.cases.flatMap(({ text, ids }) => {
      const got = tokenizer.encode(text, { parseSpecial: true })
      return got.join() === ids.join()
        ? []
        : [{ text, got: got.map(tokenizer.idToToken), want: ids.map(tokenizer.idToToken) }]
    })
    expect(differences).toEqual([])
  })

  test('adds special tokens as the reference does', () => {
    for (const { text, withSpecial } of golden.cases) {
      expect(tokenizer.encode(text, { parseSpecial: true, addSpecialTokens: true }), text).toEqual(withSpecial)
    }
  })

  test('decodes as the reference does', () => {
    const differences = golden.cases.flatMap(({ ids, decoded, skipped }) => {
      const got = tokenizer.decode(ids)
      const gotSkipped = tokenizer.decode(ids, { skipSpecialTokens: true })
      return got === decoded && gotSkipped === skipped ? [] : [{ ids, got, decoded, gotSkipped, skipped }]
    })
    expect(differences).toEqual([])
  })

  test('streams what it decodes', () => {
    for (const { ids, decoded } of golden.cases) {
      const decoder = createStreamDecoder(tokenizer)
      expect(ids.map((id) => decoder.push(id)).join('') + decoder.flush()).toBe(decoded)
    }
  })
})
