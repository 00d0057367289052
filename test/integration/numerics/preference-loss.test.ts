/**
 * The preference losses as the train graph computes them in ONNX Runtime, against two hundred random batches of TRL's own
 * losses and PyTorch autograd (test/goldens/make_dpo_goldens.py, make_preference_goldens.py): losses, gradients to every token
 * and rewards to 1e-5, relative to the larger of 1 and the value.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { backward } from '#numerics/autodiff/backward.js'
import { GraphBuilder } from '#numerics/graph/builder.js'
import { writeOnnxModel } from '#numerics/graph/to-onnx.js'
import {
  isAveraged,
  type PreferenceLossName,
  type PreferenceLossOptions,
  preferenceLoss,
} from '#numerics/nn/preference-loss.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import type { Session } from '#numerics/runtime/runtime.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import { preferenceMeasures } from '#training/kinds/dpo/dpo-metrics.js'
import { noLogps } from '#training/kinds/dpo/dpo-rows.js'
import sigmoidGoldens from '../../goldens/preference-loss.json' with { type: 'json' }
import otherGoldens from '../../goldens/preference-losses.json' with { type: 'json' }

type Golden = (typeof goldens)[number]

const goldens = [
  ...sigmoidGoldens.map((golden) => ({ ...golden, loss_type: 'sigmoid', simpo_gamma: 0.5, rpo_alpha: 0 })),
  ...otherGoldens.map((golden) => ({ ...golden, reference_free: false })),
]

const optionsOf = (golden: Golden): PreferenceLossOptions => ({
  loss: golden.loss_type as PreferenceLossName,
  beta: golden.beta,
  labelSmoothing: golden.label_smoothing,
  gamma: golden.simpo_gamma,
  sftWeight: golden.rpo_alpha,
  desirableWeight: 1,
  undesirableWeight: 1,
})

let directory: string
const sessions = new Map<string, Session>()
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-dpo-'))
})
afterAll(async () => {
  for (const session of sessions.values()) await session.release()
  await rm(directory, { recursive: true, force: true, maxRetries: 20 })
})

async function openLoss(options: PreferenceLossOptions): Promise<Session> {
  const key = JSON.stringify(options)
  const known = sessions.get(key)
  if (known !== undefined) return known
  const g = new GraphBuilder('dpo')
  const logp = g.input('logp', 'float32', ['N'])
  const loss = preferenceLoss(
    g,
    {
      logp,
      pairs: g.input('pairs', 'float32', ['N', 'P']),
      referenceMargin: g.input('reference_margin', 'float32', ['P']),
      denominator: g.input('denominator', 'float32', []),
      answerWeights: null,
      chosenShare: g.input('chosen_share', 'float32', ['N']),
    },
    options,
  )
  const [gradient] = backward(g, [{ value: loss, gradient: g.scalar(1) }], [logp])
  g.output(loss, 'loss')
  g.output(gradient!, 'gradient')
  const path = join(directory, `${sessions.size}.onnx`)
  await writeOnnxModel(g.build(), path)
  const session = await createOrtRuntime().loadSession(path, { threads: 1 })
  sessions.set(key, session)
  return session
}

/** Tokens of all answers in one list, the chosen of a pair before its rejected one. */
function tokensOf({ chosen, rejected, loss_type: loss }: Golden) {
  const share = (answer: readonly number[]) => (isAveraged(loss as PreferenceLossName) ? 1 / answer.length : 1)
  return chosen.flatMap((answer, pair) => [
    ...answer.map((logp) => ({ logp, pair, share: share(answer) })),
    ...rejected[pair]!.map((logp) => ({ logp, pair, share: -share(rejected[pair]!) })),
  ])
}

/** Chosen minus rejected under the reference, as the loss takes them. */
function referenceMargins(golden: Golden): number[] {
  const share = (answer: readonly number[]) =>
    isAveraged(golden.loss_type as PreferenceLossName) ? 1 / answer.length : 1
  return golden.reference_chosen.map((logp, pair) =>
    golden.reference_free
      ? 0
      : logp * share(golden.chosen[pair]!) - golden.reference_rejected[pair]! * share(golden.rejected[pair]!),
  )
}

