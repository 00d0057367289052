/**
 * The head's outputs and their slopes against float64: log-probability and entropy from the logits, slopes by central differences
 * of both. To 1e-5 of the largest element; chunks and positions that several labels share included.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createRng } from '#base/util/rng.js'
import { GraphBuilder } from '#numerics/graph/builder.js'
import { writeOnnxModel } from '#numerics/graph/to-onnx.js'
import { fusedHead } from '#numerics/nn/fused-head.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import { float32Tensor, int64Tensor } from '#numerics/tensor/host-tensor.js'

const [POSITIONS, WIDTH, VOCABULARY] = [5, 6, 11]

let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-head-'))
})
afterAll(() => rm(directory, { recursive: true, force: true, maxRetries: 20 }))

/** Log-probability of the label and entropy, in float64. */
function headReference(hidden: readonly number[], weight: ArrayLike<number>, label: number) {
  const logits = Array.from({ length: VOCABULARY }, (_, v) =>
    hidden.reduce((sum, value, e) => sum + value * weight[v * WIDTH + e]!, 0),
  )
  const top = Math.max(...logits)
  const normalizer = top + Math.log(logits.reduce((sum, z) => sum + Math.exp(z - top), 0))
  const logps = logits.map((z) => z - normalizer)
  return { logp: logps[label]!, entropy: -logps.reduce((sum, logp) => sum + Math.exp(logp) * logp, 0) }
}

describe('the fused head', () => {
  it('has the slopes of log-probability and entropy', async () => {
    const rng = createRng('head')
    const random = (length: number) => Float32Array.from({ length }, () => rng.normal())
    const [hidden, weight] = [random(POSITIONS * WIDTH), random(VOCABULARY * WIDTH)]
    const positions = [4, 0, 2, 2, 3, 1]
    const labels = positions.map(() => rng.integer(VOCABULARY))
    const g = new GraphBuilder('head')
    const head = fusedHead(
      g,
      {
        hidden: g.input('hidden', 'float32', [POSITIONS, WIDTH]),
        weight: g.input('weight', 'float32', [VOCABULARY, WIDTH]),
        labelPositions: g.input('positions', 'int64', ['Q', 'C']),
        labels: g.input('labels', 'int64', ['Q', 'C']),
      },
      { slopes: 'logp_and_entropy' },
    )
    for (const name of ['logp', 'entropy', 'slope', 'entropySlope'] as const) g.output(head[name]!, name)
    const path = join(directory, 'head.onnx')
    await writeOnnxModel(g.build(), path)
    const session = await createOrtRuntime().loadSession(path, { threads: 1 })
    const outputs = await session.run({
      hidden: float32Tensor(hidden, [POSITIONS, WIDTH]),
      weight: float32Tensor(weight, [VOCABULARY, WIDTH]),
      positions: int64Tensor(positions, [3, 2]),
      labels: int64Tensor(labels, [3, 2]),
    })
    await session.release()
    const list = (name: string) => [...(outputs[name]!.data as Float32Array)]
    const close = (got: number, wanted: number) =>
      expect(Math.abs(got - wanted)).toBeLessThan(1e-5 * (1 + Math.abs(wanted)))
    const step = 1e-5
    for (const [n, position] of positions.entries()) {
      const row = [...hidden.subarray(position * WIDTH, (position + 1) * WIDTH)]
      const moved = (e: number, by: number) =>
        headReference(
          row.map((value, i) => value + (i === e ? by : 0)),
          weight,
          labels[n]!,
        )
      const here = headReference(row, weight, labels[n]!)
      close(list('logp')[n]!, here.logp)
      close(list('entropy')[n]!, here.entropy)
      for (let e = 0; e < WIDTH; e += 1) {
        const [up, down] = [moved(e, step), moved(e, -step)]
        close(list('slope')[n * WIDTH + e]!, (up.logp - down.logp) / (2 * step))
        close(list('entropySlope')[n * WIDTH + e]!, (up.entropy - down.entropy) / (2 * step))
      }
    }
  })
})
