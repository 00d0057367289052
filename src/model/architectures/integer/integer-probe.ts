/**
 * One product of 8-bit integers, run to see what this processor makes of it.
 *
 * Processors without instructions for such products add pairs of them in 16 bits, which overflows at the ends of the range.
 */
import { GraphBuilder } from '#numerics/graph/builder.js'
import type { Value } from '#numerics/graph/graph.js'
import { toOnnxModel } from '#numerics/graph/to-onnx.js'
import type { Runtime, Session } from '#numerics/runtime/runtime.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'

/** Sizes of the product `[rows, inner] × [inner, columns]`. */
export interface ProbeSize {
  readonly rows: number
  readonly inner: number
  readonly columns: number
}

export interface IntegerProbe {
  readonly session: Session
  /** Codes and weights at the ends of their ranges. */
  readonly feeds: Parameters<Session['run']>[0]
  /** Whether every sum is what it must be. */
  isExact(): Promise<boolean>
}

/** Loads the product; the caller releases its session. @param threads null for all cores */
export async function loadIntegerProbe(
  runtime: Runtime,
  { rows, inner, columns }: ProbeSize,
  threads: number | null = null,
): Promise<IntegerProbe> {
  const g = new GraphBuilder('integer_probe')
  const inputs = [
    g.input('codes', 'uint8', [rows, inner]),
    g.constant({ dtype: 'int8', shape: [inner, columns], data: new Int8Array(inner * columns).fill(127) }),
    g.constant(float32Tensor(Float32Array.of(1), [])),
    g.constant(float32Tensor(new Float32Array(columns).fill(1), [columns])),
    g.constant({ dtype: 'uint8', shape: [], data: Uint8Array.of(128) }),
  ]
  const type = { dtype: 'float32', shape: [rows, columns] } as const
  g.output(g.node('MatMulIntegerToFloat', inputs, {}, { outputs: [type] })[0] as Value, 'y')
  const bytes = toOnnxModel(g.build(), 'probe.onnx')
  const session = await runtime.loadSession({ bytes, directory: '.' }, threads === null ? {} : { threads })
  const data = new Uint8Array(rows * inner).fill(255)
  const feeds = { codes: { dtype: 'uint8' as const, shape: [rows, inner], data } }
  return {
    session,
    feeds,
    isExact: async () => {
      const sums = (await session.run(feeds))['y']
      return sums?.dtype === 'float32' && sums.data.every((value) => value === inner * 127 * 127)
    },
  }
}
