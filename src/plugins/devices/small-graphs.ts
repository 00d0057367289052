/**
 * Step, score and train graphs of the small random model, on any runtime: what a device is tried with.
 *
 * The step goes through what serving meets: nothing cached, prompts, choices beside empty slots, an adapter, rows that nobody reads,
 * and keys and values that stay on a device while tokens are added to them and rows come and go.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createRng } from '#base/util/rng.js'
import { layoutAdapter } from '#inference/engine/runner/adapter-layout.js'
import { KvCache } from '#inference/engine/runner/kv-cache.js'
import type { StepBatch, StepSequence } from '#inference/engine/runner/step-batch.js'
import { loadStepModel, type StepResult } from '#inference/engine/runner/step-model.js'
import { adapterModules } from '#model/architectures/decoder-config.js'
import { type PreparedModel, prepareBaseModel } from '#model/architectures/prepare.js'
import { readRotaryFrequencies } from '#model/architectures/rotary-frequencies.js'
import { ensureTinyRandomModel } from '#model/built-in/tiny-random.js'
import { type AdapterWeights, createAdapter } from '#model/weights/adapter.js'
import type { Runtime } from '#numerics/runtime/runtime.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import type { GradientEngine } from '#training/trainer/gradient-engine.js'
import { adapterFeeds } from '#training/trainer/learner/parameters.js'
import { onnxEngines } from '#training/trainer/onnx-engine.js'
import { perToken, type RowBatch, sequenceRow, toRowBatch } from '#training/trainer/row-batch.js'

/** What a graph gave, by output. */
export type Results = ReadonlyMap<string, Float32Array>

/** A graph that was run some times with the same inputs. */
export interface Computed {
  readonly results: Results
  /** Of the fastest run after the first, milliseconds. */
  readonly bestMs: number
}

export interface SmallModel {
  readonly step: (runtime: Runtime) => Promise<Computed>
  readonly score: (runtime: Runtime) => Promise<Computed>
  readonly train: (runtime: Runtime) => Promise<Computed>
  readonly close: () => Promise<void>
}

const SHAPE = { rank: 4, alpha: 8 }
const TOKENS = 24
const PROMPT = 6
/** Runs of each graph; the first one compiles. */
const RUNS = 3

/** Prepares the model in a temporary directory. */
export async function openSmallModel(): Promise<SmallModel> {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-device-'))
  const source = await ensureTinyRandomModel(join(directory, 'model'))
  const prepared = await prepareBaseModel(source, join(directory, 'prepared'), [])
  const adapter = withSomeB(createAdapter(adapterModules(prepared.config), { ...SHAPE, seed: 'device' }))
  return {
    step: (runtime) => computeStep(runtime, prepared, adapter),
    score: (runtime) => computeRows(runtime, { prepared, adapter, kind: 'score' }),
    train: (runtime) => computeRows(runtime, { prepared, adapter, kind: 'train' }),
    close: () => rm(directory, { recursive: true, force: true, maxRetries: 20 }),
  }
}

/** A fresh adapter's B is zero, and so would be half of the gradients. */
function withSomeB(adapter: AdapterWeights): AdapterWeights {
  const random = createRng('device b')
  const b = new Map([...adapter.b].map(([path, values]) => [path, values.map(() => 0.1 * random.normal())]))
  return { ...adapter, b }
}

