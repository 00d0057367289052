/**
 * Weights of eight bits in folders, beside values that ml_dtypes and numpy made (`make_float8_goldens.py`): bytes and products with their scales
 * are exact. Scales a row, a tensor, or none; and scales that do not fit.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { writeRandomModel } from '../../../src/model/built-in/tiny-random.js'
import { openWeights } from '../../../src/model/weights/base-weights.js'
import { applyScale, float8ToFloat32, layScale } from '../../../src/model/weights/float8.js'
import { readSafetensors } from '../../../src/model/weights/safetensors.js'
import { expectCode } from '../../support/expect-code.js'
import { noisyAdapter, storeAdapter, writeExport } from '../../support/model/export-fixture.js'
import { temporaryDirectory } from '../../support/temporary-directory.js'

interface Golden {
  readonly values: readonly (number | null)[]
  readonly block: readonly [number, number]
  readonly bytes: readonly number[]
  readonly scale: readonly number[]
  readonly dequantized: readonly number[]
}
const golden = JSON.parse(await readFile('test/goldens/float8.json', 'utf8')) as Golden
const SHAPE = [6, 10]
const NAME = 'model.layers.0.mlp.up_proj.weight'
const ONES = Float32Array.of(1, 1)

interface Stored {
  readonly dtype: string
  readonly shape: readonly number[]
  readonly data: Uint8Array | Float32Array
}

/** A safetensors file of any element types. */
function encode(tensors: Readonly<Record<string, Stored>>): Uint8Array {
  let offset = 0
  const header = Object.fromEntries(
    Object.entries(tensors).map(([name, { dtype, shape, data }]) => {
      const begin = offset
      offset += data.byteLength
      return [name, { dtype, shape, data_offsets: [begin, offset] }]
    }),
  )
  const json = Buffer.from(JSON.stringify(header))
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(json.length))
  const parts = Object.values(tensors).map(({ data }) => Buffer.from(data.buffer, data.byteOffset, data.byteLength))
  return Buffer.concat([length, json, ...parts])
}

async function open(tensors: Readonly<Record<string, Stored>>, blockSize: unknown = golden.block) {
  const directory = await temporaryDirectory()
  const quantization = { quant_method: 'fp8', fmt: 'e4m3', weight_block_size: blockSize }
  const config = { model_type: 'llama', quantization_config: quantization }
  await writeFile(join(directory, 'config.json'), JSON.stringify(config))
  await writeFile(join(directory, 'model.safetensors'), encode(tensors))
  return openWeights(directory)
}

const weight: Stored = { dtype: 'F8_E4M3', shape: SHAPE, data: Uint8Array.from(golden.bytes) }
const float32 = (shape: readonly number[], values: readonly number[]): Stored => ({
  dtype: 'F32',
  shape,
  data: Float32Array.from(values),
})
const plain = golden.bytes.map((byte) => golden.values[byte] as number)

test('every byte has the value that ml_dtypes gives it', () => {
  const values = float8ToFloat32(Uint8Array.from({ length: 256 }, (_, byte) => byte))
  expect([...values].map((value) => (Number.isNaN(value) ? null : value))).toEqual(golden.values)
  expect(Object.is(values[128], -0)).toBe(true)
})

