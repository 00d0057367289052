/**
 * What every `Learner` has to do, whoever computes: right numbers by PyTorch's goldens, calls that do all or nothing, and a state that
 * can be copied, mixed, stored and put aside without a bit of what follows being another.
 *
 * A second implementation calls this with a way to open one. Tolerance: 1e-4 relative to the largest number of each tensor.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type FileContent, sha256Of } from '#base/util/file-content.js'
import type { PreparedModel } from '#model/architectures/prepare.js'
import { type AdapterWeights, decodeAdapter } from '#model/weights/adapter.js'
import { decodeSafetensors } from '#model/weights/safetensors.js'
import { adamWStep, createAdamWState } from '#numerics/optim/adamw.js'
import { clipGradNorm } from '#numerics/optim/clip-grad-norm.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import type {
  Accumulated,
  Learner,
  LearnerOptions,
  LearnerState,
  MicroBatch,
  SavedState,
} from '#training/trainer/learner/learner.js'
import { adapterParameters, copyAdapter } from '#training/trainer/learner/parameters.js'
import { createDropout } from '#training/trainer/masks/dropout.js'
import { SFT_OPTIMIZER } from '#training/trainer/optimizer-settings.js'
import { perToken, type Row, sequenceRow, toRowBatch } from '#training/trainer/row-batch.js'
import type { LossKind } from '#training/trainer/train-graph.js'
import {
  type DecoderGolden,
  formulaAdapter,
  readGolden,
  rowsOf,
  unpack,
} from '../../../support/model/decoder-goldens.js'
import { prepareFormulaModel } from '../../../support/model/golden-model.js'
import { resolveRlConfig } from '../../../support/model/job-options.js'

const TOLERANCE = 1e-4
const SFT: LossKind = { kind: 'cross_entropy' }
const STEP = { ...SFT_OPTIMIZER, learningRate: 1e-2, outputRateRatio: 2, weightDecay: 0.1, maxGradientNorm: 0.5 }
const NAMES = { baseModelName: 'small', kind: 'sft' }

/** Opens a learner in float32, which takes the state. */
type OpenLearner = (
  options: Pick<LearnerOptions, 'prepared' | 'state' | 'rows' | 'dropoutShare' | 'isTrained'>,
) => Promise<Learner>

