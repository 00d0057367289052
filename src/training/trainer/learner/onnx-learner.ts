/**
 * The learner of ONNX Runtime: gradients by row graphs, sums, clipping and AdamW in JavaScript.
 */
import { TrainingError } from '#base/errors/errors.js'
import { integerLayers } from '#model/architectures/integer/integer-layers.js'
import { readRotaryFrequencies, readSlidingFrequencies } from '#model/architectures/rotary-frequencies.js'
import type { AdapterForm } from '#model/weights/adapter-config.js'
import { isAccelerated, type Runtime } from '#numerics/runtime/runtime.js'
import { DENSE_ATTENTION_TOKENS } from '#training/rows/attention-blocks.js'
import type { GradientEngines } from '../gradient-engine.js'
import { onnxEngines } from '../onnx-engine.js'
import type { RowModel } from '../row-decoder.js'
import type { RowSessionOptions } from '../row-session.js'
import { createEngineLearner } from './engine-learner.js'
import type { Learner, LearnerOptions, RowsAhead } from './learner.js'

/** Opens a learner; nothing is loaded before its first call. */
export async function openOnnxLearner(options: LearnerOptions): Promise<Learner> {
  const { runtime } = options
  return createEngineLearner(options, {
    variantOf: (longestRow) => (isAttentionBlocked(runtime, longestRow) ? 'in blocks' : 'whole'),
    open: async (rows) => (await rowSettings({ ...options, adapter: options.state.adapter.config }, rows)).engines,
  })
}

/**
 * Rows up to which attention is one product on a device: the blocks of longer ones are a Loop, which runs on the CPU, with a
 * copy each way around it (half of a step's time was that, see `src/docs/internals/performance.md`). Scores of nine heads take
 * 0.6 GB then.
 */
const DEVICE_DENSE_TOKENS = 4096

function isAttentionBlocked(runtime: Runtime, longestRow: number): boolean {
  return longestRow > (isAccelerated(runtime) ? DEVICE_DENSE_TOKENS : DENSE_ATTENTION_TOKENS)
}

/**
 * What the engines of a learner are made of, and where they come from.
 *
 * @throws {TrainingError} `precision_unavailable` for int8 on a processor that has no exact integer products, and for bf16
 */
export async function rowSettings(
  {
    prepared,
    runtime,
    adapter,
    precision,
    threads,
    dropoutShare,
  }: Pick<LearnerOptions, 'prepared' | 'runtime' | 'precision' | 'threads' | 'dropoutShare'> & {
    readonly adapter: AdapterForm
  },
  { longestRow, hasKeptSets }: Pick<RowsAhead, 'longestRow' | 'hasKeptSets'>,
): Promise<{ readonly model: RowModel; readonly session: RowSessionOptions; readonly engines: GradientEngines }> {
  if (precision === 'bf16') {
    throw new TrainingError('precision_unavailable', 'the job asks for precision bf16, which only PyTorch trains in', {
      hint: 'set precision to f32, or start the server with --trainer torch',
    })
  }
  const tensors = prepared.tensors('f32')
  const model: RowModel = {
    config: prepared.config,
    tensors,
    adapter,
    dropout: dropoutShare,
    hasKeptSets,
    isAttentionBlocked: isAttentionBlocked(runtime, longestRow),
  }
  const session = {
    runtime,
    directory: prepared.directory,
    frequencies: await readRotaryFrequencies(tensors),
    slidingFrequencies: await readSlidingFrequencies(tensors),
    slidingWindow: prepared.config.slidingWindow,
    ...(threads === undefined ? {} : { threads }),
  }
  if (precision === 'f32') return { model, session, engines: onnxEngines(model, session) }
  if (isAccelerated(runtime)) {
    throw new TrainingError(
      'precision_unavailable',
      `the job asks for precision ${precision}, which ${runtime.device} has no kernels for`,
      { hint: 'set precision to f32, or start the server with --device cpu' },
    )
  }
  const integer = { ...model, integers: await integerLayers(prepared, runtime) }
  const packed = { ...session, isPrepacked: true }
  return { model: integer, session: packed, engines: onnxEngines(integer, packed) }
}
