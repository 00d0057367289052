/**
 * PyTorch computes gradients as every engine must, and every loss and option as ONNX Runtime does: on spark, in float32 on the processor,
 * loss and scores within 1e-5, gradients within 1e-5 of the largest one.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createRng } from '#base/util/rng.js'
import { DPO } from '#contract/jobs/dpo.js'
import { traceLoss } from '#contract/jobs/losses.js'
import { adapterModules } from '#model/architectures/decoder-config.js'
import { type PreparedModel, prepareBaseModel } from '#model/architectures/prepare.js'
import { readRotaryFrequencies } from '#model/architectures/rotary-frequencies.js'
import { sparkDirectory } from '#model/built-in/spark.js'
import { type AdapterWeights, createAdapter } from '#model/weights/adapter.js'
import type { PolicyLossOptions } from '#numerics/nn/policy-loss.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import { openTorchEngines, type TorchEnginesOptions } from '#plugins/torch/torch-engines.js'
import { startTorchProcess, type TorchProcess } from '#plugins/torch/torch-process.js'
import type { GradientEngines } from '#training/trainer/gradient-engine.js'
import { createEngineLearner } from '#training/trainer/learner/engine-learner.js'
import { adapterFeeds } from '#training/trainer/learner/parameters.js'
import { createDropout } from '#training/trainer/masks/dropout.js'
import { onnxEngines } from '#training/trainer/onnx-engine.js'
import { perToken, type Row, type RowBatch, rowOf, toRowBatch } from '#training/trainer/row-batch.js'
import type { RowSessionOptions } from '#training/trainer/row-session.js'
import type { LossKind } from '#training/trainer/train-graph.js'
import { withRandomB } from '../../support/model/training-fixture.js'
import { environmentOf, NO_TORCH, TORCH_PYTHONS } from '../../support/torch-python.js'
import { gradientEngineConformance } from './conformance/gradient-engine.js'
import { learnerConformance } from './conformance/learner.js'

const TOLERANCE = 1e-5
const SHAPE = { rank: 8, alpha: 16 }
const FLOAT32_ON_CPU = { dtype: 'float32', device: 'cpu', threads: 1 } as const

const POLICY: PolicyLossOptions = {
  loss: 'cispo',
  epsilon: 0.2,
  epsilonHigh: 0.3,
  ratioLevel: 'token',
  maxRatio: null,
  isMaskedOutsideClip: false,
  tau: null,
  kl: null,
  truncation: null,
  droBeta: 0.1,
  entropyCoefficient: 0,
  klBeta: 0,
}
const LOSSES: Readonly<Record<string, LossKind>> = {
  'cross-entropy': { kind: 'cross_entropy' },
  ...formulas(),
  ...preferences(),
  ...policies(),
}

/** Losses that are formulas, of each kind; one reads which tokens are of one sequence. */
function formulas(): Record<string, LossKind> {
  const gated = traceLoss('rl', ({ logRatio, advantage }, { mul, neg, exp, sequenceMean, tanh }) =>
    neg(mul(exp(sequenceMean(tanh(logRatio))), advantage)),
  )
  const anchored = traceLoss('dpo', ({ chosen, rejected }, { sub, sigmoid }) => sub(sigmoid(rejected), sigmoid(chosen)))
  const damped = traceLoss('sft', ({ logp }, { mul, neg, exp, stop }) => neg(mul(stop(exp(logp)), logp)))
  const pairs = { beta: 0.3, labelSmoothing: 0, gamma: 0, sftWeight: 0.4, desirableWeight: 1, undesirableWeight: 1 }
  return {
    'a formula of tokens that were sampled': {
      kind: 'policy',
      options: { ...POLICY, loss: 'formula', formula: gated },
    },
    'a formula of pairs': { kind: 'preference', options: { ...pairs, loss: 'formula', formula: anchored } },
    'a formula of tokens of examples': { kind: 'cross_entropy', formula: damped },
  }
}

/** Every loss on pairs, with what it reads. */
function preferences(): Record<string, LossKind> {
  const plain = { beta: 0.3, labelSmoothing: 0, gamma: 0.5, sftWeight: 0, desirableWeight: 1, undesirableWeight: 2 }
  const known = DPO.options.loss_type.choices.filter((loss) => loss !== 'custom')
  const named = known.map((loss): [string, LossKind] => [
    `preferences by ${loss}`,
    // at 0.3 the sigmoid of kto is 1 to float32 here, and has no slope to compare
    { kind: 'preference', options: { ...plain, loss, beta: loss === 'kto' ? 0.01 : plain.beta } },
  ])
  const all = { ...plain, loss: 'sigmoid', labelSmoothing: 0.2, sftWeight: 0.7 } as const
  return { ...Object.fromEntries(named), 'preferences with all options': { kind: 'preference', options: all } }
}