export function learnerConformance(name: string, open: OpenLearner): void {
  describe(`${name} is a learner`, () => {
    const golden = readGolden<DecoderGolden>('decoder-llama.json')
    const { rank, alpha } = golden.adapter
    const rows = rowsOf(golden)
    const whole = toRowBatch(rows)
    const opened: Learner[] = []
    let directory: string
    let prepared: PreparedModel

    beforeAll(async () => {
      directory = await mkdtemp(join(tmpdir(), 'trainyard-learner-'))
      prepared = await prepareFormulaModel(golden.config, directory)
    })
    afterAll(async () => {
      for (const learner of opened) await learner.release()
      await rm(directory, { recursive: true, force: true, maxRetries: 20 })
    })

    async function learnerOf(
      given: Partial<LearnerState> & Partial<Pick<LearnerOptions, 'dropoutShare' | 'isTrained' | 'rows'>> = {},
    ): Promise<Learner> {
      const { adapter = formulaAdapter(golden.config, rank, alpha), optimizer = createAdamWState(), ...rest } = given
      const { gradients = new Map(), rows: ahead = null, ...options } = rest
      const state = { adapter, optimizer, gradients }
      const learner = await open({ prepared, state, rows: ahead, ...options })
      opened.push(learner)
      return learner
    }

    /** Rows one by one, with the denominator of all. */
    const parts = (weight = 1): MicroBatch[] => rows.map((row) => sft([row], whole.trained.length, weight))

    it('has the losses and gradients of PyTorch', async () => {
      const column = (values: ArrayLike<number>) => perToken(whole, (_, n) => values[n] as number)
      const inputs = { denominator: scalar(whole.trained.length), mask: perToken(whole, () => 1) }
      const segments = [...new Set(golden.segments)]
      const membership = new Float32Array(whole.paddedCount * segments.length)
      golden.segments.forEach((segment, n) => {
        membership[n * segments.length + segments.indexOf(segment)] = 1
      })
      const policy = {
        ...inputs,
        weight: column(golden.weight),
        advantage: column(golden.advantage),
        old_logp: column(unpack(golden.old)),
        segments: float32Tensor(membership, [whole.paddedCount, segments.length]),
      }
      for (const each of ['sft', 'cispo', 'sequence_ppo'] as const) {
        const learner = await learnerOf()
        const options = resolveRlConfig({ ...golden.losses[each].options }).policyLoss
        const loss: LossKind = each === 'sft' ? SFT : { kind: 'policy', options }
        const lossInputs = each === 'sft' ? { ...inputs, weight: perToken(whole, () => 1) } : policy
        expectGolden(await learner.accumulate([{ batch: whole, lossInputs }], loss), golden, each)
        expectGradients(await sumsOf(learner), golden, golden.losses[each].gradients)
      }
    })

    // a token's share of the mean, as a session says it
    it('has the loss of a session, too', async () => {
      const learner = await learnerOf()
      const share = 1 / whole.trained.length
      const lossInputs = {
        advantage: perToken(whole, () => share),
        old_logp: perToken(whole, () => -1),
        mask: perToken(whole, () => 1),
        low: scalar(1),
        high: scalar(1),
        half_beta: scalar(0),
      }
      const { outputs } = await learner.accumulate([{ batch: whole, lossInputs }], { kind: 'summed', form: 'weighted' })
      expect(worstOf(outputs[0]?.logp, unpack(golden.logp))).toBeLessThan(TOLERANCE)
      expectGradients(await sumsOf(learner), golden, golden.losses.sft.gradients)
    })

    it('has the gradient of a loss on pairs by central differences', async () => {
      const [first = rows[0] as Row, second = first] = rows
      const batch = toRowBatch([first, second])
      const side = perToken(batch, ({ row }) => (row === 0 ? 1 : -1))
      const options = { loss: 'sigmoid', beta: 0.3, labelSmoothing: 0.1, gamma: 0, sftWeight: 0 } as const
      const loss: LossKind = { kind: 'preference', options: { ...options, desirableWeight: 1, undesirableWeight: 1 } }
      const lossInputs = {
        denominator: scalar(1),
        pairs: float32Tensor(side.data, [batch.paddedCount, 1]),
        reference_margin: float32Tensor(Float32Array.of(0.5), [1]),
      }
      const lossAt = async (learner: Learner) => (await learner.accumulate([{ batch, lossInputs }], loss)).loss
      const start = await learnerOf()
      await lossAt(start)
      const slopes = await sumsOf(start)
      const square = [...slopes.values()].reduce((sum, values) => values.reduce((total, x) => total + x * x, sum), 0)
      const distance = 0.01 / Math.sqrt(square)
      const moved = async (by: number): Promise<number> => {
        const adapter = formulaAdapter(golden.config, rank, alpha)
        for (const [each, values] of adapterParameters(adapter)) {
          const slope = slopes.get(each) as Float32Array
          for (let i = 0; i < values.length; i += 1) values[i] = (values[i] as number) + by * (slope[i] as number)
        }
        return lossAt(await learnerOf({ adapter }))
      }
      const slope = ((await moved(distance)) - (await moved(-distance))) / (2 * distance)
      expect(slope / square).toBeCloseTo(1, 2)
    })

    it('adds up over micro-batches and over calls', async () => {
      const [one, several, calls] = [await learnerOf(), await learnerOf(), await learnerOf()]
      await one.accumulate([sft(rows, whole.trained.length)], SFT)
      await several.accumulate(parts(), SFT)
      for (const part of parts()) await calls.accumulate([part], SFT)
      expect(parts().length).toBeGreaterThan(1)
      const expected = await sumsOf(one)
      for (const learner of [several, calls]) {
        for (const [each, values] of await sumsOf(learner)) {
          expect(worstOf(values, expected.get(each)), each).toBeLessThan(TOLERANCE)
        }
      }
    })

    it('computes answers that share a prompt as it does with the prompt repeated', async () => {
      const prompt = [3, 9, 4, 7]
      const answers = [
        [5, 1, 8],
        [2, 6, 2, 10, 1],
      ]
      const apart = answers.map((answer) => {
        const tokens = Int32Array.from([...prompt, ...answer])
        return sequenceRow(
          tokens,
          Uint8Array.from(tokens, (_, t) => (t > prompt.length ? 1 : 0)),
        )
      })
      const groups = [...prompt.map(() => 0), ...answers.flatMap((answer, a) => answer.map(() => a + 1))]
      const shared: Row = {
        tokens: Int32Array.from([...prompt, ...answers.flat()]),
        positions: Int32Array.from([
          ...prompt.keys(),
          ...answers.flatMap((answer) => answer.map((_, t) => prompt.length + t)),
        ]),
        groupIds: Int32Array.from(groups),
        parentIds: new Int32Array(groups.length),
        lossMask: Uint8Array.from(groups, (group, t) => (group > 0 && groups[t - 1] === group ? 1 : 0)),
      }
      const [together, alone] = [await learnerOf(), await learnerOf()]
      await together.accumulate([sft([shared], 6)], SFT)
      await alone.accumulate([sft(apart, 6)], SFT)
      const expected = await sumsOf(alone)
      for (const [each, values] of await sumsOf(together)) {
        expect(worstOf(values, expected.get(each)), each).toBeLessThan(TOLERANCE)
      }
    })

    it('clips and updates as AdamW does, with a rate of B of its own', async () => {
      const learner = await learnerOf()
      const adapter = formulaAdapter(golden.config, rank, alpha)
      const [parameters, optimizer] = [adapterParameters(adapter), createAdamWState()]
      for (let step = 0; step < 3; step += 1) {
        await learner.accumulate(parts(10), SFT)
        const gradients = new Map([...(await sumsOf(learner))].map(([each, values]) => [each, values.slice()]))
        const norm = clipGradNorm(gradients.values(), STEP.maxGradientNorm)
        expect(norm).toBeGreaterThan(STEP.maxGradientNorm)
        const rateRatioOf = (each: string): number => (each.includes('lora_B') ? STEP.outputRateRatio : 1)
        adamWStep(optimizer, parameters, gradients, { ...STEP, rateRatioOf })
        expect((await learner.update(STEP)).gradientNorm / norm).toBeCloseTo(1, 5)
        expect(learner.updateCount).toBe(step + 1)
      }
      const actual = adapterParameters(await weightsOf(learner))
      for (const [each, values] of parameters) {
        expect(worstOf(actual.get(each), values), each).toBeLessThan(TOLERANCE)
      }
    })

    it('has nothing to update with after an update, and after its sums were discarded', async () => {
      const learner = await learnerOf()
      await expect(learner.update(STEP)).rejects.toMatchObject({ code: 'no_gradients' })
      await learner.accumulate(parts(), SFT)
      await learner.discard()
      await expect(learner.update(STEP)).rejects.toMatchObject({ code: 'no_gradients' })
      expect(await stateOf(learner)).toEqual(await stateOf(await learnerOf()))
      await learner.accumulate(parts(), SFT)
      await learner.update(STEP)
      await expect(learner.update(STEP)).rejects.toMatchObject({ code: 'no_gradients' })
    })

    it('drops a gradient that is not finite and changes nothing else', async () => {
      const learner = await learnerOf()
      const before = await stateOf(learner)
      await learner.accumulate(parts(3e38), SFT)
      expect((await learner.update(STEP)).gradientNorm).not.toBeLessThan(Number.POSITIVE_INFINITY)
      expect(await stateOf(learner)).toEqual(before)
    })

    it('adds nothing in a call that fails on its way', async () => {
      const learner = await learnerOf()
      await learner.accumulate(parts(), SFT)
      const before = await stateOf(learner)
      const seen: number[] = []
      const failing = learner.accumulate(parts(), SFT, ({ outputs }) => {
        seen.push(outputs.length)
        if (outputs.length === 2) throw new Error('not these rows')
      })
      await expect(failing).rejects.toThrow('not these rows')
      expect(seen).toEqual([1, 2])
      expect(await stateOf(learner)).toEqual(before)
    })

    it('mixes the weights of a mark with those of the last update, moments as they are', async () => {
      const learner = await learnerOf()
      const before = adapterParameters(await weightsOf(learner))
      await learner.mark('before', 'weights')
      await learner.accumulate(parts(), SFT)
      await learner.update(STEP)
      const after = await weightsOf(learner)
      const moments = (await stateOf(learner)).get('optimizer.safetensors')
      for (const share of [0.25, 0, 0.5, 1]) {
        await learner.blend('before', share)
        for (const [each, values] of adapterParameters(await weightsOf(learner))) {
          const [from, to] = [before.get(each) as Float32Array, adapterParameters(after).get(each) as Float32Array]
          const mixed = from.map((value, i) => value + share * ((to[i] as number) - value))
          expect(worstOf(values, mixed), `${each} at ${share}`).toBeLessThan(1e-6)
        }
      }
      expect((await stateOf(learner)).get('optimizer.safetensors')).toBe(moments)
    })

    it('goes back to a mark, its moments too, as if nothing had been since', async () => {
      const learner = await learnerOf()
      const step = async () => {
        await learner.accumulate(parts(), SFT)
        await learner.update(STEP)
      }
      await step()
      await learner.mark('best', 'state')
      const kept = await stateOf(learner)
      await step()
      const next = await stateOf(learner)
      expect(next).not.toEqual(kept)
      await step()
      await learner.restore('best')
      expect(await stateOf(learner)).toEqual(kept)
      expect(learner.updateCount).toBe(1)
      await step()
      expect(await stateOf(learner)).toEqual(next)
    })

    it('scores under its weights, the base model, its marks, and weights from elsewhere of another rank', async () => {
      const learner = await learnerOf()
      const first = await learner.score(whole, 'current')
      expect(worstOf(first, unpack(golden.logp))).toBeLessThan(TOLERANCE)
      await learner.mark('before', 'weights')
      await learner.accumulate(parts(), SFT)
      await learner.update(STEP)
      expect(worstOf(await learner.score(whole, 'current'), first)).toBeGreaterThan(TOLERANCE)
      expect(await learner.score(whole, 'before')).toEqual(first)
      const other = formulaAdapter(golden.config, 1, 2)
      await learner.place('reference', copyAdapter(other))
      const own = await learnerOf({ adapter: other })
      expect(await learner.score(whole, 'reference')).toEqual(await own.score(whole, 'current'))
      const none = formulaAdapter(golden.config, rank, alpha)
      for (const values of none.b.values()) values.fill(0)
      const base = await learnerOf({ adapter: none })
      expect(await learner.score(whole, 'base')).toEqual(await base.score(whole, 'current'))
    })

    it('goes on from what it saved with the same bits, marks too', async () => {
      const learner = await learnerOf()
      await learner.accumulate(parts(), SFT)
      await learner.update(STEP)
      await learner.mark('best', 'state')
      await learner.mark('before', 'weights')
      await learner.accumulate(parts(), SFT)
      await learner.update(STEP)
      const saved = readSaved(await learner.save({ job: 'x' }), { updateCount: 2, marks: { best: 1 } })
      const resumed = await learnerOf()
      await resumed.load(saved)
      expect(await stateOf(resumed)).toEqual(await stateOf(learner))
      for (const each of [learner, resumed]) {
        await each.accumulate(parts(), SFT)
        await each.update(STEP)
      }
      expect(await stateOf(resumed)).toEqual(await stateOf(learner))
      for (const each of [learner, resumed]) await each.restore('best')
      expect(await stateOf(resumed)).toEqual(await stateOf(learner))
      const other = await learnerOf({ adapter: formulaAdapter(golden.config, 1, 2) })
      await expect(other.load(saved)).rejects.toMatchObject({ code: 'checkpoint_corrupt' })
    })

    it('exports an adapter that scores as it does', async () => {
      const learner = await learnerOf()
      await learner.accumulate(parts(), SFT)
      await learner.update(STEP)
      await learner.accumulate(parts(), SFT)
      const names = async (what: 'adapter' | 'weights' | 'state') => [...(await learner.export(what, NAMES)).keys()]
      const files = ['adapter_config.json', 'adapter_model.safetensors']
      expect((await names('adapter')).sort()).toEqual(files)
      expect((await names('weights')).sort()).toEqual([...files, 'optimizer.safetensors'])
      expect((await names('state')).sort()).toEqual([...files, 'gradients.safetensors', 'optimizer.safetensors'])
      const again = await learnerOf({ adapter: await weightsOf(learner) })
      expect(await again.score(whole, 'current')).toEqual(await learner.score(whole, 'current'))
    })

    it('can be parked between any two calls', async () => {
      const run = async (between: (learner: Learner) => Promise<void>) => {
        const learner = await learnerOf()
        const scores: Float32Array[] = []
        const calls = [
          () => learner.mark('before', 'weights'),
          () => learner.accumulate(parts(), SFT),
          () => learner.accumulate(parts(), SFT),
          () => learner.update(STEP),
          async () => scores.push(await learner.score(whole, 'current'), await learner.score(whole, 'base')),
          () => learner.blend('before', 0.5),
          () => learner.accumulate(parts(), SFT),
        ]
        for (const call of calls) {
          await call()
          await between(learner)
        }
        return { state: await stateOf(learner), scores }
      }
      expect(await run((learner) => learner.park())).toEqual(await run(async () => undefined))
    })

    it('shares a base model with another learner, call by call', async () => {
      const run = async (learner: Learner, round: number) => {
        await learner.accumulate(parts(), SFT)
        await learner.update({ ...STEP, learningRate: 1e-2 / (round + 1) })
      }
      const others = { adapter: formulaAdapter(golden.config, 1, 2) }
      const alone = [await learnerOf(), await learnerOf({ ...others, adapter: copyAdapter(others.adapter) })]
      const turns = [await learnerOf(), await learnerOf({ ...others, adapter: copyAdapter(others.adapter) })]
      for (const learner of alone) for (const round of [0, 1]) await run(learner, round)
      for (const round of [0, 1]) for (const learner of turns) await run(learner, round)
      for (const [i, learner] of turns.entries()) {
        expect(await stateOf(learner)).toEqual(await stateOf(alone[i] as Learner))
      }
    })

    it('leaves out inputs of the adapter by the masks it is given, and none where it scores', async () => {
      const dropoutShare = 0.3
      const form = { rank, alpha }
      const masks = createDropout(golden.config, form, { share: dropoutShare, seed: 'test' })
      const withMasks = (step: number) => {
        const feeds = masks.feeds({ step, part: 0, tokens: whole.positions.length })
        const { batch, lossInputs } = sft(rows, whole.trained.length)
        return [{ batch, lossInputs: { ...lossInputs, ...feeds } }]
      }
      const sumsAt = async (step: number) => {
        const learner = await learnerOf({ dropoutShare })
        await learner.accumulate(withMasks(step), SFT)
        expect(worstOf(await learner.score(whole, 'current'), unpack(golden.logp))).toBeLessThan(TOLERANCE)
        return stateOf(learner)
      }
      expect(await sumsAt(1)).toEqual(await sumsAt(1))
      expect(await sumsAt(1)).not.toEqual(await sumsAt(2))
    })

    it('trains the modules it is told to, and no other', async () => {
      const isTrained = (path: string): boolean => !path.includes('.mlp.')
      const learner = await learnerOf({ isTrained })
      const before = formulaAdapter(golden.config, rank, alpha)
      await learner.accumulate(parts(), SFT)
      expect([...(await sumsOf(learner)).keys()].some((each) => each.includes('.mlp.'))).toBe(false)
      await learner.update(STEP)
      const after = await weightsOf(learner)
      for (const [path, values] of after.b) {
        if (isTrained(path)) expect(values, path).not.toEqual(before.b.get(path))
        else expect(values, path).toEqual(before.b.get(path))
      }
    })
  })
}

