/**
 * What the server asks an export process, and what that says: one request, one answer, then the bytes of one file on stdout.
 * An adapter from elsewhere is checked and rewritten by the same kind of process.
 */
import type { StoredCheckpoint } from '#formats/checkpoint-manifest.js'

export interface ExportRequest {
  readonly type: 'export'
  readonly format: 'peft' | 'merged' | 'gguf' | 'gguf-adapter'
  /** Null: the format's default. */
  readonly storage: 'f32' | 'f16' | 'bf16' | 'q8_0' | null
  /** Hugging Face directory or GGUF file of the base model. */
  readonly sourcePath: string
  /** The base model's name, for `base_model_name_or_path`. */
  readonly baseModel: string
  /** The trained model's name, for readers. */
  readonly modelName: string
  /** How file names of the model's own begin; a plain name. */
  readonly fileStem: string
  /** Null for step 0. */
  readonly adapter: StoredCheckpoint | null
  /** The file whose bytes are wanted; null for the list alone. */
  readonly file: string | null
}

export interface ImportRequest {
  readonly type: 'import'
  /** Hugging Face directory or GGUF file of the base model. */
  readonly sourcePath: string
  readonly baseModel: string
  /** `adapter_config.json` and `adapter_model.safetensors` (of mlx-lm `adapters.safetensors`) as they were given. */
  readonly configPath: string
  readonly weightsPath: string
  /** Where both files are written, by name. */
  readonly targets: Readonly<Record<string, string>>
}

/** An adapter that a worker made is checked before it becomes a checkpoint; nothing is written. */
export interface CheckRequest extends Omit<ImportRequest, 'type' | 'targets' | 'baseModel'> {
  readonly type: 'check'
  /** Inner dimension that it must have; null: whatever it says. */
  readonly rank: number | null
}

/** An adapter from elsewhere is merged into its base model, which is written as a Hugging Face directory of float32. */
export interface MergeRequest extends Omit<ImportRequest, 'type' | 'targets'> {
  readonly type: 'merge'
  /** A folder that is there and empty. */
  readonly targetPath: string
}

/** What is known of an imported adapter. */
export interface ImportedAdapter {
  readonly rank: number
  readonly alpha: number
  /** Projections that the given adapter left alone. */
  readonly addedModules: number
  /** `base_model_name_or_path` of the given adapter. */
  readonly namedBaseModel: string | null
  /** Sentences: what of it was not read, or has no effect. */
  readonly notes: readonly string[]
}

export type ExportReply =
  | { readonly type: 'checked' }
  | { readonly type: 'merged'; readonly notes: readonly string[] }
  | { readonly type: 'imported'; readonly adapter: ImportedAdapter }
  | { readonly type: 'files'; readonly files: readonly { readonly name: string; readonly sizeBytes: number }[] }