/** Every loss at every level, and each modifier with both. */
function policies(): Record<string, LossKind> {
  const modifiers: Readonly<Record<string, Partial<PolicyLossOptions>>> = {
    'by sequence': { ratioLevel: 'sequence' },
    'by average': { ratioLevel: 'average' },
    'by geometric average': { ratioLevel: 'geometric_average' },
    'with a bound of the ratio': { maxRatio: 1.05 },
    'masked outside the clip': { isMaskedOutsideClip: true },
    'with tau': { tau: 0.4 },
    'with the learner measured to a reference': {
      kl: { coefficient: 0.3, source: 'current_learner', isMeanGiven: false },
    },
    'with the sample measured to a reference, mean given': {
      kl: { coefficient: 0.3, source: 'sample', isMeanGiven: true },
    },
    'with truncated importance sampling': { truncation: { limit: 1.1, source: 'precalculated' } },
    'with an entropy bonus': { entropyCoefficient: 0.3 },
    'with a k3 term': { klBeta: 0.2 },
    'with the ratio once more': { truncation: { limit: 1.1, source: 'ratio' } },
  }
  const named: Record<string, LossKind> = {}
  for (const loss of ['cispo', 'ppo', 'importance_sampling', 'dro'] as const) {
    named[loss] = { kind: 'policy', options: { ...POLICY, loss } }
    for (const [title, modifier] of Object.entries(modifiers)) {
      named[`${loss} ${title}`] = { kind: 'policy', options: { ...POLICY, ...modifier, loss } }
    }
  }
  return named
}

/** A prompt with two answers that both see it, as a job packs them. */
function packedRow(seed: string, parts: { readonly prompt: number; readonly answers: readonly number[] }): Row {
  const rng = createRng(seed)
  const groupIds: number[] = new Array<number>(parts.prompt).fill(0)
  const positions = groupIds.map((_, t) => t)
  parts.answers.forEach((length, answer) => {
    for (let t = 0; t < length; t++) {
      groupIds.push(answer + 1)
      positions.push(parts.prompt + t)
    }
  })
  return {
    tokens: Int32Array.from(groupIds, () => 1 + rng.integer(500)),
    positions: Int32Array.from(positions),
    groupIds: Int32Array.from(groupIds),
    parentIds: Int32Array.from(groupIds, () => 0),
    lossMask: Uint8Array.from(groupIds, (group) => (group === 0 ? 0 : 1)),
  }
}

const ROWS = [packedRow('a', { prompt: 14, answers: [9, 16] }), packedRow('b', { prompt: 6, answers: [18, 7] })]

/** Whatever a loss takes, from a seed; old log-probabilities near those of an untrained policy. */
function lossInputs(batch: RowBatch, logp: Float32Array): Record<string, HostTensor> {
  const rng = createRng('inputs')
  const near = (spread: number): HostTensor =>
    float32Tensor(
      Float32Array.from(logp, (value) => value + spread * rng.normal()),
      [batch.paddedCount],
    )
  const answers = batch.trained.map((token) => 2 * token.row + (rowOf(ROWS, token).groupIds[token.index] ?? 0) - 1)
  const membership = new Float32Array(batch.paddedCount * 4)
  const pairs = new Float32Array(batch.paddedCount * 2)
  answers.forEach((answer, n) => {
    membership[n * 4 + answer] = 1
    pairs[n * 2 + Math.floor(answer / 2)] = answer % 2 === 0 ? 1 : -1
  })
  const advantages = [1.2, -0.7, 0.4, -0.9]
  return {
    weight: perToken(batch, () => 0.5 + rng.uniform()),
    mask: perToken(batch, () => 1),
    advantage: float32Tensor(
      Float32Array.from({ length: batch.paddedCount }, (_, n) => advantages[answers[n] ?? 0] ?? 0),
      [batch.paddedCount],
    ),
    denominator: float32Tensor(Float32Array.of(batch.trained.length), []),
    old_logp: near(0.2),
    reference_logp: near(0.3),
    sampler_logp: near(0.25),
    kl_mean: float32Tensor(Float32Array.of(0.05), []),
    segments: float32Tensor(membership, [batch.paddedCount, 4]),
    pairs: float32Tensor(pairs, [batch.paddedCount, 2]),
    chosen_share: perToken(batch, (token) => (rowOf(ROWS, token).groupIds[token.index] === 1 ? 0.1 : 0)),
    reference_margin: float32Tensor(Float32Array.of(-3, 5), [2]),
    reference_chosen: float32Tensor(Float32Array.of(-60, -75), [2]),
    reference_rejected: float32Tensor(Float32Array.of(-70, -40), [2]),
    answer_weights: float32Tensor(Float32Array.of(1, 2), [2]),
  }
}

describe.runIf(TORCH_PYTHONS.length === 0)('PyTorch', () => {
  it.skip(NO_TORCH, () => undefined)
})

