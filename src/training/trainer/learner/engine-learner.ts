/**
 * A learner whose gradients come from an engine, and whose sums, clipping and AdamW are JavaScript: weights, sums, moments and
 * marks lie in this process. ONNX Runtime's learner, and for now PyTorch's.
 */
import { CheckpointError, TrainingError } from '#base/errors/errors.js'
import type { AdapterWeights } from '#model/weights/adapter.js'
import type { AdapterForm } from '#model/weights/adapter-config.js'
import { type AdamWState, adamWStep, type Moments } from '#numerics/optim/adamw.js'
import { clipGradNorm } from '#numerics/optim/clip-grad-norm.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import { addGradients, float32Of, gradientsOf } from '../gradients.js'
import { adapterTensorNames } from '../row-decoder.js'
import { gradientName, type LossKind } from '../train-graph.js'
import { createEnginePool, type EngineSource } from './engine-pool.js'
import type { Learner, LearnerOptions, LearnerState, MarkName, Policy, SavedState, TokenOutputs } from './learner.js'
import { adapterFeeds, adapterParameters, copyAdapter } from './parameters.js'
import { exportState, type Mark, markPrefix, saveState } from './state-files.js'

type Feeds = Readonly<Record<string, HostTensor>>

/** Holds `options.state` and changes it in place. Memory: the engines' until it is parked, and a second sum of gradients. */
export function createEngineLearner(options: LearnerOptions, source: EngineSource): Learner {
  const { state, rows, isTrained = () => true } = options
  const { adapter, optimizer, gradients } = state
  const engines = createEnginePool(options, source)
  const weights = createWeights(state)
  const { parameters, feeds } = weights
  const trained = new Map([...parameters].filter(([name]) => isTrained(name.replace(/\.lora_[AB]\.weight$/, ''))))
  const outputNames = new Set([...adapter.b.keys()].map((path) => adapterTensorNames(path).b))
  return {
    ...weights.calls,
    get updateCount() {
      return optimizer.stepCount
    },
    prepare: async (calls) => {
      if (rows === null) return
      const size = { length: rows.longestRow, positions: new Int32Array(0) }
      await (calls === 'scores' ? engines.score(size, adapter.config) : engines.train(size, calls))
    },
    accumulate: async (microBatches, loss, check) => {
      const fetches = trained.size === parameters.size ? undefined : outputsOf(loss, trained.keys())
      const sums = new Map<string, Float32Array>()
      const outputs: TokenOutputs[] = []
      let total = 0
      for (const { batch, lossInputs } of microBatches) {
        const engine = await engines.train(batch, loss)
        const result = await engine.run(batch, feeds, lossInputs, fetches)
        total += float32Of(result, 'loss')[0] as number
        outputs.push({
          logp: float32Of(result, 'logp'),
          entropy: float32Of(result, 'entropy'),
          ratio: result['ratio'] === undefined ? null : float32Of(result, 'ratio'),
        })
        check?.({ loss: total, outputs })
        addGradients(sums, gradientsOf(result, trained.keys()))
      }
      addGradients(gradients, sums)
      return { loss: total, outputs }
    },
    update: async ({ maxGradientNorm, outputRateRatio = 1, ...settings }) => {
      if (gradients.size === 0) {
        throw new TrainingError('no_gradients', 'there are no gradients to apply', {
          hint: 'call forward_backward before optim_step; one that failed has added none',
        })
      }
      const taken = new Map(gradients)
      gradients.clear()
      const gradientNorm = clipGradNorm(taken.values(), maxGradientNorm)
      if (!Number.isFinite(gradientNorm)) return { gradientNorm }
      const rateRatioOf = (name: string): number => (outputNames.has(name) ? outputRateRatio : 1)
      adamWStep(optimizer, trained, taken, { ...settings, rateRatioOf })
      weights.noteChange()
      return { gradientNorm }
    },
    discard: async () => gradients.clear(),
    score: async (batch, policy) => {
      const { form, values } = weights.policyOf(policy)
      const engine = await engines.score(batch, form)
      return float32Of(await engine.run(batch, values, {}, ['logp']), 'logp')
    },
    export: async (parts, how) => exportState(parts, state, how),
    park: async () => {
      weights.forgetBase()
      await engines.release()
    },
    release: () => engines.release(),
  }
}

/** The calls of a learner that change or copy what it holds and compute nothing. */
type StateCalls = Pick<Learner, 'mark' | 'place' | 'blend' | 'restore' | 'save' | 'load'>

