/**
 * The losses of the plugin against TRL's and verl's own code (`test/goldens/make_loss_goldens.py`), as formulas in float64 to
 * 1e-9 and as graphs in ONNX Runtime to 1e-5; against formulas written anew here; and central differences of every one.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { formulaGradient } from '#base/formula/evaluate.js'
import type { Formula } from '#base/formula/formula.js'
import { checkLoss, type LossDefinition, ofLogps, traceLoss } from '#contract/jobs/losses.js'
import { writeOnnxModel } from '#numerics/graph/to-onnx.js'
import type { PolicyLossOptions } from '#numerics/nn/policy-loss.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import type { Session } from '#numerics/runtime/runtime.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import { EXAMPLE_LOSSES } from '#plugins/literature/examples.js'
import { POLICY_LOSSES } from '#plugins/literature/policy.js'
import { PREFERENCE_LOSSES } from '#plugins/literature/preference.js'
import { buildLossGraph } from '#plugins/torch/torch-engines.js'
import type { LossKind } from '#training/trainer/train-graph.js'
import { readGolden } from '../../support/model/decoder-goldens.js'

interface PolicyCase {
  readonly loss: string
  readonly options: Readonly<Record<string, number>>
  readonly by: string
  readonly mode: 'sum' | 'sequences'
  readonly logp: readonly (readonly number[])[]
  readonly old: readonly (readonly number[])[]
  readonly advantages: readonly number[]
  readonly value: number
  readonly gradient: readonly (readonly number[])[]
}

interface PreferenceCase {
  readonly loss: string
  readonly beta: number
  readonly label_smoothing: number
  readonly chosen: readonly number[]
  readonly rejected: readonly number[]
  /** Only where the loss reads them. */
  readonly chosen_reference?: readonly number[]
  readonly rejected_reference?: readonly number[]
  readonly value: number
  readonly gradient_chosen: readonly number[]
  readonly gradient_rejected: readonly number[]
}

interface ExampleCase {
  readonly loss: string
  readonly logp: readonly number[]
  readonly value: number
  readonly gradient: readonly number[]
}

const all: readonly LossDefinition[] = [...POLICY_LOSSES, ...PREFERENCE_LOSSES, ...EXAMPLE_LOSSES]
const named = (name: string): LossDefinition => all.find((each) => each.name === name)!
const sum = (values: ArrayLike<number>): number => Array.from(values).reduce((a, b) => a + b, 0)

let goldens: {
  readonly policies: readonly PolicyCase[]
  readonly preferences: readonly PreferenceCase[]
  readonly examples: readonly ExampleCase[]
}
let directory: string
const sessions: Session[] = []
beforeAll(async () => {
  goldens = await readGolden('losses.json')
  directory = await mkdtemp(join(tmpdir(), 'trainyard-losses-'))
})
afterAll(async () => {
  for (const session of sessions) await session.release()
  await rm(directory, { recursive: true, force: true, maxRetries: 20 })
})

async function open(loss: LossKind): Promise<Session> {
  const path = join(directory, `${sessions.length}.onnx`)
  await writeOnnxModel(buildLossGraph(loss), path)
  const session = await createOrtRuntime().loadSession(path, { threads: 1 })
  sessions.push(session)
  return session
}

/** Within `tolerance` of the larger of the wanted number and 1. */
function close(got: ArrayLike<number>, wanted: readonly number[], tolerance: number, what: string): void {
  expect(got.length, what).toBe(wanted.length)
  for (const [i, each] of wanted.entries()) {
    expect(Math.abs((got[i] as number) - each), `${what} at ${i}: ${got[i]}, wanted ${each}`).toBeLessThanOrEqual(
      tolerance * Math.max(1, Math.abs(each)),
    )
  }
}

/** Numbers of all tokens in one list, padded with what padding has. */
function tokensOf({ logp, old, advantages, mode }: PolicyCase, padding = 0) {
  const flat = (rows: readonly (readonly number[])[]) => rows.flat()
  const count = logp.length
  const parts = logp.flatMap((row, i) => row.map(() => i))
  const pad = (values: readonly number[], value: number): number[] => [...values, ...Array<number>(padding).fill(value)]
  return {
    logp: pad(flat(logp), -1),
    old: pad(flat(old), Number.NaN),
    advantage: pad(
      parts.map((i) => advantages[i]!),
      0,
    ),
    weight: pad(
      parts.map((i) => (mode === 'sum' ? 1 : 1 / (logp[i]!.length * count))),
      0,
    ),
    mask: pad(
      parts.map(() => 1),
      0,
    ),
    parts,
  }
}

