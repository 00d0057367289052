/**
 * The operator sets and file version every emitted model declares, in one place.
 *
 * ONNX Runtime 1.30 runs opset 21 fully on the CPU; newer sets only add operators this project does not use
 * (opset 23 renames what ONNX Runtime already offers as `SimplifiedLayerNormalization` and `com.microsoft.RotaryEmbedding`).
 */

/** Operator domains and their versions. */
export const OPSETS: readonly { readonly domain: '' | 'com.microsoft'; readonly version: number }[] = [
  { domain: '', version: 21 },
  { domain: 'com.microsoft', version: 1 },
]

/** ONNX file format version that belongs to opset 21. */
export const IR_VERSION = 10
