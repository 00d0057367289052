/**
 * All operators the graph knows, by ONNX name.
 */
import { ELEMENTWISE_SIGNATURES } from './elementwise.js'
import { INDEXING_SIGNATURES } from './indexing.js'
import { MATMUL_SIGNATURES } from './matmul.js'
import { REDUCE_SIGNATURES } from './reduce.js'
import { SHAPE_SIGNATURES } from './shape.js'
import type { Signature } from './signature.js'

/** Operator name → signature. An operator missing here can still be built when its outputs are given. */
export const SIGNATURES: ReadonlyMap<string, Signature> = new Map(
  [ELEMENTWISE_SIGNATURES, MATMUL_SIGNATURES, REDUCE_SIGNATURES, SHAPE_SIGNATURES, INDEXING_SIGNATURES].flatMap(
    (group) => Object.entries(group),
  ),
)
