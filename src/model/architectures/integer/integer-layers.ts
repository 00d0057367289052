/**
 * The frozen layers of an int8 job, and whether this processor can compute them.
 */
import { TrainingError } from '#base/errors/errors.js'
import type { Runtime } from '#numerics/runtime/runtime.js'
import { type PreparedModel, prepareTrainingIntegers } from '../prepare.js'
import type { PreparedTensor } from '../tensor-file.js'
import { loadIntegerProbe } from './integer-probe.js'

/**
 * The integers of every frozen layer, prepared on first use, which takes some seconds.
 *
 * @throws {TrainingError} `precision_unavailable` where integer products overflow
 */
export async function integerLayers(
  prepared: PreparedModel,
  runtime: Runtime,
): Promise<ReadonlyMap<string, PreparedTensor>> {
  if (!(await hasExactIntegerProducts(runtime))) {
    throw new TrainingError(
      'precision_unavailable',
      'precision int8 needs a processor whose 8-bit products do not overflow (VNNI, AMX or their like), which this one is not',
      { hint: 'leave precision out, or set it to f32' },
    )
  }
  return await prepareTrainingIntegers(prepared)
}

/** Wide enough for every kernel's main loop. */
const PROBE = { rows: 1, inner: 256, columns: 256 } as const

async function hasExactIntegerProducts(runtime: Runtime): Promise<boolean> {
  const probe = await loadIntegerProbe(runtime, PROBE)
  try {
    return await probe.isExact()
  } finally {
    await probe.session.release()
  }
}
