/**
 * What a learner holds as files: one with weights, moments and marks, and those of a checkpoint.
 *
 * The first has every adapter tensor `<name>` and its moments `<name>.first` and `<name>.second`, all float32, and the same under
 * `<mark>:<name>`. Float32 is read back bit for bit.
 */
import type { FileContent } from '#base/util/file-content.js'
import { type AdapterWeights, encodeAdapter } from '#model/weights/adapter.js'
import { safetensorsPieces } from '#model/weights/safetensors.js'
import type { AdamWState } from '#numerics/optim/adamw.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import { encodeOptimizerState } from '../optimizer-state.js'
import type { ExportedParts, LearnerState, MarkName } from './learner.js'
import { adapterParameters } from './parameters.js'

export const OPTIMIZER_FILE = 'optimizer.safetensors'
export const GRADIENTS_FILE = 'gradients.safetensors'

/** A copy of weights, and of the moments where they were copied. */
export interface Mark {
  readonly adapter: AdapterWeights
  readonly optimizer: AdamWState | null
}

/** Begins the names of a mark's tensors. */
export function markPrefix(name: MarkName): string {
  return `${name}:`
}

/** Weights, moments, and marks that have moments; views of them. */
export function saveState(
  state: Pick<LearnerState, 'adapter' | 'optimizer'>,
  marks: ReadonlyMap<MarkName, Mark>,
  metadata: Readonly<Record<string, string>>,
): FileContent {
  const tensors = new Map<string, HostTensor>()
  const put = (name: string, data: Float32Array): void => void tensors.set(name, float32Tensor(data, [data.length]))
  const putAll = (prefix: string, adapter: AdapterWeights, { moments }: AdamWState): void => {
    for (const [name, data] of adapterParameters(adapter)) put(`${prefix}${name}`, data)
    for (const [name, { first, second }] of moments) {
      put(`${prefix}${name}.first`, first)
      put(`${prefix}${name}.second`, second)
    }
  }
  putAll('', state.adapter, state.optimizer)
  for (const [name, mark] of marks) if (mark.optimizer !== null) putAll(markPrefix(name), mark.adapter, mark.optimizer)
  return safetensorsPieces(tensors, metadata)
}

/** Files of a checkpoint; views of the state. */
export function exportState(
  parts: ExportedParts,
  { adapter, optimizer, gradients }: LearnerState,
  { baseModelName, kind }: { readonly baseModelName: string; readonly kind: string },
): Map<string, FileContent> {
  const files = new Map<string, FileContent>(encodeAdapter(adapter, { baseModelName }))
  if (parts === 'adapter') return files
  files.set(OPTIMIZER_FILE, encodeOptimizerState(optimizer, kind))
  if (parts === 'weights' || gradients.size === 0) return files
  const tensors = new Map([...gradients].map(([name, values]) => [name, float32Tensor(values, [values.length])]))
  return files.set(GRADIENTS_FILE, safetensorsPieces(tensors, { format: 'trainyard.gradients' }))
}
