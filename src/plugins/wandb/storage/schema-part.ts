/**
 * What the database holds of W&B's client: every table, what upkeep has to know of it, and how it came to be.
 */
import type { Kysely } from 'kysely'
import { createBlobTriggers } from '#service/storage/migrations/0014-blob-upkeep.js'
import type { SchemaPart, TableFacts } from '#service/storage/schema-part.js'
import { listNamedSteps } from './artifacts.js'
import type { WandbTables } from './tables.js'

const tables: Readonly<Record<keyof WandbTables, TableFacts>> = {
  wandb_runs: { isListedById: true },
  wandb_history: {},
  wandb_run_files: { blobs: ['sha256'] },
  wandb_artifacts: { blobs: ['manifest_sha256'], isListedById: true },
  wandb_artifact_files: { blobs: ['sha256'] },
  wandb_aliases: {},
  wandb_metadata: {},
  secrets: {},
}

/** Columns that name blobs, in the order in which their triggers were made. */
const BLOB_COLUMNS = [
  ['wandb_artifact_files', 'sha256', 0],
  ['wandb_run_files', 'sha256', 0],
  ['wandb_artifacts', 'manifest_sha256', 0],
] as const

const FIRST_TABLES = `
create table wandb_runs (
  id text primary key, entity text not null, project text not null, name text not null,
  display_name text not null, state text not null, attributes text not null, config text not null,
  summary text not null, created_at_ms bigint not null default now_ms,
  updated_at_ms bigint not null default now_ms, unique (entity, project, name)
);
create index wandb_runs_of_project on wandb_runs (entity, project, id);
create table wandb_history (
  run_id text not null references wandb_runs on delete cascade, line integer not null, body text not null,
  primary key (run_id, line)
);
create table wandb_run_files (
  run_id text not null references wandb_runs on delete cascade, name text not null, sha256 text not null,
  size_bytes bigint not null, primary key (run_id, name)
);
create table wandb_artifacts (
  id text primary key, entity text not null, project text not null, collection text not null, type text not null,
  client_id text, version_index integer, digest text not null, description text, wanted_aliases text not null,
  manifest_sha256 text, checkpoint_id text, created_at_ms bigint not null default now_ms,
  unique (entity, project, collection, version_index)
);
create table wandb_artifact_files (
  artifact_id text not null references wandb_artifacts on delete cascade, name text not null,
  sha256 text not null, md5 text not null, size_bytes bigint not null, primary key (artifact_id, name)
);
create table wandb_aliases (
  entity text not null, project text not null, collection text not null, alias text not null,
  artifact_id text not null references wandb_artifacts on delete cascade,
  primary key (entity, project, collection, alias)
);
create table wandb_metadata (
  artifact_id text primary key, metadata text not null
);
create table secrets (
  name text primary key, value text not null
);
`

async function indexRuns(db: Kysely<unknown>): Promise<void> {
  await db.schema.createIndex('wandb_runs_of_project').on('wandb_runs').columns(['entity', 'project', 'id']).execute()
}

export const wandbSchema: SchemaPart = {
  tables,
  migrations: {
    '0008-wandb': { up: async (db) => (await import('../migrations/0008-wandb.js')).up(db) },
    '0011-list-indexes': { up: indexRuns },
    '0014-blob-upkeep': { up: (db) => createBlobTriggers(db, BLOB_COLUMNS) },
  },
  postgresMigrations: {},
  firstTables: { statements: FIRST_TABLES, blobs: BLOB_COLUMNS },
  namedSteps: listNamedSteps,
}