const close = (got: number, wanted: number): void =>
  expect(Math.abs(got - wanted)).toBeLessThanOrEqual(1e-5 * Math.max(1, Math.abs(wanted)))
const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0)

describe('preference loss', () => {
  it("equals TRL's over two hundred random batches", async () => {
    for (const golden of goldens) {
      const tokens = tokensOf(golden)
      const count = golden.chosen.length
      const pairs = new Float32Array(tokens.length * count)
      tokens.forEach(({ pair, share }, n) => {
        pairs[n * count + pair] = share
      })
      const chosenCount = golden.chosen.flat().length
      const session = await openLoss(optionsOf(golden))
      const outputs = await session.run({
        logp: float32Tensor(
          Float32Array.from(tokens, ({ logp }) => logp),
          [tokens.length],
        ),
        pairs: float32Tensor(pairs, [tokens.length, count]),
        reference_margin: float32Tensor(Float32Array.from(referenceMargins(golden)), [count]),
        denominator: float32Tensor(Float32Array.of(count), []),
        chosen_share: float32Tensor(
          Float32Array.from(tokens, ({ share }) => (share > 0 ? 1 / chosenCount : 0)),
          [tokens.length],
        ),
      })
      close(Number(outputs['loss']!.data[0]), golden.loss)
      const expected = golden.gradient_chosen.flatMap((gradient, pair) => [
        ...gradient,
        ...golden.gradient_rejected[pair]!,
      ])
      for (const [n, wanted] of expected.entries()) close(Number(outputs['gradient']!.data[n]), wanted)
    }
  })

  it("reports TRL's rewards and the same loss from sums over tokens", () => {
    for (const golden of goldens) {
      const of = (answers: readonly number[]) => Float64Array.from(answers)
      const lengths = (answers: readonly (readonly number[])[]) => of(answers.map(({ length }) => length))
      const tokens = { chosen: lengths(golden.chosen), rejected: lengths(golden.rejected) }
      const policy = { chosen: of(golden.chosen.map(sum)), rejected: of(golden.rejected.map(sum)), tokens }
      const reference = golden.reference_free
        ? noLogps(golden.chosen.length)
        : { chosen: of(golden.reference_chosen), rejected: of(golden.reference_rejected), tokens }
      const { loss, metrics } = preferenceMeasures(policy, reference, optionsOf(golden))
      const mean = (values: readonly number[]): number => sum(values) / values.length
      const margins = golden.rewards_chosen.map((reward, pair) => reward - golden.rewards_rejected[pair]!)
      close(loss, golden.loss)
      close(metrics['rewards/chosen']!, mean(golden.rewards_chosen))
      close(metrics['rewards/rejected']!, mean(golden.rewards_rejected))
      close(metrics['rewards/margins']!, mean(margins))
      // where policy and reference agree, the sign of the margin is that of a rounding
      if (margins.some((margin) => Math.abs(margin) < 1e-9)) continue
      expect(metrics['rewards/accuracies']).toBe(mean(margins.map((margin) => (margin > 0 ? 1 : 0))))
    }
  })

  it('has half the slope where policy and reference agree, as every job starts', async () => {
    const session = await openLoss({
      loss: 'sigmoid',
      beta: 1,
      labelSmoothing: 0,
      gamma: 0,
      sftWeight: 0,
      desirableWeight: 1,
      undesirableWeight: 1,
    })
    const { gradient } = await session.run({
      logp: float32Tensor(Float32Array.of(-1, -1), [2]),
      pairs: float32Tensor(Float32Array.of(1, -1), [2, 1]),
      reference_margin: float32Tensor(Float32Array.of(0), [1]),
      denominator: float32Tensor(Float32Array.of(1), []),
      chosen_share: float32Tensor(Float32Array.of(1, 0), [2]),
    })
    expect([...(gradient!.data as Float32Array)]).toEqual([-0.5, 0.5])
  })
})
