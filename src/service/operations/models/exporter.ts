/**
 * Files of adapters and base models in forms of other programs, as operations ask for them; a plugin makes and reads them.
 *
 * What they are asked for is checked there too: adapters that come from elsewhere are read by nobody before.
 */
import type { Readable } from 'node:stream'
import { InstallationError, shuttingDown } from '#base/errors/errors.js'
import type { ExportFormat, ExportPrecision } from '#contract/wire/export-words.js'
import type { StoredCheckpoint } from '#formats/checkpoint-manifest.js'

/** A file of an export as listed. */
export interface ExportedFile {
  readonly name: string
  readonly sizeBytes: number
}

export interface OpenExport extends ExportedFile {
  /** Fails when what makes the file does; destroying it ends that. */
  readonly stream: Readable
}

/** An export without the choice of a file. */
export interface WantedExport {
  readonly format: ExportFormat
  /** Null: the format's default. */
  readonly storage: ExportPrecision | null
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
}

/** An adapter from elsewhere, and the base model that it is of. */
interface GivenFiles {
  /** Hugging Face directory or GGUF file of the base model. */
  readonly sourcePath: string
  /** `adapter_config.json` and `adapter_model.safetensors` (of mlx-lm `adapters.safetensors`) as they were given. */
  readonly configPath: string
  readonly weightsPath: string
}

export interface WantedImport extends GivenFiles {
  readonly baseModel: string
  /** Where both files are written, by name. */
  readonly targets: Readonly<Record<string, string>>
}

/** An adapter that a worker made is checked before it becomes a checkpoint; nothing is written. */
export interface WantedCheck extends GivenFiles {
  /** Inner dimension that it must have; null: whatever it says. */
  readonly rank: number | null
}

/** An adapter from elsewhere is merged into its base model, which is written as a Hugging Face directory of float32. */
export interface WantedMerge extends GivenFiles {
  readonly baseModel: string
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

export interface Exporter {
  /**
   * @param key whose export it is: keys take turns
   * @throws {AppError} what the export refuses, for example `unsupported_export`; `queue_full`
   */
  list(key: string, request: WantedExport): Promise<readonly ExportedFile[]>
  /** Null when the export has no such file. */
  open(key: string, request: WantedExport, file: string): Promise<OpenExport | null>
  /** Checks an adapter and rewrites it. @throws {AppError} what is wrong with it */
  importAdapter(key: string, request: WantedImport): Promise<ImportedAdapter>
  /** Checks an adapter that a worker made, before exports wait their turns. @throws {AppError} what is wrong with it */
  checkAdapter(key: string, request: WantedCheck): Promise<void>
  /**
   * Writes a base model with an adapter merged in.
   *
   * @returns sentences: what of the adapter was not read
   * @throws {AppError} what is wrong with it
   */
  mergeAdapter(key: string, request: WantedMerge): Promise<readonly string[]>
}

/** @param options.environment of the processes */
export type OpenExporter = (options: {
  readonly environment: Readonly<Record<string, string | undefined>>
}) => Promise<Exporter & { stop(): void }>

/** An exporter that is opened by the first request. @param open null: no plugin has one, and every request is refused */
export function openLater(
  open: OpenExporter | null,
  options: Parameters<OpenExporter>[0],
): Exporter & { stop(): Promise<void> } {
  let opened: ReturnType<OpenExporter> | null = null
  let isStopped = false
  const exporter = (): ReturnType<OpenExporter> => {
    if (isStopped) return Promise.reject(shuttingDown())
    opened ??= open === null ? Promise.reject(unsupported()) : open(options)
    return opened
  }
  return {
    list: async (key, request) => (await exporter()).list(key, request),
    open: async (key, request, file) => (await exporter()).open(key, request, file),
    importAdapter: async (key, request) => (await exporter()).importAdapter(key, request),
    checkAdapter: async (key, request) => (await exporter()).checkAdapter(key, request),
    mergeAdapter: async (key, request) => (await exporter()).mergeAdapter(key, request),
    stop: async () => {
      isStopped = true
      await opened?.then((each) => each.stop()).catch(() => undefined)
    },
  }
}

function unsupported(): InstallationError {
  return new InstallationError(
    'export_unavailable',
    'files of other programs are not read or written: no plugin does it',
    {
      hint: 'start the server with the plugins of its package',
    },
  )
}