/** The options of the graph for a formula, everything else switched off. */
function policyOptions(formula: Formula, ratioLevel: PolicyLossOptions['ratioLevel']): LossKind {
  const options: PolicyLossOptions = {
    loss: 'formula',
    formula,
    epsilon: Number.POSITIVE_INFINITY,
    epsilonHigh: Number.POSITIVE_INFINITY,
    ratioLevel,
    droBeta: 0,
    entropyCoefficient: 0,
    klBeta: 0,
    maxRatio: null,
    isMaskedOutsideClip: false,
    tau: null,
    kl: null,
    truncation: null,
  }
  return { kind: 'policy', options }
}

describe('policy losses', () => {
  it('are the losses of TRL and verl, values and slopes, in ONNX Runtime', async () => {
    const graphs = new Map<string, Session>()
    for (const golden of goldens.policies) {
      const { loss, options } = golden
      const formula = traceLoss('rl', named(loss).loss, { epsilon: 0.2, epsilon_high: 0.2, ...options })
      const level = loss === 'luspo' ? ('sequence' as const) : ('token' as const)
      const key = JSON.stringify(formula)
      const session = graphs.get(key) ?? (await open(policyOptions(formula, level)))
      graphs.set(key, session)
      const tokens = tokensOf(golden, 3)
      const n = tokens.logp.length
      const perToken = (values: readonly number[], shape = [n]) => float32Tensor(Float32Array.from(values), shape)
      const count = golden.logp.length
      const segments = Array.from({ length: n * count }, (_, i) =>
        tokens.parts[Math.floor(i / count)] === i % count ? 1 : 0,
      )
      const feeds = {
        logp: perToken(tokens.logp, [1, n]),
        old_logp: perToken(tokens.old),
        advantage: perToken(tokens.advantage),
        weight: perToken(tokens.weight),
        mask: perToken(tokens.mask),
        denominator: perToken([1], []),
        segments: perToken(segments, [n, count]),
      }
      const known = Object.entries(feeds).filter(([name]) => session.inputNames.includes(name))
      const outputs = await session.run(Object.fromEntries(known))
      const what = `${loss} by ${golden.by}`
      close(outputs['loss']!.data as Float32Array, [golden.value], 1e-5, what)
      close(outputs['logp_gradient']!.data as Float32Array, [...golden.gradient.flat(), 0, 0, 0], 1e-5, what)
    }
    expect(new Set(goldens.policies.map(({ loss }) => loss))).toEqual(new Set(POLICY_LOSSES.map(({ name }) => name)))
  })

  it('are the same in float64, where the ratio is that of the token', () => {
    for (const golden of goldens.policies.filter(({ loss }) => loss !== 'luspo')) {
      const { loss, options } = golden
      const formula = ofLogps(traceLoss('rl', named(loss).loss, { epsilon: 0.2, epsilon_high: 0.2, ...options }))
      const { weight, parts, ...inputs } = tokensOf(golden)
      const data = { inputs, parts, length: parts.length }
      const { values, gradient } = formulaGradient(formula, data, { of: 'logp', weights: weight })
      // TRL's temperatures of SAPO are float32
      close([sum(values.map((value, i) => value * weight[i]!))], [golden.value], 1e-6, loss)
      close(gradient, golden.gradient.flat(), 1e-6, loss)
    }
  })

  it('are what their papers say at numbers worked out by hand', () => {
    const at = (name: string, ratio: number, advantage: number, options: Readonly<Record<string, number>> = {}) => {
      const formula = ofLogps(traceLoss('rl', named(name).loss, { epsilon: 0.2, epsilon_high: 0.2, ...options }))
      const data = { inputs: { logp: [-1 + Math.log(ratio)], old: [-1], advantage: [advantage] }, length: 1 }
      const { values, gradient } = formulaGradient(formula, data, { of: 'logp' })
      return [values[0]!, gradient[0]!]
    }
    // a ratio of 5 at -1 costs 4 with the bound, and pulls no more
    close(at('dual_clip', 5, -1), [4, 0], 1e-12, 'dual clip, bounded')
    close(at('dual_clip', 2, -1), [2, 2], 1e-12, 'dual clip, below the bound')
    close(at('dual_clip', 5, 1), [-1.2, 0], 1e-12, 'dual clip, clipped')
    // at ratio 1 the gate is 2/τ and its slope 1: the plain policy gradient
    close(at('sapo', 1, 1), [-2, -1], 1e-12, 'sapo, on policy')
    close(at('sapo', 1, -1), [2 / 1.05, 1], 1e-12, 'sapo, on policy, negative')
    close(at('sapo', 2, 1), [-4 / (1 + Math.exp(-1)), (-8 * Math.exp(-1)) / (1 + Math.exp(-1)) ** 2], 1e-12, 'sapo')
    close(at('gpg', 3, 2), [2 * (1 - Math.log(3)), -2], 1e-12, 'gpg')
    close(at('gspo_token', 1.1, 1), [-1.1, -1.1], 1e-12, 'gspo token')
    close(
      at('gmpo', Math.exp(0.1), -1, { epsilon: 0.4, epsilon_high: 0.4 }),
      [Math.exp(0.1), Math.exp(0.1)],
      1e-12,
      'gmpo',
    )
    close(
      at('gmpo', Math.exp(-0.5), -1, { epsilon: 0.4, epsilon_high: 0.4 }),
      [Math.exp(-0.4), 0],
      1e-12,
      'gmpo, clipped',
    )
  })
})

