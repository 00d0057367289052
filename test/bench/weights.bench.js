/**
 * How frozen weights should lie on the disk and in memory: float32, which the training graph maps as it is, or float16 or int8,
 * dequantized in the layer that uses them.
 *
 * A stack of products with distinct matrices of a 0.6B model's width, forward and the gradient to the input, as LoRA training
 * needs them. Each use dequantizes anew, so that one matrix at a time exists in float32. Times in turns, memory each in a
 * process of its own. Left alone ONNX Runtime widens all matrices before the first product: it folds constants when it loads the
 * model, and runs what waits for nothing first. So rewriting is off, and each matrix is taken from its file by an index that
 * the activations give.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'

export const title = 'Frozen weights: float32, float16 and int8, dequantized where they are used'

const [WIDTH, LAYERS] = [1024, 48]
const KINDS = ['float32', 'float16', 'int8']
const load = (file) => import(new URL(`../../dist/src/${file}.js`, import.meta.url))

export async function run({ tokens = '256,1024', rounds = '5' }, print) {
  const directory = mkdtempSync(path.join(os.tmpdir(), 'trainyard-bench-weights-'))
  try {
    for (const kind of KINDS) await writeWeights(kind, directory)
    for (const count of tokens.split(',').map(Number)) {
      const sessions = new Map()
      for (const kind of KINDS) sessions.set(kind, await openStack(kind, count, directory))
      const best = new Map(KINDS.map((kind) => [kind, Number.POSITIVE_INFINITY]))
      for (let round = 0; round <= Number(rounds); round++) {
        for (const [kind, { step }] of sessions) best.set(kind, Math.min(best.get(kind), await step()))
      }
      for (const { release } of sessions.values()) await release()
      for (const kind of KINDS) {
        const memory = JSON.parse(
          execFileSync(process.execPath, [import.meta.filename, kind, String(count), directory], { encoding: 'utf8' }),
        )
        const name = `${kind}, ${count} tokens`
        print({ name: `${name}: time`, value: best.get(kind), unit: 'ms', ratio: best.get(kind) / best.get('float32') })
        print({ name: `${name}: mapped weights`, value: memory.mapped / 1e6, unit: 'MB' })
        print({ name: `${name}: other memory at its peak`, value: memory.own / 1e6, unit: 'MB' })
      }
    }
    return []
  } finally {
    rmSync(directory, { recursive: true, force: true, maxRetries: 20 })
  }
}

const fileOf = (kind, directory) => path.join(directory, `weights-${kind}.bin`)
const bytesOf = (kind) => WIDTH * WIDTH * { float32: 4, float16: 2, int8: 1 }[kind]

/** The same numbers in each kind, nearly. */
async function writeWeights(kind, directory) {
  const { TensorFileWriter } = await load('model/architectures/tensor-file')
  const writer = await TensorFileWriter.create(fileOf(kind, directory))
  const values = Float32Array.from({ length: WIDTH * WIDTH }, (_, i) => (((i * 7919) % 255) - 127) / 127 / 32)
  const data = {
    float32: () => values,
    float16: () => Uint16Array.from(values, toHalf),
    int8: () => Int8Array.from(values, (value) => Math.round(value * 127 * 32)),
  }[kind]()
  for (let layer = 0; layer < LAYERS; layer++) {
    await writer.write(`w${layer}`, { dtype: kind, shape: [WIDTH, WIDTH], data })
  }
  await writer.finish()
}

function toHalf(value) {
  const bits = new Uint32Array(Float32Array.of(value).buffer)[0]
  const exponent = ((bits >>> 23) & 255) - 112
  return exponent <= 0 ? 0 : ((bits >>> 16) & 0x8000) | (exponent << 10) | ((bits >>> 13) & 0x3ff)
}

async function openStack(kind, tokens, directory) {
  const { GraphBuilder } = await load('numerics/graph/builder')
  const { writeOnnxModel } = await load('numerics/graph/to-onnx')
  const { gemm } = await load('numerics/graph/ops/matmul')
  const { cast, mul } = await load('numerics/graph/ops/elementwise')
  const { reshape, slice } = await load('numerics/graph/ops/shape')
  const { float32Tensor } = await load('numerics/tensor/host-tensor')
  const { createOrtRuntime } = await load('numerics/runtime/ort-runtime')
  const g = new GraphBuilder('stack')
  const x = g.input('x', 'float32', [tokens, WIDTH])
  const scale = g.input('scale', 'float32', [1, WIDTH])
  const location = { file: path.basename(fileOf(kind, directory)), sizeBytes: bytesOf(kind) }
  const stored = Array.from({ length: LAYERS }, (_, layer) =>
    g.external(`w${layer}`, kind, [1, WIDTH, WIDTH], { ...location, offsetBytes: layer * bytesOf(kind) }),
  )
  const shape = [WIDTH, WIDTH]
  /** The matrix in float32, once `y` is there. */
  const weight = (value, y) => {
    if (kind === 'float32') return reshape(g, value, shape)
    const corner = slice(g, slice(g, y, { axis: 0, end: 1 }), { axis: 1, end: 1 })
    const index = cast(g, reshape(g, mul(g, corner, g.scalar(0)), [1]), 'int64')
    const [taken] = g.node('Gather', [value, index], {}, { outputs: [{ dtype: kind, shape: [1, ...shape] }] })
    const widened = reshape(g, cast(g, taken, 'float32'), shape)
    return kind === 'int8' ? mul(g, widened, scale) : widened
  }
  let y = x
  for (const value of stored) y = gemm(g, y, weight(value, y), { transB: true })
  for (const value of stored.toReversed()) y = gemm(g, y, weight(value, y))
  if (kind !== 'int8') y = mul(g, y, scale)
  g.output(y, 'y')
  const model = path.join(directory, `${kind}-${tokens}.onnx`)
  await writeOnnxModel(g.build(), model)
  const options = { isPrepacked: false, optimization: 'disabled' }
  const session = await createOrtRuntime().loadSession(model, options)
  const feeds = {
    x: float32Tensor(new Float32Array(tokens * WIDTH).fill(0.5), [tokens, WIDTH]),
    scale: float32Tensor(new Float32Array(WIDTH).fill(1 / 127 / 32), [1, WIDTH]),
  }
  const step = async () => {
    const begun = performance.now()
    await session.run(feeds)
    return performance.now() - begun
  }
  return { step, release: () => session.release() }
}

if (process.argv[1] === import.meta.filename) {
  const [kind, tokens, directory] = process.argv.slice(2)
  const own = () => Number(/RssAnon:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]) * 1024
  const { step } = await openStack(kind, Number(tokens), directory)
  const before = own()
  for (let i = 0; i < 2; i++) await step()
  const status = readFileSync('/proc/self/smaps', 'utf8')
  const mapped = [...status.matchAll(/weights-\w+\.bin[\s\S]*?Rss:\s+(\d+)/g)].reduce(
    (sum, [, kb]) => sum + Number(kb) * 1024,
    0,
  )
  console.log(JSON.stringify({ mapped, own: own() - before }))
}
