/**
 * The frozen layers of an int8 job, and whether this processor can compute them.
 */
import { TrainingError } from '#base/errors.js'
import { GraphBuilder } from '#numerics/graph/builder.js'
import type { Value } from '#numerics/graph/graph.js'
import { toOnnxModel } from '#numerics/graph/to-onnx.js'
import type { Runtime } from '#numerics/runtime/runtime.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import { type PreparedModel, prepareTrainingIntegers } from '../prepare.js'
import type { PreparedTensor } from '../tensor-file.js'

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

/** Width of the probe: enough for every kernel's main loop. */
const PROBE_WIDTH = 256

/** Processors without instructions for them add pairs of products in 16 bits, which overflows at the ends of the range. */
async function hasExactIntegerProducts(runtime: Runtime): Promise<boolean> {
  const g = new GraphBuilder('integer_probe')
  const codes = g.input('codes', 'uint8', [1, PROBE_WIDTH])
  const weight = new Int8Array(PROBE_WIDTH * PROBE_WIDTH).fill(127)
  const inputs = [
    codes,
    g.constant({ dtype: 'int8', shape: [PROBE_WIDTH, PROBE_WIDTH], data: weight }),
    g.constant(float32Tensor(Float32Array.of(1), [])),
    g.constant(float32Tensor(new Float32Array(PROBE_WIDTH).fill(1), [PROBE_WIDTH])),
    g.constant({ dtype: 'uint8', shape: [], data: Uint8Array.of(128) }),
  ]
  const type = { dtype: 'float32', shape: [1, PROBE_WIDTH] } as const
  g.output(g.node('MatMulIntegerToFloat', inputs, {}, { outputs: [type] })[0] as Value, 'y')
  const session = await runtime.loadSession({ bytes: toOnnxModel(g.build(), 'probe.onnx'), directory: '.' })
  try {
    const data = new Uint8Array(PROBE_WIDTH).fill(255)
    const sums = (await session.run({ codes: { dtype: 'uint8', shape: [1, PROBE_WIDTH], data } }))['y']
    return sums?.dtype === 'float32' && sums.data.every((value) => value === PROBE_WIDTH * 127 * 127)
  } finally {
    await session.release()
  }
}
