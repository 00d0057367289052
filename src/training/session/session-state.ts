/**
 * A training session's state as files: the adapter in the PEFT layout, AdamW's moments, and the gradients added up since the last step.
 */
import { CheckpointError } from '#base/errors/errors.js'
import type { FileContent } from '#base/util/file-content.js'
import { ADAPTER_CONFIG_FILE, ADAPTER_WEIGHTS_FILE } from '#formats/checkpoint-manifest.js'
import { adapterModules } from '#model/architectures/decoder-config.js'
import type { PreparedModel } from '#model/architectures/prepare.js'
import { createAdapter, decodeStoredAdapter, encodeAdapter } from '#model/weights/adapter.js'
import { decodeSafetensors, safetensorsPieces } from '#model/weights/safetensors.js'
import { type AdamWState, createAdamWState } from '#numerics/optim/adamw.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import { decodeOptimizerState, encodeOptimizerState } from '#training/trainer/optimizer-state.js'
import { adapterParameters } from '#training/trainer/trainer.js'
import type { SessionState } from './live-session.js'

export const OPTIMIZER_FILE = 'optimizer.safetensors'
export const GRADIENTS_FILE = 'gradients.safetensors'
/** Label of optimizer states that sessions make: jobs drop them, as those of another kind of job. */
const OPTIMIZER_KIND = 'session'

/** Shape and beginning of a session's adapter. */
export interface NewAdapter {
  readonly rank: number
  readonly alpha: number
  readonly seed: string | number
}

/** A session that was never stored: its adapter changes nothing yet. */
export function newSessionState(prepared: PreparedModel, shape: NewAdapter): SessionState {
  return {
    adapter: createAdapter(adapterModules(prepared.config), shape),
    optimizer: createAdamWState(),
    gradients: new Map(),
  }
}

/** The adapter's two files. */
export function encodeWeights({ adapter }: SessionState, baseModelName: string): Map<string, FileContent> {
  return new Map<string, FileContent>(encodeAdapter(adapter, { baseModelName }))
}

/** The adapter and the moments. */
export function encodeWeightsAndMoments(state: SessionState, baseModelName: string): Map<string, FileContent> {
  const files = encodeWeights(state, baseModelName)
  return files.set(OPTIMIZER_FILE, encodeOptimizerState(state.optimizer, OPTIMIZER_KIND))
}

/** Everything that a later process needs to go on with the same bits. */
export function encodeSessionState(state: SessionState, baseModelName: string): Map<string, FileContent> {
  const files = encodeWeightsAndMoments(state, baseModelName)
  if (state.gradients.size === 0) return files
  const tensors = new Map(
    [...state.gradients].map(([name, values]) => [name, float32Tensor(values, [values.length])] as const),
  )
  return files.set(GRADIENTS_FILE, safetensorsPieces(tensors, { format: 'trainyard.gradients' }))
}

/**
 * Restores a state from files, whose digests were checked.
 *
 * @param title how errors name where they come from
 * @throws {CheckpointError} `checkpoint_corrupt`
 */
export function decodeSessionState(
  prepared: PreparedModel,
  files: ReadonlyMap<string, FileContent>,
  title: string,
): SessionState {
  const weights = new Map([...files].filter(([name]) => name === ADAPTER_CONFIG_FILE || name === ADAPTER_WEIGHTS_FILE))
  const adapter = decodeStoredAdapter(title, weights, adapterModules(prepared.config))
  const optimizerBytes = files.get(OPTIMIZER_FILE)
  const parameters = adapterParameters(adapter)
  const optimizer = optimizerBytes === undefined ? createAdamWState() : decodeMoments(optimizerBytes, parameters)
  const gradients = new Map<string, Float32Array>()
  const gradientBytes = files.get(GRADIENTS_FILE)
  if (gradientBytes !== undefined) {
    for (const [name, { data }] of decodeSafetensors(gradientBytes, title).tensors) {
      if (!(data instanceof Float32Array) || data.length !== parameters.get(name)?.length) {
        throw new CheckpointError('checkpoint_corrupt', `${title} has gradients of another shape for "${name}"`)
      }
      gradients.set(name, data)
    }
  }
  return { adapter, optimizer, gradients }
}

/** Parameters that were not trained have no moments. */
function decodeMoments(content: FileContent, parameters: ReadonlyMap<string, Float32Array>): AdamWState {
  const stored = decodeSafetensors(content, 'optimizer state').tensors
  const trained = new Map([...parameters].filter(([name]) => stored.has(`${name}.first`)))
  return decodeOptimizerState(content, OPTIMIZER_KIND, trained)
}
