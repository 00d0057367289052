/**
 * What the learner of a training session starts with: a new adapter, or the files of a stored one (`state-files.ts`).
 */
import { CheckpointError } from '#base/errors/errors.js'
import type { FileContent } from '#base/util/file-content.js'
import { ADAPTER_CONFIG_FILE, ADAPTER_WEIGHTS_FILE } from '#formats/checkpoint-manifest.js'
import { adapterModules } from '#model/architectures/decoder-config.js'
import type { PreparedModel } from '#model/architectures/prepare.js'
import { createAdapter, decodeStoredAdapter } from '#model/weights/adapter.js'
import { decodeSafetensors } from '#model/weights/safetensors.js'
import { type AdamWState, createAdamWState } from '#numerics/optim/adamw.js'
import type { LearnerState } from '#training/trainer/learner/learner.js'
import { adapterParameters } from '#training/trainer/learner/parameters.js'
import { GRADIENTS_FILE, OPTIMIZER_FILE } from '#training/trainer/learner/state-files.js'
import { decodeOptimizerState } from '#training/trainer/optimizer-state.js'

/** Label of optimizer states that sessions make: jobs drop them, as those of another kind of job. */
export const OPTIMIZER_KIND = 'session'

/** Shape and beginning of a session's adapter. */
export interface NewAdapter {
  readonly rank: number
  readonly alpha: number
  readonly seed: string | number
}

/** A session that was never stored: its adapter changes nothing yet. */
export function newSessionState(prepared: PreparedModel, shape: NewAdapter): LearnerState {
  return {
    adapter: createAdapter(adapterModules(prepared.config), shape),
    optimizer: createAdamWState(),
    gradients: new Map(),
  }
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
): LearnerState {
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
