/**
 * Whether PyTorch computes on this machine what ONNX Runtime computes: a gradient of the small random model by both.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { TrainingError } from '#base/errors/errors.js'
import { createRng } from '#base/util/rng.js'
import { adapterModules } from '#model/architectures/decoder-config.js'
import { prepareBaseModel } from '#model/architectures/prepare.js'
import { readRotaryFrequencies } from '#model/architectures/rotary-frequencies.js'
import { ensureTinyRandomModel } from '#model/built-in/tiny-random.js'
import { createAdapter } from '#model/weights/adapter.js'
import type { Runtime } from '#numerics/runtime/runtime.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import type { GradientBackend, GradientEngines } from '#training/trainer/gradient-engine.js'
import { onnxEngines } from '#training/trainer/onnx-engine.js'
import { perToken, sequenceRow, toRowBatch } from '#training/trainer/row-batch.js'
import { adapterFeeds } from '#training/trainer/trainer.js'

const SHAPE = { rank: 4, alpha: 8 }
const TOKENS = 24
/** Of the largest number; sums are taken in another order, on a graphics card by other units. */
const TOLERANCE = 1e-3

/**
 * Computes a gradient by both.
 *
 * @returns one clause that says how well they agree
 * @throws {TrainingError} `wrong_gradients` where they do not
 */
export async function checkBackend(backend: GradientBackend, runtime: Runtime): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-check-'))
  try {
    const source = await ensureTinyRandomModel(join(directory, 'model'))
    const prepared = await prepareBaseModel(source, join(directory, 'prepared'), [])
    const { config } = prepared
    const tensors = prepared.tensors('f32')
    const frequencies = await readRotaryFrequencies(tensors)
    const session = { runtime, directory: prepared.directory, frequencies, threads: 1 }
    const given = { prepared, adapter: SHAPE, precision: 'f32', runtime, threads: 1 } as const
    const adapter = adapterFeeds(createAdapter(adapterModules(config), { ...SHAPE, seed: 'check' }))
    const expected = await gradientOf(onnxEngines({ config, tensors, adapter: SHAPE }, session), adapter)
    const actual = await gradientOf(await backend.engines(given), adapter)
    const error = difference(actual, expected)
    if (error < TOLERANCE)
      return `a gradient differs from ONNX Runtime's by ${error.toExponential(1)} of its largest number`
    throw new TrainingError(
      'wrong_gradients',
      `PyTorch's gradient differs from ONNX Runtime's by ${error.toExponential(1)}`,
      {
        hint: 'what is trained with PyTorch on this machine is not to be trusted: train with --trainer onnx',
      },
    )
  } finally {
    await rm(directory, { recursive: true, force: true, maxRetries: 20 })
  }
}

async function gradientOf(
  engines: GradientEngines,
  adapter: Readonly<Record<string, HostTensor>>,
): Promise<Record<string, HostTensor>> {
  const rng = createRng('check')
  const tokens = Int32Array.from({ length: TOKENS }, () => rng.integer(256))
  const batch = toRowBatch([sequenceRow(tokens, new Uint8Array(TOKENS).fill(1))])
  const engine = await engines.train({ kind: 'cross_entropy' }, { isRecomputed: false })
  try {
    const denominator = float32Tensor(Float32Array.of(batch.trained.length), [])
    return await engine.run(batch, adapter, { weight: perToken(batch, () => 1), denominator })
  } finally {
    await engine.release()
  }
}

/** Largest difference of the loss and all gradients, relative to the largest number; infinite where something is no number. */
function difference(
  actual: Readonly<Record<string, HostTensor>>,
  expected: Readonly<Record<string, HostTensor>>,
): number {
  let largest = 0
  let error = 0
  for (const [name, { data }] of Object.entries(expected)) {
    if (name !== 'loss' && !name.startsWith('gradient:')) continue
    const values = actual[name]?.data
    data.forEach((value, i) => {
      const distance = Math.abs(Number(value) - Number(values?.[i] ?? Number.NaN))
      error = Number.isFinite(distance) ? Math.max(error, distance) : Number.POSITIVE_INFINITY
      if (name !== 'loss') largest = Math.max(largest, Math.abs(Number(value)))
    })
  }
  return error / largest
}
