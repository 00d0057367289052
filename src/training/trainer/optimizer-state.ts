/**
 * AdamW's state as a safetensors file, so that a job continues exactly where the last one stopped.
 *
 * Two float32 tensors per parameter (`<name>.first`, `<name>.second`); the number of updates and the kind of job that
 * made them stand in the metadata. A job of another kind starts with a fresh state, as in ART: moments of one loss say
 * nothing about another.
 */
import { CheckpointError } from '#base/errors/errors.js'
import type { FileContent } from '#base/util/file-content.js'
import { decodeSafetensors, safetensorsPieces } from '#model/weights/safetensors.js'
import { type AdamWState, createAdamWState } from '#numerics/optim/adamw.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'

/**
 * Serializes a state into views of its moments; equal states give equal bytes.
 *
 * @param kind what kind of job made it: a label, compared exactly
 */
export function encodeOptimizerState(state: AdamWState, kind: string): FileContent {
  const tensors = new Map<string, HostTensor>()
  for (const [name, { first, second }] of state.moments) {
    tensors.set(`${name}.first`, float32Tensor(first, [first.length]))
    tensors.set(`${name}.second`, float32Tensor(second, [second.length]))
  }
  return safetensorsPieces(tensors, { format: 'trainyard.adamw', kind, step_count: String(state.stepCount) })
}

/**
 * Restores a state for a job of `kind`.
 *
 * @param parameters the parameters it belongs to, by name
 * @returns a fresh state if the file was made by another kind of job or belongs to parameters of other sizes
 * @throws {CheckpointError} `checkpoint_corrupt` if the file is damaged
 */
export function decodeOptimizerState(
  content: FileContent,
  kind: string,
  parameters: ReadonlyMap<string, Float32Array>,
): AdamWState {
  const { tensors, metadata } = parse(content)
  if (metadata.get('kind') !== kind) return createAdamWState()
  const stepCount = Number(metadata.get('step_count'))
  if (!Number.isSafeInteger(stepCount) || stepCount < 0) {
    throw new CheckpointError('checkpoint_corrupt', `optimizer state has step_count "${metadata.get('step_count')}"`)
  }
  const state = createAdamWState()
  state.stepCount = stepCount
  for (const [name, parameter] of parameters) {
    const first = tensors.get(`${name}.first`)
    const second = tensors.get(`${name}.second`)
    if (first === undefined && second === undefined && stepCount === 0) continue
    if (first?.dtype !== 'float32' || second?.dtype !== 'float32') {
      throw new CheckpointError('checkpoint_corrupt', `optimizer state has no moments of "${name}"`)
    }
    if (first.data.length !== parameter.length || second.data.length !== parameter.length) return createAdamWState()
    state.moments.set(name, { first: first.data, second: second.data })
  }
  return state
}

function parse(content: FileContent): ReturnType<typeof decodeSafetensors> {
  try {
    return decodeSafetensors(content, 'optimizer state')
  } catch (cause) {
    throw new CheckpointError('checkpoint_corrupt', 'optimizer state is not a safetensors file', { cause })
  }
}
