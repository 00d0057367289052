/**
 * The loss of labelled answers as the train graph computes it in ONNX Runtime, against a hundred random batches of TRL's own
 * `KTOTrainer.kto_loss` and PyTorch autograd in float64 (test/goldens/make_kto_goldens.py): losses, gradients to every token, rewards and
 * reference points to 1e-5, relative to the larger of 1 and the value.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { backward } from '#numerics/autodiff/backward.js'
import { GraphBuilder } from '#numerics/graph/builder.js'
import { writeOnnxModel } from '#numerics/graph/to-onnx.js'
import { type PreferenceLossOptions, preferenceLoss } from '#numerics/nn/preference-loss.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import type { Session } from '#numerics/runtime/runtime.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import { ktoMeasures, ktoSums, referencePoint, weightOf } from '#training/kinds/dpo/unpaired/kto-measures.js'
import goldens from '../../goldens/kto-loss.json' with { type: 'json' }

type Golden = (typeof goldens)[number]

const optionsOf = (golden: Golden): PreferenceLossOptions => ({
  loss: 'kto',
  beta: golden.beta,
  labelSmoothing: 0,
  gamma: 0,
  sftWeight: 0,
  desirableWeight: golden.desirable_weight,
  undesirableWeight: golden.undesirable_weight,
})

let directory: string
const sessions = new Map<number, Session>()
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-kto-'))
})
afterAll(async () => {
  for (const session of sessions.values()) await session.release()
  await rm(directory, { recursive: true, force: true, maxRetries: 20 })
})

/** One graph for each strength: weights are inputs. */
async function openLoss(options: PreferenceLossOptions): Promise<Session> {
  const known = sessions.get(options.beta)
  if (known !== undefined) return known
  const g = new GraphBuilder('kto')
  const logp = g.input('logp', 'float32', ['N'])
  const inputs = {
    logp,
    pairs: g.input('pairs', 'float32', ['N', 'P']),
    referenceMargin: g.input('reference_margin', 'float32', ['P']),
    answerWeights: g.input('answer_weights', 'float32', ['P']),
    denominator: g.input('denominator', 'float32', []),
    chosenShare: null,
  }
  const loss = preferenceLoss(g, inputs, options)
  const [gradient] = backward(g, [{ value: loss, gradient: g.scalar(1) }], [logp])
  g.output(loss, 'loss')
  g.output(gradient!, 'gradient')
  const path = join(directory, `${sessions.size}.onnx`)
  await writeOnnxModel(g.build(), path)
  const session = await createOrtRuntime().loadSession(path, { threads: 1 })
  sessions.set(options.beta, session)
  return session
}

const close = (got: number, wanted: number): void =>
  expect(Math.abs(got - wanted)).toBeLessThanOrEqual(1e-5 * Math.max(1, Math.abs(wanted)))
const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length

it("equals TRL's over a hundred random batches, with the numbers that a step reports", async () => {
  expect(goldens.filter(({ kl }) => kl > 0).length).toBeGreaterThan(20)
  expect(goldens.filter(({ kl }) => kl === 0).length).toBeGreaterThan(20)
  for (const golden of goldens) {
    const options = optionsOf(golden)
    const kl = referencePoint(Float64Array.from(golden.mismatched), Float64Array.from(golden.reference_mismatched))
    close(kl, golden.kl)
    const signs = golden.labels.map((label) => (label ? 1 : -1))
    const tokens = golden.answers.flatMap((answer, column) => answer.map((logp) => ({ logp, column })))
    const count = golden.answers.length
    const pairs = new Float32Array(tokens.length * count)
    tokens.forEach(({ column }, n) => {
      pairs[n * count + column] = signs[column]!
    })
    const perAnswer = (read: (sign: number, index: number) => number) =>
      float32Tensor(Float32Array.from(signs, read), [count])
    const session = await openLoss(options)
    const result = await session.run({
      logp: float32Tensor(
        Float32Array.from(tokens, ({ logp }) => logp),
        [tokens.length],
      ),
      pairs: float32Tensor(pairs, [tokens.length, count]),
      reference_margin: perAnswer((sign, i) => sign * (golden.references[i]! + kl)),
      answer_weights: perAnswer((sign) => weightOf(sign, options)),
      denominator: float32Tensor(Float32Array.of(count), []),
    })
    close((result['loss']!.data as Float32Array)[0]!, golden.loss)
    const gradient = result['gradient']!.data as Float32Array
    golden.gradients.flat().forEach((wanted, n) => {
      close(gradient[n]!, wanted)
    })
    const policy = Float64Array.from(golden.answers, (answer) => answer.reduce((a, b) => a + b, 0))
    const logps = { signs, policy, reference: Float64Array.from(golden.references) }
    const { loss, metrics } = ktoMeasures(ktoSums(logps, kl, options))
    close(loss, golden.loss)
    close(metrics['kl']!, golden.kl)
    if (golden.rewards_chosen.length > 0) close(metrics['rewards/chosen']!, mean(golden.rewards_chosen))
    else expect(metrics).not.toHaveProperty('rewards/chosen')
    if (golden.rewards_rejected.length > 0) close(metrics['rewards/rejected']!, mean(golden.rewards_rejected))
    else expect(metrics).not.toHaveProperty('rewards/rejected')
  }
})
