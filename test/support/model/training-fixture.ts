/**
 * A small formula model with a train graph, for tests that ask what training does rather than what a number is.
 */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '#base/util/clock.js'
import { createRng } from '#base/util/rng.js'
import type { DecoderConfig } from '#model/architectures/decoder-config.js'
import type { PreparedModel } from '#model/architectures/prepare.js'
import { readRotaryFrequencies } from '#model/architectures/rotary-frequencies.js'
import type { AdapterWeights } from '#model/weights/adapter.js'
import { type AdamWState, createAdamWState } from '#numerics/optim/adamw.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import type { Runtime } from '#numerics/runtime/runtime.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import { type JobContext, startingPoint } from '#training/trainer/job.js'
import type { Learner, LearnerState, MicroBatch, RowsAhead } from '#training/trainer/learner/learner.js'
import { openOnnxLearner } from '#training/trainer/learner/onnx-learner.js'
import { adapterFeeds } from '#training/trainer/learner/parameters.js'
import { type OptimizerSettings, SFT_OPTIMIZER } from '#training/trainer/optimizer-settings.js'
import { perToken, type RowBatch } from '#training/trainer/row-batch.js'
import type { RowModel } from '#training/trainer/row-decoder.js'
import { openRowSession } from '#training/trainer/row-session.js'
import { buildTrainGraph, type LossKind } from '#training/trainer/train-graph.js'
import { createTrainer, type Trainer } from '#training/trainer/trainer.js'
import { prepareFormulaModel } from './golden-model.js'

export const SMALL_CONFIG: DecoderConfig = {
  family: 'llama',
  layerCount: 2,
  hiddenSize: 32,
  headCount: 4,
  kvHeadCount: 2,
  headSize: 8,
  mlpSize: 64,
  vocabularySize: 60,
  contextLength: 128,
  normEpsilon: 1e-5,
  rotary: { theta: 10000, llama3Scaling: null, linearFactor: 1 },
  activation: 'silu',
  hasQkvBias: false,
  hasOutputBias: false,
  hasMlpBias: false,
  hasQkNorm: false,
  isEmbeddingTied: true,
}

export interface TrainingFixture {
  readonly prepared: PreparedModel
  readonly runtime: Runtime
  /** A job context with a fresh adapter. */
  context(seed: string): JobContext
  trainer(options: {
    readonly loss: LossKind
    readonly adapter: AdapterWeights
    readonly optimizer: AdamWState
    readonly settings?: OptimizerSettings
    /** What every run of the graph fails with; default nothing. */
    readonly runFailure?: Error
  }): Promise<Trainer & Pick<Learner, 'release'>>
  /** A learner that takes the state and changes it in place. */
  learner(state: Partial<LearnerState> & Pick<LearnerState, 'adapter'>, rows?: RowsAhead | null): Promise<Learner>
  /** Loss and gradients of micro-batches, summed. */
  gradients(
    adapter: AdapterWeights,
    loss: LossKind,
    microBatches: readonly MicroBatch[],
    options?: { readonly isRecomputed?: boolean; readonly attentionBlock?: number },
  ): Promise<Map<string, Float32Array>>
  close(): Promise<void>
}

