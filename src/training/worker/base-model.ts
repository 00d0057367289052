/**
 * The base model a worker trains: prepared weights and text parts, kept from job to job while the base stays the same.
 */
import { type PreparedModel, prepareBaseModel } from '#model/architectures/prepare.js'
import { loadTextModel, type TextModel } from '#model/text/text-model.js'

export interface BaseModel {
  readonly prepared: PreparedModel
  readonly text: TextModel
}

/** Where a base model lies on this machine. */
export interface BaseModelPlace {
  /** Folder or GGUF file. */
  readonly sourcePath: string
  /** Where prepared weights are kept. */
  readonly preparedDir: string
}

/** Loads a base model, or hands out the one loaded before. */
export type OpenBaseModel = (place: BaseModelPlace) => Promise<BaseModel>

/** @param onChange called before another base model than the last one is loaded */
export function createBaseModelOpener(onChange: () => Promise<void>): OpenBaseModel {
  let last: { readonly key: string; readonly model: BaseModel } | null = null
  return async ({ sourcePath, preparedDir }) => {
    const key = JSON.stringify([sourcePath, preparedDir])
    if (last?.key === key) return last.model
    if (last !== null) await onChange()
    last = null
    const prepared = await prepareBaseModel(sourcePath, preparedDir, [])
    const model = { prepared, text: await loadTextModel(sourcePath) }
    last = { key, model }
    return model
  }
}
