/**
 * Looks at every value of stored tensors in parts, so that NaN and infinities are found before a model is taken in, whatever the
 * size of its largest tensor.
 */
import { assertFinite } from './weight-source.js'

/** Values at a time. A multiple of every format's block. */
const PART = 2 ** 20

/**
 * @param length of the tensor
 * @param read the values from `start` on
 * @throws {WeightsError} `non_finite_weights` naming tensor and position
 */
export async function checkValues(
  name: string,
  length: number,
  read: (start: number, length: number) => Promise<Float32Array>,
): Promise<void> {
  for (let start = 0; start < length; start += PART) {
    assertFinite(await read(start, Math.min(PART, length - start)), name, start)
  }
}
