/**
 * Copies of caches follow whatever is done to the caches, and are sent no more than what was written.
 *
 * Here on the CPU, where the same sessions and tensors can be read; on WebGPU in `device-proof.test.ts`.
 */
import { expect, it } from 'vitest'
import { createRng, type Rng } from '#base/util/rng.js'
import { KvCache } from '#inference/engine/runner/kv-cache.js'
import { KvMemory } from '#inference/engine/runner/kv-memory.js'
import { KvOnDevice } from '#inference/engine/runner/kv-on-device.js'
import { kvBytesPerToken } from '#inference/engine/runner/kv-shape.js'
import { GraphBuilder } from '#numerics/graph/builder.js'
import { add } from '#numerics/graph/ops/elementwise.js'
import { toOnnxModel } from '#numerics/graph/to-onnx.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import type { DeviceTensor } from '#numerics/runtime/runtime.js'
import { temporaryDirectory } from '../../support/temporary-directory.js'
import { deviceLikeRuntime } from '../inference/engine-harness.js'

const SHAPE = { layerCount: 2, kvHeadCount: 2, headSize: 4 }
const SIDES = 2 * SHAPE.layerCount
const MOST_BYTES = 1e9

async function opened(mostBytes = MOST_BYTES) {
  const directory = await temporaryDirectory()
  const { runtime, sent } = deviceLikeRuntime()
  const resident = await KvOnDevice.open(runtime, { shape: SHAPE, mostBytes, directory })
  if (resident === null) throw new Error('the CPU keeps outputs')
  const g = new GraphBuilder('read')
  g.output(add(g, g.input('x', 'float32', ['S', 'C', SHAPE.headSize]), g.scalar(0)), 'y')
  const bytes = toOnnxModel(g.build(), `${directory}/read.onnx`)
  const reader = await createOrtRuntime().loadSession({ bytes, directory })
  const read = async (tensor: DeviceTensor): Promise<Float32Array> => {
    const { y } = await reader.run({ x: tensor })
    if (y?.dtype !== 'float32') throw new Error('nothing was read')
    return y.data
  }
  const close = async (): Promise<void> => {
    await resident.release()
    await reader.release()
  }
  return { resident, sent, read, close }
}

type Opened = Awaited<ReturnType<typeof opened>>

/** Holds a copy to its cache: the same tokens, and numbers everywhere. */
async function expectCopy({ resident, read }: Opened, caches: readonly KvCache[]): Promise<void> {
  const copies = await resident.tensorsOf(caches)
  for (const [at, cache] of caches.entries()) {
    expect(copies[at]).toHaveLength(SIDES)
    for (const [side, tensor] of (copies[at] ?? []).entries()) {
      const own = cache.tensor(side >> 1, side % 2 === 0 ? 0 : 1)
      expect(tensor.shape).toEqual(own.shape)
      const copied = await read(tensor)
      expect(copied.every(Number.isFinite)).toBe(true)
      for (let row = 0; row < cache.rowCount; row++) {
        for (let slot = 0; slot < SHAPE.kvHeadCount * cache.width; slot++) {
          const start = (row * SHAPE.kvHeadCount * cache.width + slot) * cache.capacity * SHAPE.headSize
          const end = start + cache.lengthOf(row, slot % cache.width) * SHAPE.headSize
          expect(copied.subarray(start, end)).toEqual(own.data.subarray(start, end))
        }
      }
    }
  }
}

function append(cache: KvCache, place: { readonly row: number; readonly member: number }, count: number, rng: Rng) {
  const { width, rowCount } = cache
  const slots = rowCount * SHAPE.kvHeadCount * width
  const data = Float32Array.from({ length: SIDES * slots * count * SHAPE.headSize }, () => rng.normal())
  cache.append(place, { ...place, data, slots, width, tokens: count, count })
}

it.each([1, 2, 3, 4, 5, 6])('a copy follows everything that is done to its cache (seed %i)', async (seed) => {
  const rng = createRng(`kv on device ${seed}`)
  const open = await opened()
  const memory = new KvMemory(1e9)
  const width = 1 + (seed % 3)
  const cache = new KvCache(SHAPE, width, { memory, isGrowing: seed % 2 === 0 })
  cache.setCapacity(16)
  cache.addRow()
  const place = () => ({ row: rng.integer(cache.rowCount), member: rng.integer(width) })
  const acts: readonly (() => void)[] = [
    () => cache.addRow(),
    () => cache.rowCount > 1 && cache.removeRow(rng.integer(cache.rowCount)),
    () => cache.clear(place()),
    () => cache.setCapacity(cache.longest + 1 + rng.integer(40)),
    () => cache.prepareCapacity(cache.longest + 1 + rng.integer(40), 1 + rng.integer(3)),
    () => {
      const other = new KvCache(SHAPE)
      other.addRow()
      other.setCapacity(16)
      append(other, { row: 0, member: 0 }, 5, rng)
      const to = place()
      if (cache.lengthOf(to.row, to.member) + 3 > cache.capacity) return
      cache.appendFrom(to, other, { row: 0, member: 0, start: 2, count: 3 })
    },
  ]
  for (let turn = 0; turn < 40; turn++) {
    for (let times = rng.integer(3); times > 0; times--) acts[rng.integer(acts.length)]?.()
    for (let row = 0; row < cache.rowCount; row++) {
      const to = { row, member: rng.integer(width) }
      const count = 1 + rng.integer(3)
      if (cache.lengthOf(to.row, to.member) + count <= cache.capacity) append(cache, to, count, rng)
    }
    await expectCopy(open, [cache])
  }
  cache.release()
  await open.close()
})