async function computeStep(runtime: Runtime, prepared: PreparedModel, weights: AdapterWeights): Promise<Computed> {
  const { config } = prepared
  const { layerCount, kvHeadCount, headSize } = config
  const options = { runtime, prepared, precision: 'f32', threads: 1, contextLength: config.contextLength } as const
  const model = await loadStepModel(options)
  const results = new Map<string, Float32Array>()
  const adapters = [layoutAdapter(config, weights)]
  const cache = (width: number): KvCache => new KvCache({ layerCount, kvHeadCount, headSize }, width)
  const batchOf = (
    sequences: readonly StepSequence[],
    caches: Pick<StepBatch, 'prompts' | 'tails' | 'width'>,
  ): StepBatch => {
    const total = sequences.reduce((sum, { ids }) => sum + ids.length, 0)
    const logitRows = Array.from({ length: total }, (_, row) => row)
    return { sequences, groups: 2, ...caches, logitRows, inverseTemperatures: logitRows.map(() => 1.25), adapters }
  }
  try {
    const prompts = cache(1)
    const tails = cache(2)
    for (let row = 0; row < 2; row += 1) for (const each of [prompts, tails]) each.addRow()
    const ids = [0, 1].map((row) => Array.from({ length: PROMPT + row }, (_, at) => (7 * at + 3 + row) % 250))
    const prompt = batchOf(
      ids.map((own, row) => ({ row, member: 0, ids: own, promptLength: 0, tailLength: 0, adapter: row - 1 })),
      { prompts: null, tails: null, width: 1 },
    )
    await model.run({ ...prompt, logitRows: [], inverseTemperatures: [] }, ['logits', 'logprobs'])
    const first = await model.run(prompt, ['logits', 'logprobs'])
    note(results, 'prompt', first)
    const longest = PROMPT + 1
    prompts.setCapacity(longest)
    const from = { data: first.newRows, slots: 2 * kvHeadCount, width: 1, member: 0, tokens: longest }
    for (const [row, own] of ids.entries()) prompts.append({ row, member: 0 }, { ...from, row, count: own.length })
    // one of four slots stays empty
    const choices = batchOf(
      [
        { row: 0, member: 0, ids: [9], promptLength: PROMPT, tailLength: 0, adapter: -1 },
        { row: 0, member: 1, ids: [11], promptLength: PROMPT, tailLength: 0, adapter: 0 },
        { row: 1, member: 1, ids: [13], promptLength: PROMPT + 1, tailLength: 0, adapter: 0 },
      ],
      { prompts, tails, width: 2 },
    )
    const decode = async (batch: StepBatch, stem: string): Promise<StepResult> => {
      const result = await model.run(batch, ['logits', 'logprobs', 'probabilities'])
      // slots without a token hold what nobody reads
      note(results, stem, { ...result, newRows: null })
      return result
    }
    /** The same choices, each one token further. */
    const next = (batch: StepBatch, { newRows: data }: StepResult): StepBatch => {
      const sequences = batch.sequences.map((each) => {
        const { row, member } = each
        tails.append({ row, member }, { ...each, data, slots: 4 * kvHeadCount, width: 2, tokens: 1, count: 1 })
        return { ...each, ids: each.ids.map((id) => id + 2), tailLength: each.tailLength + 1 }
      })
      return { ...batch, sequences }
    }
    let last = await decode(choices, 'choices')
    let bestMs = Number.POSITIVE_INFINITY
    for (let run = 1; run < RUNS; run += 1) {
      const startMs = performance.now()
      last = await decode(choices, 'choices')
      bestMs = Math.min(bestMs, performance.now() - startMs)
    }
    // copies of tails on the device are made, written to, and moved
    tails.setCapacity(1)
    const second = next(choices, last)
    const third = next(second, await decode(second, 'second tokens'))
    await decode(third, 'third tokens')
    tails.setCapacity(tails.capacity + 1)
    for (const each of [prompts, tails]) {
      each.removeRow(0)
      each.addRow()
    }
    const moved = batchOf(
      [
        { row: 0, member: 0, ids: [15], promptLength: PROMPT + 1, tailLength: 0, adapter: -1 },
        { row: 0, member: 1, ids: [17], promptLength: PROMPT + 1, tailLength: tails.lengthOf(0, 1), adapter: 0 },
        { row: 1, member: 0, ids: [19], promptLength: 0, tailLength: 0, adapter: 0 },
      ],
      { prompts, tails, width: 2 },
    )
    await decode(next(moved, await decode(moved, 'moved choices')), 'moved choices, later')
    return { results, bestMs }
  } finally {
    await model.release()
  }
}

function note(results: Map<string, Float32Array>, stem: string, outputs: object): void {
  for (const [name, data] of Object.entries(outputs)) {
    if (data instanceof Float32Array) results.set(`${name} of ${stem}`, data.slice())
  }
}

interface RowWork {
  readonly prepared: PreparedModel
  readonly adapter: AdapterWeights
  readonly kind: 'score' | 'train'
}

async function computeRows(runtime: Runtime, { prepared, adapter, kind }: RowWork): Promise<Computed> {
  const tensors = prepared.tensors('f32')
  const frequencies = await readRotaryFrequencies(tensors)
  const session = { runtime, directory: prepared.directory, frequencies, threads: 1 }
  const engines = onnxEngines({ config: prepared.config, tensors, adapter: SHAPE }, session)
  const engine: GradientEngine =
    kind === 'score'
      ? await engines.score(SHAPE)
      : await engines.train({ kind: 'cross_entropy' }, { isRecomputed: false })
  try {
    const batch = rows()
    const inputs = kind === 'score' ? {} : lossInputs(batch)
    const feeds = adapterFeeds(adapter)
    let bestMs = Number.POSITIVE_INFINITY
    let outputs: Readonly<Record<string, HostTensor>> = {}
    for (let run = 0; run < RUNS; run += 1) {
      const startMs = performance.now()
      outputs = await engine.run(batch, feeds, inputs)
      if (run > 0) bestMs = Math.min(bestMs, performance.now() - startMs)
    }
    const results = new Map(
      Object.entries(outputs).flatMap(([name, { data }]) =>
        data instanceof Float32Array ? [[name, data] as const] : [],
      ),
    )
    return { results, bestMs }
  } finally {
    await engine.release()
  }
}

function rows(): RowBatch {
  const random = createRng('device rows')
  const sequence = (length: number) =>
    sequenceRow(
      Int32Array.from({ length }, () => random.integer(250)),
      Uint8Array.from({ length }, (_, at) => (at === 0 ? 0 : 1)),
    )
  return toRowBatch([sequence(TOKENS), sequence(TOKENS - 7)])
}

function lossInputs(batch: RowBatch): Readonly<Record<string, HostTensor>> {
  return { denominator: float32Tensor(Float32Array.of(TOKENS), []), weight: perToken(batch, () => 1) }
}