describe('preference losses', () => {
  it("are TRL's, values and slopes, in float64 and in ONNX Runtime", async () => {
    for (const golden of goldens.preferences) {
      const { loss, beta, label_smoothing, chosen, rejected } = golden
      const formula = traceLoss('dpo', named(loss).loss, { beta, label_smoothing })
      const { chosen_reference: chosenReference = chosen, rejected_reference: rejectedReference = chosen } = golden
      const data = { inputs: { chosen, rejected, chosenReference, rejectedReference }, length: chosen.length }
      for (const of of ['chosen', 'rejected'] as const) {
        const { values, gradient } = formulaGradient(formula, data, { of })
        // TRL's shares of EXO are float32
        close([sum(values)], [golden.value], loss === 'exo_pair' ? 1e-6 : 1e-9, loss)
        close(gradient, golden[`gradient_${of}`], loss === 'exo_pair' ? 1e-6 : 1e-9, loss)
      }
    }
    for (const golden of goldens.preferences.filter((_, i) => i % 5 === 0)) {
      const { loss, beta, label_smoothing, chosen, rejected } = golden
      const formula = traceLoss('dpo', named(loss).loss, { beta, label_smoothing })
      const plain = { labelSmoothing: 0, gamma: 0, sftWeight: 0, desirableWeight: 1, undesirableWeight: 1 }
      const session = await open({ kind: 'preference', options: { ...plain, loss: 'formula', formula, beta } })
      const count = chosen.length
      // one token an answer, of which the reference takes away 2 and 3
      const pairs = new Float32Array(2 * count * count)
      chosen.forEach((_, pair) => {
        pairs[2 * pair * count + pair] = 1
        pairs[(2 * pair + 1) * count + pair] = -1
      })
      const two = chosen.map(() => 2)
      const { chosen_reference: ofChosen = two, rejected_reference: ofRejected = two } = golden
      const logp = chosen.flatMap((gain, pair) => [gain + ofChosen[pair]!, rejected[pair]! + ofRejected[pair]!])
      const outputs = await session.run({
        logp: float32Tensor(Float32Array.from(logp), [1, 2 * count]),
        pairs: float32Tensor(pairs, [2 * count, count]),
        reference_chosen: float32Tensor(Float32Array.from(ofChosen), [count]),
        reference_rejected: float32Tensor(Float32Array.from(ofRejected), [count]),
        denominator: float32Tensor(Float32Array.of(1), []),
      })
      const wanted = golden.gradient_chosen.flatMap((slope, pair) => [slope, golden.gradient_rejected[pair]!])
      close(outputs['loss']!.data as Float32Array, [golden.value], 1e-5, loss)
      close(outputs['logp_gradient']!.data as Float32Array, wanted, 1e-5, loss)
    }
    expect(new Set(goldens.preferences.map(({ loss }) => loss))).toEqual(
      new Set(PREFERENCE_LOSSES.map(({ name }) => name)),
    )
  })
})

describe('losses of examples', () => {
  it("are TRL's", () => {
    for (const golden of goldens.examples) {
      const formula = traceLoss('sft', named(golden.loss).loss)
      const data = { inputs: { logp: golden.logp }, length: golden.logp.length }
      const { values, gradient } = formulaGradient(formula, data, { of: 'logp' })
      close([sum(values)], [golden.value], 1e-9, golden.loss)
      close(gradient, golden.gradient, 1e-9, golden.loss)
    }
  })
})

it.each(all.map((definition) => [definition.name, definition] as const))(
  '%s agrees with central differences',
  (_, definition) => {
    const { kind, options = {}, loss } = definition
    const numbers = Object.fromEntries(Object.entries(options).map(([name, row]) => [name, row.default]))
    const formula = traceLoss(kind, loss, {
      epsilon: 0.2,
      epsilon_high: 0.28,
      beta: 0.1,
      label_smoothing: 0.1,
      ...numbers,
    })
    expect(() => checkLoss(kind, formula)).not.toThrow()
  },
)