for (const python of TORCH_PYTHONS) {
  const title = `PyTorch of ${environmentOf(python)}`
  const started: TorchProcess = await startTorchProcess({ python, environment: process.env })
  // Qwen3 came with transformers 4.51, and the old environment has one before it
  const families = Number.parseFloat(started.versions.transformers) < 4.51 ? ['llama', 'qwen2'] : undefined
  const torchEngines = async (of: Pick<TorchEnginesOptions, 'prepared' | 'adapter' | 'dropout'>) => {
    return openTorchEngines(started, { ...of, ...FLOAT32_ON_CPU, runtime: createOrtRuntime() })
  }
  afterAll(() => started.stop())
  gradientEngineConformance(title, torchEngines, families)
  learnerConformance(title, async (given) => {
    const { prepared, state, dropoutShare: dropout } = given
    const open = () => torchEngines({ prepared, adapter: state.adapter.config, dropout })
    const options = { ...given, runtime: createOrtRuntime(), precision: 'f32' } as const
    return createEngineLearner(options, { variantOf: () => '', open })
  })

  describe(`${title} and ONNX Runtime on spark`, () => {
    let directory: string
    let prepared: PreparedModel
    let session: RowSessionOptions
    let torch: GradientEngines
    let onnx: GradientEngines
    let adapter: AdapterWeights
    const batch = toRowBatch(ROWS)
    let inputs: Record<string, HostTensor>

    beforeAll(async () => {
      directory = await mkdtemp(join(tmpdir(), 'trainyard-torch-'))
      prepared = await prepareBaseModel(sparkDirectory(), directory, [])
      const { config } = prepared
      const tensors = prepared.tensors('f32')
      const frequencies = await readRotaryFrequencies(tensors)
      session = { runtime: createOrtRuntime(), directory: prepared.directory, frequencies, threads: 1 }
      adapter = withRandomB(createAdapter(adapterModules(config), { ...SHAPE, seed: 'torch' }), 'torch')
      onnx = onnxEngines({ config, tensors, adapter: SHAPE }, session)
      torch = await torchEngines({ prepared, adapter: SHAPE })
      const scores = await onnx.score(SHAPE)
      const { logp } = await scores.run(batch, adapterFeeds(adapter), {}, ['logp'])
      await scores.release()
      inputs = lossInputs(batch, (logp as HostTensor<'float32'>).data)
    })
    afterAll(() => rm(directory, { recursive: true, force: true, maxRetries: 20 }))

    const outputsOf = async (engines: GradientEngines, loss: LossKind, isRecomputed: boolean) => {
      const engine = await engines.train(loss, { isRecomputed })
      try {
        return await engine.run(batch, adapterFeeds(adapter), inputs)
      } finally {
        await engine.release()
      }
    }

    it('agree on every gradient where the same inputs of the adapter are left out', async () => {
      const share = 0.25
      const masks = createDropout(prepared.config, SHAPE, { share, seed: 'torch' })
      const own = { ...inputs, ...masks.feeds({ step: 3, part: 1, tokens: batch.positions.length }) }
      const [expected, actual] = [
        await onnxEngines(
          { config: prepared.config, tensors: prepared.tensors('f32'), adapter: SHAPE, dropout: share },
          session,
        ).train({ kind: 'cross_entropy' }, { isRecomputed: true }),
        await (await torchEngines({ prepared, adapter: SHAPE, dropout: share })).train(
          { kind: 'cross_entropy' },
          { isRecomputed: true },
        ),
      ]
      const [ours, theirs] = [
        await expected.run(batch, adapterFeeds(adapter), own),
        await actual.run(batch, adapterFeeds(adapter), own),
      ]
      await expected.release()
      await actual.release()
      const gradients = Object.keys(ours).filter((output) => output.startsWith('gradient:'))
      const largest = Math.max(...gradients.map((output) => largestOf(ours[output] as HostTensor)))
      for (const output of gradients) {
        expect(differenceOf(theirs[output], ours[output] as HostTensor) / largest, output).toBeLessThan(TOLERANCE)
      }
    })

    it.each(Object.keys(LOSSES))('agree on loss, ratio and every gradient of %s', async (name) => {
      const loss = LOSSES[name] as LossKind
      const expected = await outputsOf(onnx, loss, false)
      // what is computed again does not depend on the loss
      for (const isRecomputed of loss.kind === 'cross_entropy' ? [false, true] : [false]) {
        const actual = await outputsOf(torch, loss, isRecomputed)
        expect(Object.keys(actual).sort()).toEqual(Object.keys(expected).sort())
        const gradients = Object.keys(expected).filter((output) => output.startsWith('gradient:'))
        const largest = Math.max(...gradients.map((output) => largestOf(expected[output] as HostTensor)))
        for (const [output, tensor] of Object.entries(expected)) {
          // a loss is a sum of terms near one that cancel
          const scale = gradients.includes(output) ? largest : Math.max(1, largestOf(tensor))
          expect(differenceOf(actual[output], tensor) / scale, output).toBeLessThan(TOLERANCE)
        }
      }
    })
  })
}

function largestOf({ data }: HostTensor): number {
  return (data as Float32Array).reduce((max, value) => Math.max(max, Math.abs(value)), 0)
}

/** Largest difference of two numbers at the same place. */
function differenceOf(actual: HostTensor | undefined, expected: HostTensor): number {
  const [values, wanted] = [actual?.data as Float32Array, expected.data as Float32Array]
  if (values.length !== wanted.length) return Number.POSITIVE_INFINITY
  return wanted.reduce((max, value, i) => Math.max(max, Math.abs(value - (values[i] ?? Number.NaN))), 0)
}