function sft(rows: readonly Row[], denominator: number, weight = 1): MicroBatch {
  const batch = toRowBatch(rows)
  return { batch, lossInputs: { denominator: scalar(denominator), weight: perToken(batch, () => weight) } }
}

function scalar(value: number): HostTensor {
  return float32Tensor(Float32Array.of(value), [])
}

/** Digests of everything that a learner holds but its marks. */
async function stateOf(learner: Learner): Promise<ReadonlyMap<string, string>> {
  const files = await learner.export('state', NAMES)
  return new Map([...files].map(([each, content]) => [each, sha256Of(content)]))
}

async function sumsOf(learner: Learner): Promise<ReadonlyMap<string, Float32Array>> {
  const file = (await learner.export('state', NAMES)).get('gradients.safetensors')
  if (file === undefined) throw new Error('the learner has no sums')
  return new Map([...decodeSafetensors(file, 'sums').tensors].map(([each, { data }]) => [each, data as Float32Array]))
}

async function weightsOf(learner: Learner): Promise<AdapterWeights> {
  return copyAdapter(decodeAdapter(await learner.export('adapter', NAMES)))
}

function readSaved(content: FileContent, counts: Pick<SavedState, 'updateCount' | 'marks'>): SavedState {
  const { tensors, metadata } = decodeSafetensors(content, 'saved state')
  expect(metadata.get('job')).toBe('x')
  return { ...counts, tensors: new Map([...tensors].map(([each, { data }]) => [each, (data as Float32Array).slice()])) }
}

