/**
 * The runtime behind our interface: files beside the model, every dtype, errors as ours, sessions that end.
 */
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { RuntimeError } from '#base/errors/errors.js'
import { createRng } from '#base/util/rng.js'
import { GraphBuilder } from '#numerics/graph/builder.js'
import { add, exp, identity, mul } from '#numerics/graph/ops/elementwise.js'
import { skipRmsNorm } from '#numerics/graph/ops/normalize.js'
import { optimize } from '#numerics/graph/passes/optimize.js'
import { writeOnnxModel } from '#numerics/graph/to-onnx.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import type { Session, SessionOptions } from '#numerics/runtime/runtime.js'
import { float32Tensor, type HostTensor, int32Tensor, int64Tensor } from '#numerics/tensor/host-tensor.js'
import { buildSmallNetwork } from '../../support/model/small-network.js'
import { temporaryDirectory } from '../../support/temporary-directory.js'

async function load(g: GraphBuilder, options: SessionOptions = {}): Promise<Session> {
  const path = join(await temporaryDirectory(), 'model.onnx')
  await writeOnnxModel(g.build(), path)
  return await createOrtRuntime().loadSession(path, { threads: 1, ...options })
}

/** y = exp(x), z = 2x over any number of rows. */
function twoOutputs(): GraphBuilder {
  const g = new GraphBuilder('two')
  const x = g.input('x', 'float32', ['B', 2])
  g.output(exp(g, x), 'y')
  g.output(mul(g, x, g.scalar(2)), 'z')
  return g
}

const pair = float32Tensor(Float32Array.of(0, 1), [1, 2])

test('the runtime names itself with its version', () => {
  expect(createOrtRuntime().name).toMatch(/^onnxruntime-node \d+\.\d+\.\d+$/)
})

test('denormal numbers are zero on every thread', async () => {
  const g = new GraphBuilder('small')
  g.output(mul(g, g.input('x', 'float32', [1 << 20]), g.scalar(1e-10)), 'y')
  const session = await load(g, { threads: 2 })
  const at = async (value: number): Promise<Set<number>> => {
    const result = await session.run({ x: float32Tensor(new Float32Array(1 << 20).fill(value), [1 << 20]) })
    return new Set(Array.from(result['y']!.data, Number))
  }
  expect(await at(1e-30)).toEqual(new Set([0]))
  expect([...(await at(1e-27))]).toEqual([expect.closeTo(1e-37, 40)])
  await session.release()
})

describe('weights in other files', () => {
  async function weightsIn(directory: string): Promise<string> {
    const file = join(directory, 'weights.bin')
    const data = new Float32Array(1024 + 2)
    data.set([10, 20], 1024)
    await writeFile(file, data)
    return file
  }

  function withWeights(file: string): GraphBuilder {
    const g = new GraphBuilder('external')
    const w = g.external('w', 'float32', [2], { file, offsetBytes: 4096, sizeBytes: 8 })
    g.output(add(g, g.input('x', 'float32', ['B', 2]), w), 'y')
    return g
  }

  test('are read at their offset, and the model file is not needed once loaded', async () => {
    const directory = await temporaryDirectory()
    const path = join(directory, 'model.onnx')
    await writeOnnxModel(withWeights(await weightsIn(directory)).build(), path)
    const session = await createOrtRuntime().loadSession(path, { threads: 1, isPrepacked: false })
    await rm(path)
    expect([...(await session.run({ x: pair }))['y']!.data]).toEqual([10, 21])
    await session.release()
  })

  test('must lie below the directory of the model', async () => {
    const directory = await temporaryDirectory()
    await mkdir(join(directory, 'models'))
    const path = join(directory, 'models', 'model.onnx')
    await writeOnnxModel(withWeights(await weightsIn(directory)).build(), path)
    const attempt = createOrtRuntime().loadSession(path)
    await expect(attempt).rejects.toThrow(RuntimeError)
    await expect(attempt).rejects.toThrow(/escapes model directory/)
  })
})

test.each<HostTensor>([
  float32Tensor(Float32Array.of(1.5, -2), [2]),
  { dtype: 'float64', shape: [2], data: Float64Array.of(Math.PI, 1e300) },
  { dtype: 'float16', shape: [2], data: Uint16Array.of(0x3c00, 0xc000) },
  int64Tensor([2 ** 40, -1]),
  int32Tensor(Int32Array.of(7, -8), [2]),
  { dtype: 'int8', shape: [2], data: Int8Array.of(-128, 127) },
  { dtype: 'uint8', shape: [2], data: Uint8Array.of(0, 255) },
  { dtype: 'bool', shape: [2], data: Uint8Array.of(0, 1) },
])('$dtype tensors go in and out unchanged', async (tensor) => {
  const g = new GraphBuilder('same')
  g.output(identity(g, g.input('x', tensor.dtype, [2])), 'y')
  const session = await load(g)
  expect((await session.run({ x: tensor }))['y']).toEqual(tensor)
  await session.release()
})

