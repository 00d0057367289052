/**
 * The policy loss with all its options over whole optimizer steps of several batches, as the train graph computes it in ONNX
 * Runtime, against random steps of PyTorch autograd (test/goldens/make_policy_goldens.py): every option in a hundred of them or
 * more. Losses and gradients to 1e-4.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import { backward } from '#numerics/autodiff/backward.js'
import { GraphBuilder } from '#numerics/graph/builder.js'
import { writeOnnxModel } from '#numerics/graph/to-onnx.js'
import { policyLoss } from '#numerics/nn/policy-loss.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import type { Session } from '#numerics/runtime/runtime.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import { stepKlMean } from '#training/kinds/rl/rl-scores.js'
import { type RowBatch, sequenceRow, toRowBatch } from '#training/trainer/row-batch.js'
import policySteps from '../../goldens/policy-steps.json' with { type: 'json' }
import { resolveRlConfig } from '../../support/model/job-options.js'

interface Golden {
  readonly config: JsonObject
  readonly rows: readonly {
    readonly logp: readonly number[]
    readonly old: readonly (number | null)[]
    /** Only where the loss is truncated: `old` is then the trainer's. */
    readonly sampler?: readonly (number | null)[]
    readonly reference: readonly number[]
    readonly advantage: readonly number[]
    readonly weight: readonly number[]
    readonly segments: readonly number[]
    readonly gradient: readonly number[]
  }[]
  readonly loss: number
}
const goldens = policySteps as readonly Golden[]

let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-policy-'))
})
afterAll(() => rm(directory, { recursive: true, force: true, maxRetries: 20 }))

async function openLoss({ config }: Golden, isMeanGiven: boolean): Promise<Session> {
  const { policyLoss: wanted } = resolveRlConfig(config)
  const options = { ...wanted, kl: wanted.kl === null ? null : { ...wanted.kl, isMeanGiven } }
  const g = new GraphBuilder('policy')
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
      entropy: options.entropyCoefficient > 0 ? perToken('entropy') : null,
      referenceLogp: options.kl === null && options.klBeta === 0 ? null : perToken('reference'),
      klMean: options.kl !== null && isMeanGiven ? g.input('kl_mean', 'float32', []) : null,
      samplerLogp: options.truncation === null ? null : perToken('sampler'),
    },
    options,
  )
  const [gradient] = backward(g, [{ value: loss, gradient: g.scalar(1) }], [logp])
  g.output(loss, 'loss')
  g.output(gradient!, 'gradient')
  const path = join(directory, 'policy.onnx')
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

/** Loss and gradients of a step, its rows one after the other. */
async function evaluate(golden: Golden, isMeanGiven: boolean): Promise<{ loss: number; gradients: Float32Array[] }> {
  const batches = laidOut(golden)
  const { kl } = resolveRlConfig(golden.config).policyLoss
  const logpOf = async (batch: RowBatch) => floats(golden.rows[batches.findIndex((part) => part.batch === batch)]!.logp)
  const mean = kl === null ? 0 : await stepKlMean(batches, kl.source, logpOf)
  const count = golden.rows.reduce((sum, { logp }) => sum + logp.length, 0)
  const session = await openLoss(golden, isMeanGiven)
  const gradients: Float32Array[] = []
  let loss = 0
  for (const row of golden.rows) {
    const column = (values: readonly (number | null)[]) => float32Tensor(floats(values), [values.length])
    const feeds = {
      logp: column(row.logp),
      old: column(row.old),
      sampler: column(row.sampler ?? []),
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
    gradients.push(result['gradient']!.data as Float32Array)
  }
  await session.release()
  return { loss, gradients }
}

describe('the policy loss over whole steps', () => {
  const isOn = (option: string) => (golden: Golden) => {
    const value = golden.config[option]
    return value !== undefined && value !== 0 && value !== false
  }

  it.each([
    'ppo',
    'kl_penalty_coef',
    'alt_k2_tau',
    'mask_prob_ratio',
    'epsilon',
    'epsilon_high',
    'max_negative_advantage_importance_sampling_weight',
    'truncated_importance_sampling',
  ])('%s is on in a hundred steps and off in a hundred', (option) => {
    const on = goldens.filter(isOn(option)).length
    expect(on).toBeGreaterThanOrEqual(100)
    expect(goldens.length - on).toBeGreaterThanOrEqual(100)
  })

  it.each([
    ['importance_sampling_level', ['token', 'sequence', 'average', 'geometric_average'], goldens],
    ['kl_penalty_source', ['current_learner', 'sample'], goldens.filter(isOn('kl_penalty_coef'))],
  ] as const)('every %s is taken in at least ninety', (option, values, steps) => {
    for (const value of values) {
      expect(steps.filter(({ config }) => config[option] === value).length).toBeGreaterThanOrEqual(90)
    }
  })

  // A step of one row may have the mean of the penalty computed in its graph; of more, it is given.
  it.each([
    ['of one row, the mean in the graph', false, goldens.filter(({ rows }) => rows.length === 1)],
    ['of several rows, the mean given', true, goldens.filter(({ rows }) => rows.length > 1)],
    ['of one row, the mean given', true, goldens.filter(({ rows }) => rows.length === 1).slice(0, 60)],
  ] as const)('equals PyTorch in steps %s', async (_, isMeanGiven, steps) => {
    expect(steps.length).toBeGreaterThan(50)
    for (const golden of steps) {
      const name = `step ${goldens.indexOf(golden)}, ${JSON.stringify(golden.config)}`
      const { loss, gradients } = await evaluate(golden, isMeanGiven)
      expect(Math.abs(loss - golden.loss), name).toBeLessThan(1e-4)
      for (const [r, row] of golden.rows.entries()) {
        row.gradient.forEach((value, t) => {
          expect(Math.abs(gradients[r]![t]! - value), `${name}, row ${r}, token ${t}`).toBeLessThan(1e-4)
        })
      }
    }
  })
})