/** Weights with their moments, and copies of earlier ones. */
function createWeights({ adapter, optimizer }: LearnerState) {
  const parameters = adapterParameters(adapter)
  const feeds: Feeds = adapterFeeds(adapter)
  const marks = new Map<MarkName, Mark>()
  /** Where the last update left the weights, once they were blended. */
  let updated: ReadonlyMap<string, Float32Array> | null = null
  /** Adapter of the base model itself, until the learner is parked. */
  let zeros: Feeds | null = null

  const noteChange = (): void => {
    updated = null
  }
  const markOf = (name: MarkName): Mark => {
    const mark = marks.get(name)
    if (mark === undefined) throw new Error(`the learner has no mark "${name}"`)
    return mark
  }
  const policyOf = (policy: Policy): { readonly form: AdapterForm; readonly values: Feeds } => {
    if (policy === 'current') return { form: adapter.config, values: feeds }
    if (policy === 'base') {
      zeros ??= zerosOf(feeds)
      return { form: adapter.config, values: zeros }
    }
    const mark = markOf(policy)
    return { form: mark.adapter.config, values: adapterFeeds(mark.adapter) }
  }

  const calls: StateCalls = {
    mark: async (name, what) => {
      const moments = what === 'state' ? copyOptimizer(optimizer) : null
      marks.set(name, { adapter: copyAdapter(adapter), optimizer: moments })
      noteChange()
    },
    place: async (name, weights) => void marks.set(name, { adapter: weights, optimizer: null }),
    blend: async (name, share) => {
      const before = adapterParameters(markOf(name).adapter)
      updated ??= new Map([...parameters].map(([each, values]) => [each, values.slice()]))
      interpolate(parameters, before, updated, share)
    },
    restore: async (name) => {
      const mark = markOf(name)
      const values = adapterParameters(mark.adapter)
      for (const [each, target] of parameters) target.set(values.get(each) ?? [])
      if (mark.optimizer !== null) putOptimizer(optimizer, copyOptimizer(mark.optimizer))
      noteChange()
    },
    save: async (metadata) => saveState({ adapter, optimizer }, marks, metadata),
    load: async (saved) => {
      const found = readState(adapter, saved, { prefix: '', updateCount: saved.updateCount })
      for (const [name, values] of adapterParameters(found.adapter)) parameters.get(name)?.set(values)
      putOptimizer(optimizer, found.optimizer)
      for (const [name, updateCount] of Object.entries(saved.marks) as [MarkName, number][]) {
        marks.set(name, readState(adapter, saved, { prefix: markPrefix(name), updateCount }))
      }
      noteChange()
    },
  }
  const forgetBase = (): void => {
    zeros = null
  }
  return { parameters, feeds, policyOf, noteChange, forgetBase, calls }
}

/** Outputs of a train graph whose gradients are those of some parameters. */
function outputsOf({ kind }: LossKind, trained: Iterable<string>): string[] {
  return ['loss', 'logp', 'entropy', ...(kind === 'policy' ? ['ratio'] : []), ...Array.from(trained, gradientName)]
}

/** Every tensor zero. */
function zerosOf(feeds: Feeds): Feeds {
  return Object.fromEntries(
    Object.entries(feeds).map(([name, { shape, data }]) => [name, float32Tensor(new Float32Array(data.length), shape)]),
  )
}

function copyOptimizer({ stepCount, moments }: AdamWState): AdamWState {
  const copy = ({ first, second }: Moments): Moments => ({ first: first.slice(), second: second.slice() })
  return { stepCount, moments: new Map([...moments].map(([name, pair]) => [name, copy(pair)])) }
}

function putOptimizer(optimizer: AdamWState, { stepCount, moments }: AdamWState): void {
  optimizer.stepCount = stepCount
  optimizer.moments.clear()
  for (const [name, pair] of moments) optimizer.moments.set(name, pair)
}

/** Weights of an adapter's form, and moments, as a saved state has them under a prefix. @throws {CheckpointError} */
function readState(
  form: AdapterWeights,
  { tensors }: SavedState,
  { prefix, updateCount }: { readonly prefix: string; readonly updateCount: number },
): Mark & { readonly optimizer: AdamWState } {
  const read = (name: string, length: number): Float32Array => {
    const values = tensors.get(`${prefix}${name}`)
    if (values?.length === length) return values
    throw new CheckpointError(
      'checkpoint_corrupt',
      `the saved state of the job has no "${prefix}${name}" of ${length} values`,
    )
  }
  const adapter = copyAdapter(form)
  const moments = new Map<string, Moments>()
  for (const [name, values] of adapterParameters(adapter)) {
    values.set(read(name, values.length))
    if (updateCount === 0) continue
    const pair = { first: read(`${name}.first`, values.length), second: read(`${name}.second`, values.length) }
    moments.set(name, pair)
  }
  return { adapter, optimizer: { stepCount: updateCount, moments } }
}

/** values = before + share * (after - before). */
function interpolate(
  parameters: ReadonlyMap<string, Float32Array>,
  before: ReadonlyMap<string, Float32Array>,
  after: ReadonlyMap<string, Float32Array>,
  share: number,
): void {
  for (const [name, values] of parameters) {
    const from = before.get(name) as Float32Array
    const to = after.get(name) as Float32Array
    for (let i = 0; i < values.length; i++) {
      values[i] = (from[i] as number) + share * ((to[i] as number) - (from[i] as number))
    }
  }
}
