/**
 * llama.cpp's own tokenizer vectors, for every vocabulary whose pre-tokenizer we claim to know.
 *
 * The files come from `node test/support/fetch-llama-vocab.js`; without them the tests are skipped.
 */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { loadTextModel } from '#model/text/text-model.js'

const directory = join(import.meta.dirname, '..', '..', '..', '.cache', 'llama-vocab')

/** llama.cpp's names: gpt-2, qwen2, llama-bpe and llama-spm are the required ones. */
const vocabularies = [
  ...[
    'gpt-2',
    'qwen2',
    'llama-bpe',
    'llama-spm',
    'phi-3',
    'qwen35',
    'starcoder',
    'refact',
    'command-r',
    'falcon',
    'mpt',
  ],
  ...['deepseek-coder', 'deepseek-llm', 'gemma-4'],
]

describe.skipIf(!existsSync(directory))('llama.cpp tokenizer vectors (skipped without .cache/llama-vocab)', () => {
  for (const name of vocabularies) {
    const path = join(directory, `ggml-vocab-${name}.gguf`)
    test.skipIf(!existsSync(`${path}.out`))(`${name}: every text gives llama.cpp's tokens`, async () => {
      const { tokenizer } = await loadTextModel(path)
      const texts = readFileSync(`${path}.inp`, 'utf8').split('\n__ggml_vocab_test__\n')
      const expected = readFileSync(`${path}.out`, 'utf8').split('\n').slice(0, texts.length)
      const failures = texts.flatMap((text, i) => {
        const got = tokenizer.encode(text).join(' ')
        const want = (expected[i] ?? '').trim()
        return got === want ? [] : [{ text, got, want }]
      })
      expect(failures).toEqual([])
      expect(texts.length).toBeGreaterThan(40)
    })
  }
})
