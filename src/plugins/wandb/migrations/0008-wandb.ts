/**
 * What the wandb client uploads: runs with their history, artifacts with their files, and the secret that signs upload and
 * download addresses.
 */
import { type Kysely, sql } from 'kysely'

const now = sql`(cast(unixepoch('subsec') * 1000 as integer))`

/** Adds the tables. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await createRuns(db)
  await createArtifacts(db)
  await db.schema
    .createTable('secrets')
    .addColumn('name', 'text', (c) => c.primaryKey())
    .addColumn('value', 'text', (c) => c.notNull())
    .execute()
}

async function createRuns(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('wandb_runs')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('entity', 'text', (c) => c.notNull())
    .addColumn('project', 'text', (c) => c.notNull())
    .addColumn('name', 'text', (c) => c.notNull())
    .addColumn('display_name', 'text', (c) => c.notNull())
    .addColumn('state', 'text', (c) => c.notNull())
    .addColumn('attributes', 'text', (c) => c.notNull())
    .addColumn('config', 'text', (c) => c.notNull())
    .addColumn('summary', 'text', (c) => c.notNull())
    .addColumn('created_at_ms', 'bigint', (c) => c.notNull().defaultTo(now))
    .addColumn('updated_at_ms', 'bigint', (c) => c.notNull().defaultTo(now))
    .addUniqueConstraint('wandb_runs_name', ['entity', 'project', 'name'])
    .execute()
  await db.schema
    .createTable('wandb_history')
    .addColumn('run_id', 'text', (c) => c.notNull().references('wandb_runs.id').onDelete('cascade'))
    .addColumn('line', 'integer', (c) => c.notNull())
    .addColumn('body', 'text', (c) => c.notNull())
    .addPrimaryKeyConstraint('wandb_history_key', ['run_id', 'line'])
    .execute()
  await db.schema
    .createTable('wandb_run_files')
    .addColumn('run_id', 'text', (c) => c.notNull().references('wandb_runs.id').onDelete('cascade'))
    .addColumn('name', 'text', (c) => c.notNull())
    .addColumn('sha256', 'text', (c) => c.notNull())
    .addColumn('size_bytes', 'bigint', (c) => c.notNull())
    .addPrimaryKeyConstraint('wandb_run_files_key', ['run_id', 'name'])
    .execute()
}

async function createArtifacts(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('wandb_artifacts')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('entity', 'text', (c) => c.notNull())
    .addColumn('project', 'text', (c) => c.notNull())
    .addColumn('collection', 'text', (c) => c.notNull())
    .addColumn('type', 'text', (c) => c.notNull())
    .addColumn('client_id', 'text')
    .addColumn('version_index', 'integer')
    .addColumn('digest', 'text', (c) => c.notNull())
    .addColumn('description', 'text')
    .addColumn('wanted_aliases', 'text', (c) => c.notNull())
    .addColumn('manifest_sha256', 'text')
    .addColumn('checkpoint_id', 'text')
    .addColumn('created_at_ms', 'bigint', (c) => c.notNull().defaultTo(now))
    .addUniqueConstraint('wandb_artifacts_version', ['entity', 'project', 'collection', 'version_index'])
    .execute()
  await db.schema
    .createTable('wandb_artifact_files')
    .addColumn('artifact_id', 'text', (c) => c.notNull().references('wandb_artifacts.id').onDelete('cascade'))
    .addColumn('name', 'text', (c) => c.notNull())
    .addColumn('sha256', 'text', (c) => c.notNull())
    .addColumn('md5', 'text', (c) => c.notNull())
    .addColumn('size_bytes', 'bigint', (c) => c.notNull())
    .addPrimaryKeyConstraint('wandb_artifact_files_key', ['artifact_id', 'name'])
    .execute()
  await db.schema
    .createTable('wandb_aliases')
    .addColumn('entity', 'text', (c) => c.notNull())
    .addColumn('project', 'text', (c) => c.notNull())
    .addColumn('collection', 'text', (c) => c.notNull())
    .addColumn('alias', 'text', (c) => c.notNull())
    .addColumn('artifact_id', 'text', (c) => c.notNull().references('wandb_artifacts.id').onDelete('cascade'))
    .addPrimaryKeyConstraint('wandb_aliases_key', ['entity', 'project', 'collection', 'alias'])
    .execute()
  // of an artifact or of a checkpoint that is shown as one
  await db.schema
    .createTable('wandb_metadata')
    .addColumn('artifact_id', 'text', (c) => c.primaryKey())
    .addColumn('metadata', 'text', (c) => c.notNull())
    .execute()
}
