/**
 * Random models on disk: deterministic, written once, safe in a race, and never in the place of something else.
 */
import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { checkDecoderTensors, decoderConfigOf } from '../../../src/model/architectures/registry.js'
import { ensureTinyRandomModel, type RandomModel, writeRandomModel } from '../../../src/model/built-in/tiny-random.js'
import { openWeights } from '../../../src/model/weights/base-weights.js'
import { expectCode } from '../../support/expect-code.js'
import { temporaryDirectory } from '../../support/temporary-directory.js'

async function digestOf(directory: string): Promise<string> {
  const source = await openWeights(directory)
  return source.digest().finally(() => source.close())
}

test('the built-in model is the same on every machine', async () => {
  const directory = await ensureTinyRandomModel(join(await temporaryDirectory(), 'deep/er/tiny'))
  expect(await digestOf(directory)).toBe('dc816b5a7ed0bd6844d64e17c0ed003adbb01b81f6288a89c66da799908f42dc')
})

test('it is a whole Llama with a byte tokenizer and a chat template', async () => {
  const directory = await ensureTinyRandomModel(join(await temporaryDirectory(), 'tiny'))
  const source = await openWeights(directory)
  const config = decoderConfigOf(source)
  checkDecoderTensors(source, config)
  await source.close()
  expect(config).toMatchObject({ layerCount: 2, hiddenSize: 64, headCount: 4, kvHeadCount: 2, headSize: 16 })
  expect(config).toMatchObject({ mlpSize: 128, vocabularySize: 259, contextLength: 2048, isEmbeddingTied: true })
  const files = [
    'config.json',
    'generation_config.json',
    'model.safetensors',
    'tokenizer.json',
    'tokenizer_config.json',
  ]
  expect((await readdir(directory)).sort()).toEqual(files)
  const tokenizer = JSON.parse(await readFile(join(directory, 'tokenizer.json'), 'utf8')) as {
    model: { vocab: Record<string, number> }
  }
  expect(new Set(Object.values(tokenizer.model.vocab)).size).toBe(259)
  expect(tokenizer.model.vocab).toMatchObject({ A: 65, Ġ: 32, Ċ: 10, ÿ: 255, '<|im_end|>': 258 })
})

test.each<Partial<RandomModel>>([
  { family: 'qwen2', isEmbeddingTied: false },
  { family: 'qwen3', headSize: 32 },
  { hasAttentionBias: true, hasMlpBias: true },
  { ropeScaling: { rope_type: 'linear', factor: 2 }, vocabularySize: 300, layerCount: 1 },
])('%j is a whole model', async (overrides) => {
  const source = await openWeights(await writeRandomModel(join(await temporaryDirectory(), 'model'), overrides))
  checkDecoderTensors(source, decoderConfigOf(source))
  await source.close()
})

test('a second call writes nothing, other sizes replace the model', async () => {
  const directory = join(await temporaryDirectory(), 'model')
  await writeRandomModel(directory, {})
  const { mtimeMs, ino } = await stat(join(directory, 'model.safetensors'))
  await writeRandomModel(directory, {})
  expect(await stat(join(directory, 'model.safetensors'))).toMatchObject({ mtimeMs, ino })
  const before = await digestOf(directory)
  await writeRandomModel(directory, { seed: 2 })
  expect(await digestOf(directory)).not.toBe(before)
})

test('racing writers leave one whole model and no scratch', async () => {
  const parent = await temporaryDirectory()
  await Promise.all(Array.from({ length: 8 }, () => ensureTinyRandomModel(join(parent, 'tiny'))))
  expect(await readdir(parent)).toEqual(['tiny'])
  const alone = await ensureTinyRandomModel(join(await temporaryDirectory(), 'tiny'))
  expect(await digestOf(join(parent, 'tiny'))).toBe(await digestOf(alone))
})

test('a directory with other content is left alone', async () => {
  const directory = await temporaryDirectory()
  await writeFile(join(directory, 'config.json'), '{"model_type":"llama"}')
  await expectCode(() => ensureTinyRandomModel(directory), 'file_unwritable', directory)
  expect(await readdir(directory)).toEqual(['config.json'])
})

test('a vocabulary too small for bytes is refused', async () => {
  const directory = join(await temporaryDirectory(), 'model')
  await expectCode(() => writeRandomModel(directory, { vocabularySize: 258 }), 'invalid_value', '258')
})