function expectGolden(
  { loss, outputs }: Accumulated,
  golden: DecoderGolden,
  name: keyof DecoderGolden['losses'],
): void {
  expect(loss).toBeCloseTo(golden.losses[name].loss, 4)
  expect(worstOf(outputs[0]?.logp, unpack(golden.logp))).toBeLessThan(TOLERANCE)
  expect(worstOf(outputs[0]?.entropy, unpack(golden.entropy))).toBeLessThan(TOLERANCE)
}

function expectGradients(
  sums: ReadonlyMap<string, Float32Array>,
  { gradientNames }: DecoderGolden,
  packed: DecoderGolden['logp'],
): void {
  expect([...sums.keys()].sort()).toEqual([...gradientNames].sort())
  const expected = unpack(packed)
  let at = 0
  for (const each of gradientNames) {
    const values = sums.get(each) as Float32Array
    expect(worstOf(values, expected.subarray(at, at + values.length)), each).toBeLessThan(TOLERANCE)
    at += values.length
  }
  expect(at).toBe(expected.length)
}

/** Largest difference, relative to the largest expected number. */
function worstOf(actual: Float32Array | undefined, expected: Float32Array | undefined): number {
  if (actual === undefined || expected === undefined) return Number.POSITIVE_INFINITY
  const scale = expected.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-12)
  return expected.reduce((most, value, i) => Math.max(most, Math.abs((actual[i] ?? Number.NaN) - value)), 0) / scale
}
