/**
 * Weights every row of a product by a softmax on WebGPU, for `device-proof.test.ts`: small, so large that the driver has no memory for what
 * lies between, and small again. One line of JSON with what came of each.
 */
import os from 'node:os'

const load = (name) => import(new URL(`../../../dist/src/${name}.js`, import.meta.url))
const { GraphBuilder } = await load('numerics/graph/builder')
const { matmul } = await load('numerics/graph/ops/matmul')
const { softmax } = await load('numerics/graph/ops/normalize')
const { toOnnxModel } = await load('numerics/graph/to-onnx')
const { createOrtRuntime } = await load('numerics/runtime/ort-runtime')
const { float32Tensor } = await load('numerics/tensor/host-tensor')

const g = new GraphBuilder('large')
const product = matmul(g, g.input('a', 'float32', ['M', 4]), g.input('b', 'float32', [4, 'N']))
g.output(matmul(g, softmax(g, product), g.input('c', 'float32', ['N', 1])), 'y')
const directory = os.tmpdir()
const bytes = toOnnxModel(g.build(), `${directory}/large.onnx`)
const session = await createOrtRuntime({ device: 'webgpu' }).loadSession({ bytes, directory }, { threads: 1 })
const filled = (shape, value) => float32Tensor(new Float32Array(shape[0] * shape[1]).fill(value), shape)
const found = []
for (const size of [100, 20_000, 100]) {
  try {
    const { y } = await session.run({ a: filled([size, 4], 1), b: filled([4, size], 0.5), c: filled([size, 1], 3) })
    found.push({ value: y.data[size - 1] })
  } catch ({ code, category, message, hint }) {
    found.push({ code, category, message, hint })
  }
}
await session.release()
console.log(JSON.stringify(found))
