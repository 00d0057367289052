/**
 * The KL penalty over whole optimizer steps of several batches, as the train graph computes it in ONNX Runtime, against a
 * hundred random steps of PyTorch autograd (test/goldens/make_kl_goldens.py). Losses and gradients to 1e-4.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { backward } from '#numerics/autodiff/backward.js'
import { GraphBuilder } from '#numerics/graph/builder.js'
import { writeOnnxModel } from '#numerics/graph/to-onnx.js'
import { policyLoss } from '#numerics/nn/policy-loss.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import type { Session } from '#numerics/runtime/runtime.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import { resolveRlConfig } from '#training/hyperparameters.js'
import { stepKlMean } from '#training/trainer/rl/rl-scores.js'
import { sequenceRow, toRowBatch } from '#training/trainer/row-batch.js'
import goldens from '../../goldens/kl-penalty.json' with { type: 'json' }

type Golden = (typeof goldens)[number]

let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-kl-'))
})
afterAll(() => rm(directory, { recursive: true, force: true, maxRetries: 20 }))

async function openLoss({ config }: Golden, isMeanGiven: boolean): Promise<Session> {
  const { policyLoss: wanted } = resolveRlConfig(config)
  const options = { ...wanted, kl: wanted.kl === null ? null : { ...wanted.kl, isMeanGiven } }
  const g = new GraphBuilder('kl')
  const perToken = (name: string) => g.input(name, 'float32', ['N'])
  const logp = perToken('logp')
  const { loss } = policyLoss(
    g,
    {
      logp,
      oldLogp: perToken('old'),
      advantage: perToken('advantage'),
      weight: perToken('weight'),
      mask: perToken('mask'),
      denominator: g.input('denominator', 'float32', []),
      segments: options.ratioLevel === 'token' ? null : g.input('segments', 'float32', ['N', 'G']),
      referenceLogp: perToken('reference'),
      klMean: isMeanGiven ? g.input('kl_mean', 'float32', []) : null,
      samplerLogp: null,
    },
    options,
  )
  const [gradient] = backward(g, [{ value: loss, gradient: g.scalar(1) }], [logp])
  g.output(loss, 'loss')
  g.output(gradient!, 'gradient')
  const path = join(directory, 'kl.onnx')
  await writeOnnxModel(g.build(), path)
  return createOrtRuntime().loadSession(path, { threads: 1 })
}

const floats = (values: readonly (number | null)[]) => Float32Array.from(values, (value) => value ?? Number.NaN)

/** The rows as batches of the trainer: a first token that nothing predicts, then those of the golden. */
function laidOut({ rows }: Golden) {
  return rows.map((row) => {
    const length = row.logp.length + 1
    const lossMask = Uint8Array.from({ length }, (_, t) => (t === 0 ? 0 : 1))
    const packed = {
      ...sequenceRow(new Int32Array(length), lossMask),
      logprobs: Float32Array.of(Number.NaN, ...floats(row.old)),
      advantages: new Float32Array(length),
      weights: new Float32Array(length),
      sequences: [],
      usedLength: length,
      trainableTokenCount: length - 1,
    }
    return { rows: [packed], batch: toRowBatch([packed]), trainerLogp: null, referenceLogp: floats(row.reference) }
  })
}

describe('KL penalty', () => {
  it.each([false, true])('equals PyTorch over a hundred random steps, the mean given: %s', async (isMeanGiven) => {
    for (const [n, golden] of goldens.entries()) {
      if (!isMeanGiven && golden.rows.length > 1) continue
      const batches = laidOut(golden)
      const source = resolveRlConfig(golden.config).policyLoss.kl!.source
      const mean = await stepKlMean(batches, source, async (batch) =>
        floats(golden.rows[batches.findIndex((part) => part.batch === batch)]!.logp),
      )
      const session = await openLoss(golden, isMeanGiven)
      const count = golden.rows.reduce((sum, { logp }) => sum + logp.length, 0)
      let loss = 0
      for (const [r, row] of golden.rows.entries()) {
        const column = (values: readonly (number | null)[]) => float32Tensor(floats(values), [values.length])
        const feeds = {
          logp: column(row.logp),
          old: column(row.old),
          advantage: column(row.advantage),
          weight: column(row.weight),
          mask: column(row.logp.map(() => 1)),
          reference: column(row.reference),
          denominator: float32Tensor(Float32Array.of(count), []),
          segments: float32Tensor(
            floats(row.segments.flatMap((segment) => [segment === 0 ? 1 : 0, segment === 1 ? 1 : 0])),
            [row.logp.length, 2],
          ),
          kl_mean: float32Tensor(Float32Array.of(mean), []),
        }
        const wanted = Object.entries(feeds).filter(([name]) => session.inputNames.includes(name))
        const result = await session.run(Object.fromEntries(wanted))
        loss += (result['loss']!.data as Float32Array)[0]!
        row.gradient.forEach((value, t) => {
          const found = (result['gradient']!.data as Float32Array)[t]!
          expect(Math.abs(found - value), `step ${n}, row ${r}, token ${t}`).toBeLessThan(1e-4)
        })
      }
      expect(Math.abs(loss - golden.loss), `step ${n}`).toBeLessThan(1e-4)
      await session.release()
    }
  })
})
