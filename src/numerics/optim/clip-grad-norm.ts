/**
 * Clipping of gradients by their global norm.
 *
 * Source: Pascanu et al. (arXiv:1211.5063); the 1e-6 is `torch.nn.utils.clip_grad_norm_`'s.
 */

/**
 * Scales all gradients in place so that their joint Euclidean norm is at most `maxNorm`.
 *
 * @param gradients read and, when the norm is too large, changed
 * @param maxNorm positive; Infinity measures only
 * @returns the norm before clipping, summed in float64; not finite if any gradient is not
 */
export function clipGradNorm(gradients: Iterable<Float32Array>, maxNorm: number): number {
  const arrays = [...gradients]
  let sum = 0
  for (const array of arrays) {
    for (let i = 0; i < array.length; i++) sum += (array[i] as number) * (array[i] as number)
  }
  const norm = Math.sqrt(sum)
  const scale = maxNorm / (norm + 1e-6)
  if (scale < 1) {
    for (const array of arrays) {
      for (let i = 0; i < array.length; i++) array[i] = (array[i] as number) * scale
    }
  }
  return norm
}
