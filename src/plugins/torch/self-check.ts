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
import { ensureTinyRandomModel } from '#model/built-in/tiny-random.js'
import { createAdapter } from '#model/weights/adapter.js'
import { decodeSafetensors } from '#model/weights/safetensors.js'
import { createAdamWState } from '#numerics/optim/adamw.js'
import type { Runtime } from '#numerics/runtime/runtime.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import type { Learner, LearnerBackend } from '#training/trainer/learner/learner.js'
import { openOnnxLearner } from '#training/trainer/learner/onnx-learner.js'
import { GRADIENTS_FILE } from '#training/trainer/learner/state-files.js'
import { perToken, sequenceRow, toRowBatch } from '#training/trainer/row-batch.js'

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
export async function checkBackend(backend: LearnerBackend, runtime: Runtime): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-check-'))
  try {
    const source = await ensureTinyRandomModel(join(directory, 'model'))
    const prepared = await prepareBaseModel(source, join(directory, 'prepared'), [])
    const adapter = createAdapter(adapterModules(prepared.config), { ...SHAPE, seed: 'check' })
    const rows = { longestRow: TOKENS, isRecomputed: false }
    const stateOf = () => ({ adapter, optimizer: createAdamWState(), gradients: new Map<string, Float32Array>() })
    const given = { prepared, precision: 'f32', runtime, threads: 1, rows } as const
    const expected = await gradientOf(await openOnnxLearner({ ...given, state: stateOf() }))
    const actual = await gradientOf(await backend.open({ ...given, state: stateOf() }))
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

type Numbers = ArrayLike<number | bigint>

/** The loss of random tokens as `loss`, and its gradients. */
async function gradientOf(learner: Learner): Promise<ReadonlyMap<string, Numbers>> {
  const rng = createRng('check')
  const tokens = Int32Array.from({ length: TOKENS }, () => rng.integer(256))
  const batch = toRowBatch([sequenceRow(tokens, new Uint8Array(TOKENS).fill(1))])
  try {
    const denominator = float32Tensor(Float32Array.of(batch.trained.length), [])
    const lossInputs = { weight: perToken(batch, () => 1), denominator }
    const { loss } = await learner.accumulate([{ batch, lossInputs }], { kind: 'cross_entropy' })
    const files = await learner.export('state', { baseModelName: 'check', kind: 'check' })
    const { tensors } = decodeSafetensors(files.get(GRADIENTS_FILE) ?? new Uint8Array(0), 'gradients')
    const gradients = [...tensors].map(([name, { data }]): [string, Numbers] => [name, data])
    return new Map<string, Numbers>([['loss', [loss]], ...gradients])
  } finally {
    await learner.release()
  }
}

/** Largest difference of the loss and all gradients, relative to the largest gradient; infinite where something is no number. */
function difference(actual: ReadonlyMap<string, Numbers>, expected: ReadonlyMap<string, Numbers>): number {
  let largest = 0
  let error = 0
  for (const [name, data] of expected) {
    const values = actual.get(name)
    for (let i = 0; i < data.length; i += 1) {
      const distance = Math.abs(Number(data[i]) - Number(values?.[i] ?? Number.NaN))
      error = Number.isFinite(distance) ? Math.max(error, distance) : Number.POSITIVE_INFINITY
      if (name !== 'loss') largest = Math.max(largest, Math.abs(Number(data[i])))
    }
  }
  return error / largest
}
