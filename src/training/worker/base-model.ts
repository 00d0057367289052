/**
 * The base model a worker trains: prepared weights and text parts, kept from job to job while the base stays the same.
 */
import type { WorkerJob } from '#contract/processes/worker.js'
import { type PreparedModel, prepareBaseModel } from '#model/architectures/prepare.js'
import { loadTextModel, type TextModel } from '#model/text/text-model.js'

export interface BaseModel {
  readonly prepared: PreparedModel
  readonly text: TextModel
}

/** Loads a base model, or hands out the one loaded before. */
export type OpenBaseModel = (base: WorkerJob['base_model']) => Promise<BaseModel>

/** @param onChange called before another base model than the last one is loaded */
export function createBaseModelOpener(onChange: () => Promise<void>): OpenBaseModel {
  let last: { readonly key: string; readonly model: BaseModel } | null = null
  return async (base) => {
    const key = JSON.stringify([base.source_path, base.prepared_dir])
    if (last?.key === key) return last.model
    if (last !== null) await onChange()
    last = null
    const prepared = await prepareBaseModel(base.source_path, base.prepared_dir, [])
    const model = { prepared, text: await loadTextModel(base.source_path) }
    last = { key, model }
    return model
  }
}