/** Prepares the small model in a temporary directory. */
export async function createTrainingFixture(config = SMALL_CONFIG): Promise<TrainingFixture> {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-training-'))
  const prepared = await prepareFormulaModel(config, directory)
  const runtime = createOrtRuntime()
  const tensors = prepared.tensors('f32')
  const session = { runtime, directory, frequencies: await readRotaryFrequencies(tensors), threads: 1 }
  const modelOf = (adapter: AdapterWeights): RowModel => ({ config, tensors, adapter: adapter.config })
  return {
    prepared,
    runtime,
    context: (seed) => ({
      runtime,
      prepared,
      clock: systemClock,
      jobId: seed,
      threads: 1,
      resumePoint: null,
      ...startingPoint(prepared, null, { kind: 'sft', lora: null, seed }),
    }),
    trainer: async ({ loss, adapter, optimizer, settings = SFT_OPTIMIZER, runFailure }) => {
      const used = runFailure === undefined ? runtime : failingRuntime(runtime, runFailure)
      const state = { adapter, optimizer, gradients: new Map() }
      const rows = { longestRow: 1, isRecomputed: false }
      const learner = await openOnnxLearner({ prepared, runtime: used, threads: 1, precision: 'f32', state, rows })
      return { ...(await createTrainer({ learner, loss, settings })), release: () => learner.release() }
    },
    learner: ({ optimizer = createAdamWState(), gradients = new Map(), adapter }, rows = null) =>
      openOnnxLearner({
        prepared,
        runtime,
        threads: 1,
        precision: 'f32',
        state: { adapter, optimizer, gradients },
        rows,
      }),
    gradients: async (adapter, loss, microBatches, { attentionBlock, ...options } = {}) => {
      const model = { ...modelOf(adapter), isAttentionBlocked: attentionBlock !== undefined }
      const open = await openRowSession(buildTrainGraph(model, loss, options), { ...session, attentionBlock })
      const sums = new Map<string, Float32Array>()
      try {
        for (const { batch, lossInputs } of microBatches) {
          const result = await open.run(batch, adapterFeeds(adapter), lossInputs)
          for (const [name, tensor] of Object.entries(result)) {
            if (!name.startsWith('gradient:') && name !== 'loss') continue
            const data = tensor.data as Float32Array
            sums.set(
              name,
              (sums.get(name) ?? new Float32Array(data.length)).map((value, i) => value + data[i]!),
            )
          }
        }
      } finally {
        await open.release()
      }
      return sums
    },
    close: () => rm(directory, { recursive: true, force: true, maxRetries: 20 }),
  }
}

/** An adapter whose B is not zero, so that every gradient is. */
export function withRandomB(adapter: AdapterWeights, seed: string): AdapterWeights {
  const rng = createRng(seed)
  const b = new Map([...adapter.b].map(([path, values]) => [path, values.map(() => 0.1 * rng.normal())]))
  return { ...adapter, b }
}

/** Random tokens; mask 1 from `from` on. */
export function randomSequence(
  seed: string,
  length: number,
  from: number,
): { tokenIds: Int32Array; lossMask: Uint8Array } {
  const rng = createRng(seed)
  return {
    tokenIds: Int32Array.from({ length }, () => rng.integer(SMALL_CONFIG.vocabularySize)),
    lossMask: Uint8Array.from({ length }, (_, t) => (t >= Math.max(1, from) ? 1 : 0)),
  }
}

/** SFT loss inputs with an explicit denominator. */
export function sftInputs(batch: RowBatch, denominator: number): MicroBatch {
  return {
    batch,
    lossInputs: { denominator: float32Tensor(Float32Array.of(denominator), []), weight: perToken(batch, () => 1) },
  }
}

/** A deep copy, so that steps on one do not change the other. */
export function copyAdapter(adapter: AdapterWeights): AdapterWeights {
  const copy = (map: ReadonlyMap<string, Float32Array>) =>
    new Map([...map].map(([path, values]) => [path, values.slice()]))
  return { config: adapter.config, a: copy(adapter.a), b: copy(adapter.b) }
}

/** Loads sessions as `runtime` does; every run rejects. */
function failingRuntime(runtime: Runtime, failure: Error): Runtime {
  return {
    ...runtime,
    loadSession: async (path, options) => ({
      ...(await runtime.loadSession(path, options)),
      run: () => Promise.reject(failure),
    }),
  }
}

/**
 * Runs a job again and again, each time with a further session that cannot be loaded, until it needs no more of them.
 *
 * @param run one job, from a context that no other run has
 * @returns for each failure, how many sessions were loaded before it and how many of those were left open
 */
export async function openSessionsBehindFailures(
  context: () => JobContext,
  run: (context: JobContext) => Promise<unknown>,
): Promise<readonly { readonly loaded: number; readonly open: number }[]> {
  const left: { readonly loaded: number; readonly open: number }[] = []
  for (let failing = 0; ; failing += 1) {
    const given = context()
    let loaded = 0
    let open = 0
    const loadSession: Runtime['loadSession'] = async (path, options) => {
      if (loaded === failing) throw new Error('no further session')
      loaded += 1
      const session = await given.runtime.loadSession(path, options)
      open += 1
      const release = async (): Promise<void> => {
        open -= 1
        await session.release()
      }
      return { ...session, release }
    }
    const error = await run({ ...given, runtime: { ...given.runtime, loadSession } }).then(
      () => null,
      (reason: unknown) => reason,
    )
    if (error === null) return left
    if (!(error instanceof Error && error.message === 'no further session')) throw error
    left.push({ loaded, open })
  }
}
