/**
 * Gradients as they run with several threads: sums by index are exact and repeatable, values that wait keep their bits.
 */
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { after } from '#numerics/autodiff/after.js'
import { backward } from '#numerics/autodiff/backward.js'
import { GraphBuilder } from '#numerics/graph/builder.js'
import type { Value } from '#numerics/graph/graph.js'
import { exp, mul } from '#numerics/graph/ops/elementwise.js'
import { gather } from '#numerics/graph/ops/indexing.js'
import { reduceSum } from '#numerics/graph/ops/reduce.js'
import { writeOnnxModel } from '#numerics/graph/to-onnx.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import { float32Tensor, int64Tensor } from '#numerics/tensor/host-tensor.js'
import { temporaryDirectory } from '../../support/temporary-directory.js'

test('an embedding row used thousands of times gets every one of its gradients, in every run', async () => {
  const [rows, width, count] = [100, 64, 8000]
  const g = new GraphBuilder('embedding')
  const table = g.input('table', 'float32', [rows, width])
  const embedded = gather(g, table, g.input('ids', 'int64', ['N']))
  const [dTable] = backward(g, [{ value: embedded, gradient: g.input('dy', 'float32', ['N', width]) }], [table])
  g.output(dTable!, 'gradient')
  const path = join(await temporaryDirectory(), 'model.onnx')
  await writeOnnxModel(g.build(), path)
  const session = await createOrtRuntime().loadSession(path, { threads: 2 })
  const feeds = {
    table: float32Tensor(new Float32Array(rows * width), [rows, width]),
    ids: int64Tensor(Array.from({ length: count }, (_, i) => i % 4)),
    dy: float32Tensor(new Float32Array(count * width).fill(1), [count, width]),
  }
  const expected = Float32Array.from({ length: rows * width }, (_, i) => (i < 4 * width ? count / 4 : 0))
  for (let run = 0; run < 3; run++) {
    const { gradient } = await session.run(
      Object.fromEntries(Object.entries(feeds).filter(([name]) => session.inputNames.includes(name))),
    )
    expect(gradient?.data).toEqual(expected)
  }
  await session.release()
})

test.each([
  ['a scalar', []],
  ['a symbolic matrix', ['B', 3]],
  ['an empty axis', ['B', 0]],
] as const)('%s waits without changing, whatever the triggers hold', async (_, shape) => {
  const g = new GraphBuilder('wait')
  const x = g.input('x', 'float32', shape)
  const triggers: Value[] = ['a', 'b'].map((name) => g.input(name, 'float32', ['N']))
  const waiting = after(g, x, [exp(g, triggers[0]!), reduceSum(g, mul(g, triggers[1]!, triggers[1]!), [0])])
  g.output(waiting, 'y')
  const path = join(await temporaryDirectory(), 'model.onnx')
  await writeOnnxModel(g.build(), path)
  const session = await createOrtRuntime().loadSession(path, { threads: 1 })
  const sizes = shape.map((dim) => (dim === 'B' ? 2 : dim))
  const data = Float32Array.of(-0, 1.5, Number.NaN, Infinity, 1e-40, 7).subarray(
    0,
    sizes.reduce((a, b) => a * b, 1),
  )
  const trigger = float32Tensor(Float32Array.of(Number.NaN, Infinity), [2])
  const { y } = await session.run({ x: float32Tensor(data, sizes), a: trigger, b: trigger })
  expect(y).toEqual(float32Tensor(data, sizes))
  await session.release()
})