test('inputs may be views into larger arrays', async () => {
  const session = await load(twoOutputs())
  const data = Float32Array.of(9, 9, 3, 4, 9).subarray(2, 4)
  expect([...(await session.run({ x: float32Tensor(data, [1, 2]) }))['z']!.data]).toEqual([6, 8])
  await session.release()
})

test('only fetched outputs come back', async () => {
  const session = await load(twoOutputs())
  expect(session.inputNames).toEqual(['x'])
  expect(session.outputNames).toEqual(['y', 'z'])
  expect(Object.keys(await session.run({ x: pair }, ['z']))).toEqual(['z'])
  expect(Object.keys(await session.run({ x: pair }))).toEqual(['y', 'z'])
  await session.release()
})

test('optional outputs that nothing uses are not asked of the kernel', async () => {
  const g = new GraphBuilder('optional')
  const x = g.input('x', 'float32', ['B', 2])
  g.output(skipRmsNorm(g, x, x, { weight: g.constant(float32Tensor(Float32Array.of(1, 1), [2])) }).sum, 'sum')
  const session = await load(g)
  expect([...(await session.run({ x: pair }))['sum']!.data]).toEqual([0, 2])
  await session.release()
})

describe('failures are RuntimeErrors that say what was tried', () => {
  test('a file that is no model', async () => {
    const path = join(await temporaryDirectory(), 'model.onnx')
    await writeFile(path, 'not a model')
    const attempt = createOrtRuntime().loadSession(path)
    await expect(attempt).rejects.toThrow(RuntimeError)
    await expect(attempt).rejects.toMatchObject({ code: 'runtime_failed', message: expect.stringContaining(path) })
  })

  test('a file that is not there', async () => {
    const path = join(await temporaryDirectory(), 'missing.onnx')
    await expect(createOrtRuntime().loadSession(path)).rejects.toMatchObject({ code: 'runtime_failed' })
  })

  test('inputs that do not fit', async () => {
    const session = await load(twoOutputs())
    const wrong: readonly (readonly [Record<string, HostTensor>, string])[] = [
      [{}, 'runtime_failed'],
      [{ x: float32Tensor(new Float32Array(3), [1, 3]) }, 'runtime_failed'],
      [{ x: int64Tensor([1, 2], [1, 2]) }, 'runtime_failed'],
      [{ x: { dtype: 'float32', shape: [2, 2], data: new Float32Array(3) } }, 'size_mismatch'],
      [{ x: { dtype: 'bfloat16', shape: [1, 2], data: new Uint16Array(2) } }, 'unsupported_dtype'],
    ]
    for (const [feeds, code] of wrong) await expect(session.run(feeds)).rejects.toMatchObject({ code })
    expect([...(await session.run({ x: pair }))['z']!.data]).toEqual([0, 2])
    await session.release()
  })

  test('a session that was released', async () => {
    const session = await load(twoOutputs())
    await session.release()
    await session.release()
    await expect(session.run({ x: pair })).rejects.toMatchObject({ code: 'session_released' })
  })
})

test('a profile is written when the session is released', async () => {
  const directory = await temporaryDirectory()
  const session = await load(twoOutputs(), { profilePrefix: join(directory, 'trace') })
  await session.run({ x: pair })
  await session.release()
  expect((await readdir(directory)).filter((name) => name.startsWith('trace'))).toHaveLength(1)
})

test('layers computed again give bit-identical gradients, with and without passes and prepacking', async () => {
  const directory = await temporaryDirectory()
  const rng = createRng(3)
  const feeds: Record<string, HostTensor> = {}
  for (const { name, shape } of buildSmallNetwork({ isRecomputed: false, layers: 3 }).build().inputs) {
    const sizes = shape.map((dim) => (dim === 'M' ? 5 : Number(dim)))
    const count = sizes.reduce((a, b) => a * b, 1)
    feeds[name] = float32Tensor(
      Float32Array.from({ length: count }, () => rng.normal()),
      sizes,
    )
  }
  const results: Record<string, HostTensor>[] = []
  for (const isRecomputed of [false, true]) {
    for (const isOptimized of [false, true]) {
      const graph = buildSmallNetwork({ isRecomputed, layers: 3 }).build()
      const path = join(directory, `${isRecomputed}-${isOptimized}.onnx`)
      await writeOnnxModel(isOptimized ? optimize(graph) : graph, path)
      const session = await createOrtRuntime().loadSession(path, { threads: 1, isPrepacked: isOptimized })
      results.push(await session.run(feeds))
      await session.release()
    }
  }
  for (const result of results) expect(result).toEqual(results[0])
})
