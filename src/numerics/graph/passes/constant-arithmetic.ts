/**
 * The few operators that are computed while a graph is optimized: arithmetic on sizes and on scalars.
 *
 * Floats only where IEEE 754 prescribes the last bit, so that a folded graph gives the same numbers as the runtime would.
 */
import { elementCount, float32Tensor, type HostTensor, int64Tensor } from '#numerics/tensor/host-tensor.js'
import { readInt } from '../attributes.js'
import type { Node } from '../graph.js'

const BINARY: Readonly<Record<string, (a: number, b: number) => number>> = {
  Add: (a, b) => a + b,
  Sub: (a, b) => a - b,
  Mul: (a, b) => a * b,
  Div: (a, b) => a / b,
}

/**
 * The result of a node on constants, or null if this is not one of the operators it knows.
 *
 * @param inputs the node's inputs, all known
 * @param shape the result's shape, all sizes known
 */
export function evaluateConstant(
  node: Node,
  inputs: readonly HostTensor[],
  shape: readonly number[],
): HostTensor | null {
  const [first, second] = inputs
  if (first === undefined || (first.dtype !== 'float32' && first.dtype !== 'int64')) return null
  const binary = BINARY[node.op]
  if (binary !== undefined && second?.dtype === first.dtype) return evaluateBinary(binary, first, second, shape)
  const values = Array.from(first.data, Number)
  switch (node.op) {
    case 'Neg':
      return tensorOf(
        first.dtype,
        values.map((value) => -value),
        shape,
      )
    case 'Sqrt':
      return tensorOf(first.dtype, values.map(Math.sqrt), shape)
    case 'Cast':
      return evaluateCast(node, values, shape)
    case 'Reshape':
    case 'Squeeze':
    case 'Unsqueeze':
      return tensorOf(first.dtype, values, shape)
    case 'Concat': {
      const isVectors = inputs.every((input) => input.dtype === first.dtype && input.shape.length === 1)
      return isVectors
        ? tensorOf(
            first.dtype,
            inputs.flatMap((input) => Array.from(input.data, Number)),
            shape,
          )
        : null
    }
    default:
      return null
  }
}

function evaluateBinary(
  operation: (a: number, b: number) => number,
  a: HostTensor,
  b: HostTensor,
  shape: readonly number[],
): HostTensor | null {
  const count = elementCount(shape)
  const isSimple = [a, b].every((tensor) => tensor.data.length === count || tensor.data.length === 1)
  if (!isSimple) return null
  const at = (tensor: HostTensor, index: number): number => Number(tensor.data[tensor.data.length === 1 ? 0 : index])
  const values = Array.from({ length: count }, (_, index) => operation(at(a, index), at(b, index)))
  if (a.dtype === 'int64' && values.some((value) => !Number.isFinite(value))) return null
  return tensorOf(a.dtype, a.dtype === 'int64' ? values.map(Math.trunc) : values, shape)
}

function evaluateCast(node: Node, values: readonly number[], shape: readonly number[]): HostTensor | null {
  const target = node.outputs[0]?.dtype
  if (readInt(node.attributes, 'to', 0) === 0 || (target !== 'float32' && target !== 'int64')) return null
  if (target === 'int64' && values.some((value) => !Number.isFinite(value))) return null
  return tensorOf(target, target === 'int64' ? values.map(Math.trunc) : values, shape)
}

function tensorOf(dtype: HostTensor['dtype'], values: readonly number[], shape: readonly number[]): HostTensor | null {
  if (dtype === 'float32') return float32Tensor(Float32Array.from(values), shape)
  if (dtype === 'int64' && values.every(Number.isSafeInteger)) return int64Tensor(values, shape)
  return null
}
