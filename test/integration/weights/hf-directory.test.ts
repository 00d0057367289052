/**
 * Hugging Face directories on disk: whole, in shards, in half precision, and every way they can be wrong.
 */
import { execFileSync } from 'node:child_process'
import { mkdir, readFile, symlink, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { randomTensors, TINY_RANDOM } from '../../../src/model/built-in/tiny-random.js'
import { openWeights } from '../../../src/model/weights/base-weights.js'
import { writeSafetensors } from '../../../src/model/weights/safetensors.js'
import type { WeightSource } from '../../../src/model/weights/weight-source.js'
import { float32ToBfloat16, float32ToFloat16 } from '../../../src/numerics/tensor/half.js'
import { float32Tensor, type HostTensor } from '../../../src/numerics/tensor/host-tensor.js'
import { expectCode } from '../../support/expect-code.js'
import { temporaryDirectory } from '../../support/temporary-directory.js'

const TENSORS = randomTensors({ ...TINY_RANDOM, layerCount: 1 })
const UP = 'model.layers.0.mlp.up_proj.weight'
const INDEX = 'model.safetensors.index.json'

async function modelDirectory(tensors: ReadonlyMap<string, HostTensor> = TENSORS): Promise<string> {
  const directory = await temporaryDirectory()
  await writeFile(join(directory, 'config.json'), '{"model_type":"llama"}')
  await writeSafetensors(join(directory, 'model.safetensors'), tensors)
  return directory
}

/** Puts one entry into the index. */
const place = (name: string, shard: unknown) => (weightMap: Record<string, unknown>) => {
  weightMap[name] = shard
}

/** The model in two shards; `change` may spoil the index. */
async function shardedDirectory(change: (weightMap: Record<string, unknown>) => void = () => {}): Promise<string> {
  const directory = await temporaryDirectory()
  await writeFile(join(directory, 'config.json'), '{}')
  const weightMap: Record<string, unknown> = {}
  for (const part of [0, 1]) {
    const shard = `model-0000${part + 1}-of-00002.safetensors`
    const tensors = new Map([...TENSORS].filter((_, i) => i % 2 === part))
    for (const name of tensors.keys()) weightMap[name] = shard
    await writeSafetensors(join(directory, shard), tensors)
  }
  change(weightMap)
  await writeFile(join(directory, INDEX), JSON.stringify({ metadata: { total_size: 1 }, weight_map: weightMap }))
  return directory
}

async function readAll(source: WeightSource): Promise<Map<string, Float32Array>> {
  const values = new Map<string, Float32Array>()
  for (const name of source.tensorNames) values.set(name, await source.readFloat32(name))
  await source.close()
  return values
}

const expectedValues = () => new Map([...TENSORS].map(([name, { data }]) => [name, data as Float32Array]))
const sorted = (map: Map<string, Float32Array>) => new Map([...map].sort())

test('a whole file counts alone beside shards, as in transformers, and that is known', async () => {
  const both = await shardedDirectory()
  const zeros = new Map(
    [...TENSORS].map(([name, { shape, data }]) => [name, float32Tensor(new Float32Array(data.length), shape)]),
  )
  await writeSafetensors(join(both, 'model.safetensors'), zeros)
  const source = await openWeights(both)
  expect(source.hasUnreadShards).toBe(true)
  expect((await source.readFloat32(UP)).every((value) => value === 0)).toBe(true)
  await source.close()
})

test('a single file gives every tensor by name, shape and value', async () => {
  const source = await openWeights(await modelDirectory())
  expect(source.kind).toBe('huggingface')
  expect(source.hfConfig).toEqual({ model_type: 'llama' })
  expect(source.tensorShape(UP)).toEqual([128, 64])
  expect(source.tensorStorage(UP)).toBe('float32')
  expect(sorted(await readAll(source))).toEqual(sorted(expectedValues()))
})

test('shards give the same as one file', async () => {
  const source = await openWeights(await shardedDirectory())
  expect(sorted(await readAll(source))).toEqual(sorted(expectedValues()))
})

test.each(['float16', 'bfloat16'] as const)('%s weights are widened', async (dtype) => {
  const narrow = dtype === 'float16' ? float32ToFloat16 : float32ToBfloat16
  const data = narrow(Float32Array.of(1, -2.5, 0))
  const source = await openWeights(await modelDirectory(new Map([['a', { dtype, shape: [3], data }]])))
  expect([...(await source.readFloat32('a'))]).toEqual([1, -2.5, 0])
  await source.close()
})

test('a checkpoint of the bare decoder gets its prefix back', async () => {
  const bare = new Map([...TENSORS].map(([name, tensor]) => [name.replace(/^model\./, ''), tensor]))
  const source = await openWeights(await modelDirectory(bare))
  expect([...source.tensorNames].sort()).toEqual([...TENSORS.keys()].sort())
  expect(await source.readFloat32(UP)).toEqual(TENSORS.get(UP)?.data)
  await source.close()
})

test.each(['module.', '_orig_mod.', 'module._orig_mod.'])(
  'names that begin with %s are read without it',
  async (prefix) => {
    const wrapped = new Map([...TENSORS].map(([name, tensor]) => [`${prefix}${name}`, tensor]))
    const source = await openWeights(await modelDirectory(wrapped))
    expect(sorted(await readAll(source))).toEqual(sorted(expectedValues()))
  },
)

test('what is no model is named with what to give instead', async () => {
  const layer = TENSORS.get(UP) as HostTensor
  const unmerged = new Map([...TENSORS, [UP.replace('.weight', '.base_layer.weight'), layer]])
  await expectCode(async () => openWeights(await modelDirectory(unmerged)), 'unmerged_adapter', 'base_layer')
  const twice = new Map([...TENSORS, [`module.${UP}`, layer]])
  await expectCode(async () => openWeights(await modelDirectory(twice)), 'unexpected_tensor', 'module.')

  const cache = await temporaryDirectory()
  for (const name of ['blobs', 'refs', 'snapshots']) await mkdir(join(cache, name))
  const error = await openWeights(cache).catch((cause: unknown) => cause)
  expect(error).toMatchObject({ code: 'file_not_found', hint: expect.stringContaining('snapshots/') })

  for (const [start, code] of [
    ['PK\u0003\u0004', 'pickle_refused'],
    ['\u0080\u0002cbuiltins', 'pickle_refused'],
    ['GGUF', 'invalid_safetensors'],
  ] as const) {
    const directory = await modelDirectory()
    await writeFile(join(directory, 'model.safetensors'), Buffer.from(start.padEnd(64, '.'), 'latin1'))
    await expectCode(() => openWeights(directory), code, 'model.safetensors')
  }
})

test('symbolic links are followed, as model caches need it', async () => {
  const [real, linked] = [await modelDirectory(), await temporaryDirectory()]
  for (const name of ['config.json', 'model.safetensors']) await symlink(join(real, name), join(linked, name))
  const source = await openWeights(linked)
  expect(source.tensorNames).toHaveLength(TENSORS.size)
  await source.close()
})

test('the digest follows configuration and weights, not the place', async () => {
  const digestOf = async (directory: string) => {
    const source = await openWeights(directory)
    return source.digest().finally(() => source.close())
  }
  const [first, second, third] = [await modelDirectory(), await modelDirectory(), await modelDirectory()]
  const digest = await digestOf(first)
  expect(digest).toMatch(/^[0-9a-f]{64}$/)
  expect(await digestOf(second)).toBe(digest)
  await writeFile(join(second, 'config.json'), '{"model_type":"qwen2"}')
  expect(await digestOf(second)).not.toBe(digest)
  const bytes = await readFile(join(third, 'model.safetensors'))
  bytes[bytes.length - 1] ^= 1
  await writeFile(join(third, 'model.safetensors'), bytes)
  expect(await digestOf(third)).not.toBe(digest)
})

describe('refused', () => {
  test.each([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])('%d among the weights', async (bad) => {
    const data = new Float32Array(1000)
    data[777] = bad
    const source = await openWeights(await modelDirectory(new Map([['a', float32Tensor(data, [1000])]])))
    await expectCode(() => source.readFloat32('a'), 'non_finite_weights', '"a"', `${bad}`, '777')
    await source.close()
  })

  test('integer weights', async () => {
    const tensors = new Map<string, HostTensor>([['a', { dtype: 'int32', shape: [1], data: Int32Array.of(1) }]])
    const source = await openWeights(await modelDirectory(tensors))
    await expectCode(() => source.readFloat32('a'), 'unsupported_dtype', '"a"', 'int32')
    await source.close()
  })

  test('an unknown tensor', async () => {
    const source = await openWeights(await modelDirectory())
    await expectCode(() => source.readFloat32('constructor'), 'tensor_not_found', '"constructor"')
    expect(() => source.tensorShape('a')).toThrow('no tensor "a"')
    await source.close()
  })

  test('a file cut short before it is opened, and while it is open', async () => {
    const directory = await modelDirectory()
    const path = join(directory, 'model.safetensors')
    const { length } = await readFile(path)
    const source = await openWeights(directory)
    await truncate(path, length - 4)
    const last = [...TENSORS.keys()].sort().at(-1)!
    await expectCode(() => source.readFloat32(last), 'truncated_file', 'model.safetensors')
    await source.close()
    await expectCode(() => openWeights(directory), 'truncated_file', 'model.safetensors')
    await truncate(path, 5)
    await expectCode(() => openWeights(directory), 'truncated_file', '5 bytes')
  })

  test('an adapter without its base model, which says how to merge it', async () => {
    const directory = await temporaryDirectory()
    await writeFile(join(directory, 'adapter_config.json'), '{}')
    const refusal = expect(openWeights(directory)).rejects
    await refusal.toMatchObject({
      code: 'file_not_found',
      hint: expect.stringContaining('base-models add <folder> --base-model'),
    })
  })

  test('a directory around a GGUF file, which says to give the file', async () => {
    const directory = await temporaryDirectory()
    await writeFile(join(directory, 'mmproj-a.gguf'), '')
    await writeFile(join(directory, 'model-q8_0.gguf'), '')
    const refusal = expect(openWeights(directory)).rejects
    await refusal.toMatchObject({ code: 'file_not_found', hint: expect.stringContaining('"model-q8_0.gguf"') })
  })

  test('pickle files, by name and by content', async () => {
    const directory = await temporaryDirectory()
    await writeFile(join(directory, 'config.json'), '{}')
    await writeFile(join(directory, 'pytorch_model.bin'), 'PK\x03\x04')
    await expectCode(() => openWeights(directory), 'pickle_refused', 'pytorch_model.bin', 'can run code')
    await expectCode(() => openWeights(join(directory, 'pytorch_model.bin')), 'pickle_refused')
    await writeFile(join(directory, 'weights'), Buffer.of(0x80, 0x02, 0x7d, 0x71))
    await expectCode(() => openWeights(join(directory, 'weights')), 'pickle_refused')
  })

  test.each<[string, (weightMap: Record<string, unknown>) => void, string, string]>([
    ['a path upwards', place(UP, '../model.safetensors'), 'invalid_index', '"../model.safetensors"'],
    ['an absolute path', place(UP, '/etc/a.safetensors'), 'invalid_index', '"/etc/a.safetensors"'],
    ['a file that is missing', place(UP, 'b.safetensors'), 'invalid_index', '"b.safetensors"'],
    ['a pickle', place(UP, 'pytorch_model.bin'), 'pickle_refused', 'pytorch_model.bin'],
    ['a number', place(UP, 1), 'invalid_index', 'up_proj'],
    ['a tensor that is elsewhere', place('x', 'model-00001-of-00002.safetensors'), 'invalid_index', '"x"'],
  ])('an index that names %s', async (_, change, code, word) => {
    await expectCode(async () => openWeights(await shardedDirectory(change)), code, word)
  })

  test('an index without a map, and one that repeats a key', async () => {
    const directory = await shardedDirectory()
    await writeFile(join(directory, INDEX), '{"weight_map":[]}')
    await expectCode(() => openWeights(directory), 'invalid_index', 'weight_map')
    const shard = '"model-00001-of-00002.safetensors"'
    await writeFile(join(directory, INDEX), `{"weight_map":{"a":${shard},"a":${shard}}}`)
    await expectCode(() => openWeights(directory), 'duplicate_key', '"a" twice')
  })

  test('a directory without config.json, weights, or anything', async () => {
    const directory = await temporaryDirectory()
    await expectCode(() => openWeights(directory), 'file_not_found', 'config.json')
    await writeFile(join(directory, 'config.json'), '{}')
    await expectCode(() => openWeights(directory), 'file_not_found', 'model.safetensors')
    await writeFile(join(directory, 'config.json'), '{"a":1,"a":2}')
    await expectCode(() => openWeights(directory), 'duplicate_key', '"a" twice')
    await writeFile(join(directory, 'config.json'), Buffer.alloc(10_000_001, ' '))
    await expectCode(() => openWeights(directory), 'file_too_large', 'config.json')
  })

  test('what is no model at all', async () => {
    const directory = await modelDirectory()
    await expectCode(() => openWeights(join(directory, 'absent')), 'file_not_found', 'absent')
    await expectCode(() => openWeights(join(directory, 'config.json')), 'unknown_format', 'config.json')
    await expectCode(() => openWeights(join(directory, 'model.safetensors')), 'unknown_format', 'configuration')
    await expectCode(() => openWeights('/dev/zero'), 'unknown_format', '/dev/zero')
  })

  test('a pipe or a directory in the place of a file, without waiting for it', async () => {
    const directory = await temporaryDirectory()
    await writeFile(join(directory, 'config.json'), '{}')
    execFileSync('mkfifo', [join(directory, 'model.safetensors')])
    await expectCode(() => openWeights(directory), 'not_a_file', 'model.safetensors')
    const other = await temporaryDirectory()
    await mkdir(join(other, 'config.json'))
    await expectCode(() => openWeights(other), 'not_a_file', 'config.json')
  })
})
