/**
 * GGUF files on disk: a whole model of the reference writer, and the files that are refused as a whole.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { checkDecoderTensors, decoderConfigOf } from '../../../src/model/architectures/registry.js'
import { openWeights } from '../../../src/model/weights/base-weights.js'
import { readGgufMetadata } from '../../../src/model/weights/gguf-metadata.js'
import { expectCode } from '../../support/expect-code.js'
import {
  arrayValue,
  type GgufParts,
  ggufBytes,
  stringValue,
  text,
  uint32Value,
} from '../../support/model/gguf-bytes.js'
import { temporaryDirectory } from '../../support/temporary-directory.js'

const FIXTURES = join(import.meta.dirname, '../../fixtures/gguf')

async function writeGguf(parts: GgufParts): Promise<string> {
  const path = join(await temporaryDirectory(), 'model.gguf')
  await writeFile(path, ggufBytes(parts))
  return path
}

test("a model of the reference writer has Hugging Face's names, shapes and row order", async () => {
  const source = await openWeights(join(FIXTURES, 'tiny-llama.gguf'))
  const bytes = Uint8Array.from(await readFile(join(FIXTURES, 'tiny-llama.values')))
  const expected = new Float32Array(bytes.buffer)
  let offset = 0
  for (const name of source.tensorNames) {
    const values = await source.readFloat32(name)
    expect({ name, values }).toEqual({ name, values: expected.subarray(offset, offset + values.length) })
    offset += values.length
  }
  expect(offset).toBe(expected.length)
  expect(source.tensorStorage('model.layers.0.self_attn.q_proj.weight')).toBe('Q8_0')
  expect(source.tensorShape('model.layers.0.mlp.down_proj.weight')).toEqual([32, 64])
  await source.close()
})

test('it is a whole decoder with the rotary scaling of Llama 3', async () => {
  const source = await openWeights(join(FIXTURES, 'tiny-llama.gguf'))
  const config = decoderConfigOf(source)
  checkDecoderTensors(source, config)
  expect(config.rotary).toEqual({
    theta: 500000,
    llama3Scaling: { factor: 8, lowFrequencyFactor: 1, highFrequencyFactor: 4, originalContextLength: 8192 },
    linearFactor: 1,
  })
  expect(source.tensorNames).not.toContain('rope_freqs.weight')
  await source.close()
})

test('rows of Qwen are not interleaved', async () => {
  const data = Float32Array.from({ length: 16 }, (_, i) => i)
  const parts = (architecture: string): GgufParts => ({
    keys: [
      ['general.architecture', stringValue(architecture)],
      [`${architecture}.attention.head_count`, uint32Value(1)],
    ],
    tensors: [{ name: 'blk.0.attn_q.weight', dims: [4, 4], type: 0, offset: 0 }],
    data: new Uint8Array(data.buffer),
  })
  const rows = async (architecture: string) => {
    const source = await openWeights(await writeGguf(parts(architecture)))
    const values = await source.readFloat32('model.layers.0.self_attn.q_proj.weight').finally(() => source.close())
    return [0, 1, 2, 3].map((row) => values[4 * row] / 4)
  }
  expect(await rows('qwen2')).toEqual([0, 1, 2, 3])
  expect(await rows('llama')).toEqual([0, 2, 1, 3])
})

test('metadata longer than the first read is read whole', async () => {
  const token = text('a token of some length, to fill the file')
  const count = 150_000
  const tokens = arrayValue(8, count, Buffer.concat(new Array<Buffer>(count).fill(token)))
  const path = await writeGguf({ keys: [['tokens', tokens]] })
  expect((await readGgufMetadata(path)).metadata.get('tokens')).toHaveLength(count)
})

test('a tensor of a type we cannot read is refused when it is read, by name and type', async () => {
  const tensors = [{ name: 'blk.0.ffn_up.weight', dims: [256], type: 16, offset: 0 }]
  const source = await openWeights(await writeGguf({ tensors, data: new Uint8Array(66) }))
  await expectCode(
    () => source.readFloat32('model.layers.0.mlp.up_proj.weight'),
    'unsupported_dtype',
    'IQ2_XXS',
    'Q4_K',
  )
  await source.close()
})

test('NaN in a block scale is refused', async () => {
  const block = new Uint8Array(34)
  block.set([0x00, 0x7e, 1])
  const tensors = [{ name: 'output_norm.weight', dims: [32], type: 8, offset: 0 }]
  const source = await openWeights(await writeGguf({ tensors, data: block }))
  await expectCode(() => source.readFloat32('model.norm.weight'), 'non_finite_weights', 'model.norm.weight')
  await expectCode(() => source.checkValues(), 'non_finite_weights', '"model.norm.weight" has NaN at element 0')
  await source.close()
})

test('one part of a split model is refused', async () => {
  const path = await writeGguf({ keys: [['split.count', { type: 2, bytes: Uint8Array.of(3, 0) }]] })
  await expectCode(() => openWeights(path), 'split_gguf', '3 parts')
})

test('two names for one tensor are refused', async () => {
  const row = { dims: [8], type: 0 }
  const tensors = [
    { ...row, name: 'output_norm.weight', offset: 0 },
    { ...row, name: 'model.norm.weight', offset: 32 },
  ]
  const path = await writeGguf({ tensors, data: new Uint8Array(64) })
  await expectCode(() => openWeights(path), 'duplicate_key', 'two names')
})

test('a file cut in the middle of its tensors is refused when it is opened', async () => {
  const bytes = await readFile(join(FIXTURES, 'tiny-llama.gguf'))
  const path = join(await temporaryDirectory(), 'cut.gguf')
  await writeFile(path, bytes.subarray(0, bytes.length - 100))
  await expectCode(() => openWeights(path), 'truncated_file', 'output_norm.weight')
})
