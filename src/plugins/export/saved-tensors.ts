/**
 * Tells two sorts of whole tensors in an adapter's file apart: those that PEFT saved although nothing trained them, and those
 * that differ from the base model's own.
 *
 * PEFT saves embedding and head whenever it thinks that the vocabulary grew (`save_embedding_layers`).
 */
import { WeightsError } from '#base/errors/errors.js'
import { toFloat32 } from '#model/weights/safetensors.js'
import { assertFinite, type WeightSource } from '#model/weights/weight-source.js'
import { bfloat16ToFloat32, float16ToFloat32, float32ToBfloat16, float32ToFloat16 } from '#numerics/tensor/half.js'
import type { HostTensor } from '#numerics/tensor/host-tensor.js'
import type { GivenAdapter } from './given-adapter.js'

const EMBEDDING = 'model.embed_tokens.weight'
const HEAD = 'lm_head.weight'

export interface SavedTensors {
  /** Values that are other than the base model's, by name. */
  readonly changed: ReadonlyMap<string, Float32Array>
  /** Sentences about the others. */
  readonly notes: readonly string[]
}

/**
 * Compares an adapter's whole tensors with the base model's.
 *
 * @throws {WeightsError} `invalid_adapter` for a tensor that the base model lacks or has in another shape, `non_finite_weights`
 */
export async function compareSaved(adapter: GivenAdapter, source: WeightSource): Promise<SavedTensors> {
  const changed = new Map<string, Float32Array>()
  const unchanged: string[] = []
  for (const [name, tensor] of adapter.tensors) {
    const own = ownName(name, source)
    assertShape(name, tensor, own === null ? null : source.tensorShape(own))
    const values = assertFinite(toFloat32(tensor, name), name)
    if (own !== null && isRounded(values, await source.readFloat32(own), tensor.dtype)) unchanged.push(name)
    else changed.set(name, values)
  }
  const [some] = unchanged
  const notes =
    some === undefined
      ? []
      : [
          `${unchanged.join(', ')} in it ${unchanged.length === 1 ? 'is' : 'are'} as in the base model: nothing of that is kept`,
        ]
  return { changed, notes }
}

/** A head that the base model shares with its embedding has that one's values. */
function ownName(name: string, source: WeightSource): string | null {
  const names = new Set(source.tensorNames)
  if (names.has(name)) return name
  return name === HEAD && names.has(EMBEDDING) ? EMBEDDING : null
}

function assertShape(name: string, { shape }: HostTensor, expected: readonly number[] | null): void {
  if (expected === null) {
    throw new WeightsError('invalid_adapter', `adapter has the tensor "${name}", which the base model does not have`)
  }
  if (shape.length === expected.length && shape.every((size, i) => size === expected[i])) return
  const isVocabulary = name === EMBEDDING || name === HEAD
  const message = `adapter has "${name}" as [${shape.join(', ')}], expected [${expected.join(', ')}] as in the base model`
  throw new WeightsError('invalid_adapter', message, {
    hint: isVocabulary
      ? 'its vocabulary was resized: merge it where it was made (model.merge_and_unload(), save_pretrained of model and tokenizer), and add that folder with trainyard base-models add'
      : undefined,
  })
}

/** Whether the values are the base model's, as the adapter's type of number can hold them. */
function isRounded(values: Float32Array, own: Float32Array, dtype: HostTensor['dtype']): boolean {
  const rounded =
    dtype === 'float16'
      ? float16ToFloat32(float32ToFloat16(own))
      : dtype === 'bfloat16'
        ? bfloat16ToFloat32(float32ToBfloat16(own))
        : own
  return values.every((value, i) => value === rounded[i] || value === own[i])
}
