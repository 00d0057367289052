/**
 * References from a model file to tensors that lie in other files (ONNX external data).
 *
 * Source: onnx.proto, `TensorProto.external_data`: keys `location` (POSIX path relative to the model), `offset`, `length`.
 * ONNX Runtime maps such ranges instead of reading them; offsets on page borders (4096) let processes share the pages.
 */
import { dirname, isAbsolute, relative, sep } from 'node:path'

/** A range of bytes of a file beside the model. */
export interface ExternalRange {
  /** Path relative to the model's directory, or absolute. */
  readonly file: string
  readonly offsetBytes: number
  readonly sizeBytes: number
}

/**
 * The key-value entries that describe a range.
 *
 * @param range where the bytes lie
 * @param modelPath the model file that will refer to them
 */
export function externalDataEntries(
  range: ExternalRange,
  modelPath: string,
): readonly { readonly key: string; readonly value: string }[] {
  const path = isAbsolute(range.file) ? relative(dirname(modelPath), range.file) : range.file
  return [
    { key: 'location', value: path.split(sep).join('/') },
    { key: 'offset', value: String(range.offsetBytes) },
    { key: 'length', value: String(range.sizeBytes) },
  ]
}
