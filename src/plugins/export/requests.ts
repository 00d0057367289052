/**
 * What the server asks an export process, and what that says: one request, one answer, then the bytes of one file on stdout.
 * An adapter from elsewhere is checked and rewritten by the same kind of process.
 */
import type {
  ImportedAdapter,
  WantedCheck,
  WantedExport,
  WantedImport,
  WantedMerge,
} from '#service/operations/models/exporter.js'

export interface ExportRequest extends WantedExport {
  readonly type: 'export'
  /** The file whose bytes are wanted; null for the list alone. */
  readonly file: string | null
}

export interface ImportRequest extends WantedImport {
  readonly type: 'import'
}

export interface CheckRequest extends WantedCheck {
  readonly type: 'check'
}

export interface MergeRequest extends WantedMerge {
  readonly type: 'merge'
}

export type ExportReply =
  | { readonly type: 'checked' }
  | { readonly type: 'merged'; readonly notes: readonly string[] }
  | { readonly type: 'imported'; readonly adapter: ImportedAdapter }
  | { readonly type: 'files'; readonly files: readonly { readonly name: string; readonly sizeBytes: number }[] }
