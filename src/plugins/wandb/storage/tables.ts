/**
 * Tables of what the wandb client uploads, as Kysely sees them.
 */
import type { Generated, Kysely } from 'kysely'
import type { Database } from '#service/storage/database.js'
import type { Schema } from '#service/storage/schema.js'

export interface WandbRunsTable {
  id: string
  entity: string
  project: string
  /** What wandb calls the run's id: unique inside a project, chosen by the client. */
  name: string
  display_name: string
  /** `running`, `finished`, `failed`. */
  state: string
  /** JSON object: tags, notes, group, job type and other words the client gives a run. */
  attributes: string
  /** JSON object as the client sends it: name → `{value}`. */
  config: string
  /** JSON object: the last value of each metric. */
  summary: string
  created_at_ms: Generated<number>
  updated_at_ms: Generated<number>
}

export interface WandbHistoryTable {
  run_id: string
  /** 0, 1, 2 … as the client counts, so that a line sent twice is stored once. */
  line: number
  /** JSON object: what was logged at once. */
  body: string
}

/** What a client stores beside its metrics: tables and media it logged, its requirements, its console's output. */
export interface WandbRunFilesTable {
  run_id: string
  name: string
  sha256: string
  size_bytes: number
}

export interface WandbArtifactsTable {
  id: string
  entity: string
  project: string
  collection: string
  type: string
  /** The id the client chose before the server gave one. */
  client_id: string | null
  /** N of `vN`; null until the artifact is committed. */
  version_index: number | null
  /** wandb's digest of the manifest, hex MD5. */
  digest: string
  description: string | null
  /** JSON list of names it answers to once it is committed. */
  wanted_aliases: string
  manifest_sha256: string | null
  /** The checkpoint made of it, when it is an adapter for a model of the same name. */
  checkpoint_id: string | null
  created_at_ms: Generated<number>
}

export interface WandbArtifactFilesTable {
  artifact_id: string
  /** Path inside the artifact; never a path of this machine. */
  name: string
  sha256: string
  /** Base64, as manifests write it. */
  md5: string
  size_bytes: number
}

export interface WandbAliasesTable {
  entity: string
  project: string
  collection: string
  alias: string
  artifact_id: string
}

export interface WandbMetadataTable {
  /** An artifact's id, or `checkpoint-` and a checkpoint's. */
  artifact_id: string
  /** JSON object. */
  metadata: string
}

/** Keys made by this server for itself; they never leave it. */
export interface SecretsTable {
  name: string
  value: string
}

/** No interface: Kysely wants an index. */
export type WandbTables = {
  wandb_runs: WandbRunsTable
  wandb_history: WandbHistoryTable
  wandb_run_files: WandbRunFilesTable
  wandb_artifacts: WandbArtifactsTable
  wandb_artifact_files: WandbArtifactFilesTable
  wandb_aliases: WandbAliasesTable
  wandb_metadata: WandbMetadataTable
  secrets: SecretsTable
}

/** The same database, or open transaction, with these tables. */
export function wandbTables(db: Database): Kysely<Schema & WandbTables> {
  return (db as Kysely<Schema>).withTables<WandbTables>()
}