it('is sent the new tokens alone, whatever the cache holds', async () => {
  const rng = createRng('sent')
  const open = await opened()
  const cache = new KvCache(SHAPE, 2)
  for (let row = 0; row < 3; row++) cache.addRow()
  cache.setCapacity(512)
  for (let row = 0; row < 3; row++) append(cache, { row, member: 0 }, 200, rng)
  await expectCopy(open, [cache])
  expect(open.sent.bytes).toBeGreaterThan(cache.sizeBytes)
  for (let step = 0; step < 5; step++) {
    for (let row = 0; row < 3; row++) append(cache, { row, member: row % 2 }, 1, rng)
    open.sent.bytes = 0
    await expectCopy(open, [cache])
    // keys and values, and two integers of 64 bits for each head's token
    expect(open.sent.bytes).toBe(3 * (kvBytesPerToken(SHAPE) + SHAPE.kvHeadCount * 16))
  }
  open.sent.bytes = 0
  await expectCopy(open, [cache])
  expect(open.sent.bytes).toBe(0)
  // other columns and rows are moved there, and sent by number
  cache.setCapacity(528)
  cache.removeRow(0)
  cache.addRow()
  await expectCopy(open, [cache])
  expect(open.sent.bytes).toBe(4 * (528 + 3 * 2 * SHAPE.kvHeadCount))
  await open.close()
})

it('what is no number is not kept in a copy once its cache has forgotten it', async () => {
  const rng = createRng('finite')
  const open = await opened()
  const cache = new KvCache(SHAPE)
  cache.addRow()
  cache.setCapacity(16)
  append(cache, { row: 0, member: 0 }, 3, rng)
  const data = new Float32Array(SIDES * SHAPE.kvHeadCount * SHAPE.headSize).fill(Number.NaN)
  cache.append({ row: 0, member: 0 }, { row: 0, member: 0, data, slots: 2, width: 1, tokens: 1, count: 1 })
  await open.resident.tensorsOf([cache])
  cache.clear({ row: 0, member: 0 })
  append(cache, { row: 0, member: 0 }, 1, rng)
  await expectCopy(open, [cache])
  await open.close()
})

it('what is no number does not come to rows that are new', async () => {
  const rng = createRng('new rows')
  const open = await opened()
  const cache = new KvCache(SHAPE)
  cache.addRow()
  cache.setCapacity(16)
  const data = new Float32Array(SIDES * SHAPE.kvHeadCount * SHAPE.headSize).fill(Number.NaN)
  cache.append({ row: 0, member: 0 }, { row: 0, member: 0, data, slots: 2, width: 1, tokens: 1, count: 1 })
  await open.resident.tensorsOf([cache])
  cache.addRow()
  append(cache, { row: 1, member: 0 }, 1, rng)
  cache.setCapacity(32)
  const [sides = []] = await open.resident.tensorsOf([cache])
  for (const tensor of sides) {
    const row = (await open.read(tensor)).subarray(SHAPE.kvHeadCount * 32 * SHAPE.headSize)
    expect(row).toHaveLength(SHAPE.kvHeadCount * 32 * SHAPE.headSize)
    expect(row.every(Number.isFinite)).toBe(true)
  }
  await open.close()
})

it('is sent nothing again when a choice of numbers has ended', async () => {
  const rng = createRng('ended')
  const open = await opened()
  const cache = new KvCache(SHAPE, 2)
  cache.addRow()
  cache.setCapacity(16)
  for (const member of [0, 1]) append(cache, { row: 0, member }, 3, rng)
  await expectCopy(open, [cache])
  cache.clear({ row: 0, member: 1 })
  open.sent.bytes = 0
  await expectCopy(open, [cache])
  expect(open.sent.bytes).toBe(0)
  await open.close()
})

it('drops the copies that were asked for longest ago, and makes them anew', async () => {
  const rng = createRng('budget')
  const caches = Array.from({ length: 3 }, () => {
    const cache = new KvCache(SHAPE)
    cache.addRow()
    cache.setCapacity(64)
    append(cache, { row: 0, member: 0 }, 30, rng)
    return cache
  }) as [KvCache, KvCache, KvCache]
  const open = await opened(2.5 * caches[0].sizeBytes)
  for (const cache of caches) await expectCopy(open, [cache])
  open.sent.bytes = 0
  await expectCopy(open, [caches[1], caches[2]])
  expect(open.sent.bytes).toBe(0)
  append(caches[0], { row: 0, member: 0 }, 1, rng)
  await expectCopy(open, [caches[0]])
  expect(open.sent.bytes).toBeGreaterThan(caches[0].sizeBytes)
  // all that one step asks for stay, though they are more
  await expectCopy(open, caches)
  await open.close()
})

it('keeps half of what a device refused', async () => {
  const rng = createRng('refused')
  const caches = Array.from({ length: 4 }, () => {
    const cache = new KvCache(SHAPE)
    cache.addRow()
    cache.setCapacity(64)
    append(cache, { row: 0, member: 0 }, 30, rng)
    return cache
  }) as [KvCache, KvCache, KvCache, KvCache]
  const open = await opened()
  for (const cache of caches) await expectCopy(open, [cache])
  expect(open.resident.drop()).toBe(true)
  expect(open.resident.drop()).toBe(false)
  for (const cache of caches) await expectCopy(open, [cache])
  open.sent.bytes = 0
  for (const cache of caches.slice(2)) await expectCopy(open, [cache])
  expect(open.sent.bytes).toBe(0)
  await expectCopy(open, [caches[1]])
  expect(open.sent.bytes).toBeGreaterThan(caches[1].sizeBytes)
  await open.close()
})