describe('a folder', () => {
  test.each<readonly [string, Readonly<Record<string, Stored>>, readonly number[]]>([
    ['scales in blocks', { [`${NAME}_scale_inv`]: float32([2, 3], golden.scale) }, golden.dequantized],
    [
      'a scale a row',
      { [`${NAME}_scale`]: float32([6, 1], [1, 2, 3, 4, 5, 6]) },
      plain.map((value, i) => Math.fround(value * (Math.floor(i / 10) + 1))),
    ],
    [
      'one scale, and one of activations',
      {
        [`${NAME}_scale`]: float32([], [0.5]),
        'model.layers.0.mlp.up_proj.input_scale': float32([], [3]),
      },
      plain.map((value) => value / 2),
    ],
    ['no scale', {}, plain],
  ])('with %s is widened exactly, whole and in parts', async (_name, scales, wanted) => {
    const norm = float32([2], [...ONES])
    const source = await open({ [NAME]: weight, 'model.norm.weight': norm, ...scales })
    expect([...source.tensorNames].sort()).toEqual([NAME, 'model.norm.weight'])
    expect([...(await source.readFloat32(NAME))]).toEqual(wanted)
    expect(await source.readFloat32('model.norm.weight')).toEqual(ONES)
    await source.checkValues()
    await source.close()
  })

  test('with scales that fit no block is refused by name', async () => {
    const source = await open({ [NAME]: weight, [`${NAME}_scale_inv`]: float32([2, 3], golden.scale) }, null)
    await expectCode(
      () => source.readFloat32(NAME),
      'invalid_scale',
      'expected 1, [6, 1] or [1, 1] for blocks of 128 x 128',
    )
    await source.close()
  })

  test('with NaN is refused', async () => {
    const data = Uint8Array.from(golden.bytes)
    data[11] = 0x7f
    const source = await open({ [NAME]: { ...weight, data } })
    await expectCode(() => source.checkValues(), 'non_finite_weights', 'at element 11')
    await source.close()
  })
})

test('a part of a tensor is scaled like the whole', () => {
  const scale = layScale(
    { name: NAME, shape: SHAPE },
    { shape: [2, 3], values: Float32Array.from(golden.scale) },
    {
      quantization_config: { weight_block_size: golden.block },
    },
  )
  for (const start of [0, 7, 33]) {
    const part = float8ToFloat32(Uint8Array.from(golden.bytes.slice(start, start + 20)))
    expect([...applyScale(part, scale, start)]).toEqual(golden.dequantized.slice(start, start + 20))
  }
})

test('a merged export of a folder with them is plain floats in the precision of most weights, and says so', async () => {
  const root = await temporaryDirectory()
  const sourcePath = await writeRandomModel(join(root, 'model'), {})
  const [config, weights] = [join(sourcePath, 'config.json'), join(sourcePath, 'model.safetensors')]
  const json = JSON.parse(await readFile(config, 'utf8')) as object
  const quantization = { quant_method: 'fp8', weight_block_size: [128, 128] }
  await writeFile(config, JSON.stringify({ ...json, quantization_config: quantization }))
  const { tensors } = await readSafetensors(weights)
  const shape = tensors.get(NAME)?.shape ?? []
  const bytes = Uint8Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => (i * 7) % 127)
  const others = [...tensors].map(([name, { shape, data }]) => [name, { dtype: 'F32', shape, data } as Stored] as const)
  await writeFile(
    weights,
    encode({
      ...Object.fromEntries(others),
      [NAME]: { dtype: 'F8_E4M3', shape, data: bytes },
      [`${NAME}_scale_inv`]: float32(
        shape.map((size) => Math.ceil(size / 128)),
        [0.01],
      ),
    }),
  )
  const merged = join(root, 'merged')
  const adapter = await storeAdapter(await noisyAdapter(sourcePath), join(root, 'adapter'))
  await writeExport(merged, { format: 'merged', sourcePath, adapter })
  const made = JSON.parse(await readFile(join(merged, 'config.json'), 'utf8')) as object
  expect(made).toMatchObject({ torch_dtype: 'float32' })
  expect(made).not.toHaveProperty('quantization_config')
  const [before, after] = [await openWeights(sourcePath), await openWeights(merged)]
  expect(after.tensorNames).not.toContain(`${NAME}_scale_inv`)
  const [old, merge] = [await before.readFloat32(NAME), await after.readFloat32(NAME)]
  // the adapter is noise of a small size; the weights below it are the widened ones
  expect(Math.max(...merge.map((value, i) => Math.abs(value - (old[i] as number))))).toBeLessThan(1)
  expect(Math.max(...old)).toBeCloseTo(448 * 0.01, 5)
  await Promise.all([before.close(), after.close()])
})
