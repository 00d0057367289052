/**
 * The matrix roof: how many float32 operations a second a chain of large products reaches in ONNX Runtime on this machine,
 * which other figures are ratios to.
 */
import path from 'node:path'

/**
 * Best of six runs of eight products [1024, 1536] x [1536, 1536].
 *
 * @param {(name: string) => Promise<any>} load imports a built module of `src/`
 * @param {{ runtime: any, directory: string, threads?: object, now?: () => number }} options
 * @returns {Promise<number>} FLOP/s
 */
export async function measureRoof(load, { runtime, directory, threads = {}, now = () => performance.now() }) {
  const { GraphBuilder } = await load('numerics/graph/builder')
  const { writeOnnxModel } = await load('numerics/graph/to-onnx')
  const { gemm } = await load('numerics/graph/ops/matmul')
  const { float32Tensor } = await load('numerics/tensor/host-tensor')
  const [m, n, chain] = [1024, 1536, 8]
  const g = new GraphBuilder('roof')
  const x = g.input('x', 'float32', [m, n])
  const w = g.constant(float32Tensor(new Float32Array(n * n).fill(0.001), [n, n]))
  let y = x
  for (let i = 0; i < chain; i++) y = gemm(g, y, w, { transB: true })
  g.output(y, 'y')
  const model = path.join(directory, 'roof.onnx')
  await writeOnnxModel(g.build(), model)
  const session = await runtime.loadSession(model, threads)
  const feeds = { x: float32Tensor(new Float32Array(m * n).fill(0.5), [m, n]) }
  let best = Infinity
  for (let i = 0; i < 6; i++) {
    const begun = now()
    await session.run(feeds)
    best = Math.min(best, now() - begun)
  }
  await session.release()
  return (2 * m * n * n * chain) / (best / 1000)
}
