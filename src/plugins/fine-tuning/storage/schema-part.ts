/**
 * What the database holds of fine-tuning jobs, and how it came to be.
 */
import type { Kysely } from 'kysely'
import type { SchemaPart, TableFacts } from '#service/storage/schema-part.js'
import { announceJob, listResultSteps } from './jobs.js'
import { announceLoop } from './loops.js'
import type { FineTuningTables } from './tables.js'

const tables: Readonly<Record<keyof FineTuningTables, TableFacts>> = { fine_tuning_jobs: {}, fine_tuning_loops: {} }

const FIRST_TABLES = `
create table fine_tuning_jobs (
  job_id text primary key references training_jobs on delete cascade, entity text not null, project text not null,
  request_digest text not null, request text not null, trained_name text not null, hyperparameters text not null,
  trained_tokens integer, created_at_ms bigint not null default now_ms
);
create index fine_tuning_jobs_of_entity on fine_tuning_jobs (entity, job_id);
create index fine_tuning_jobs_on_entity_project_job_id on fine_tuning_jobs (entity, project, job_id);
`

async function indexFilters(db: Kysely<unknown>): Promise<void> {
  const columns = ['entity', 'project', 'job_id']
  await db.schema
    .createIndex('fine_tuning_jobs_on_entity_project_job_id')
    .on('fine_tuning_jobs')
    .columns(columns)
    .execute()
}

export const fineTuningSchema: SchemaPart = {
  tables,
  migrations: {
    '0009-fine-tuning': { up: async (db) => (await import('../migrations/0009-fine-tuning.js')).up(db) },
    '0012-filter-indexes': { up: indexFilters },
    '0051-reinforcement': { up: async (db) => (await import('../migrations/0051-reinforcement.js')).up(db) },
    '0051-result-files': { up: async (db) => (await import('../migrations/0051-result-files.js')).up(db) },
  },
  postgresMigrations: {},
  firstTables: { statements: FIRST_TABLES },
  namedSteps: listResultSteps,
  noteEvent: announceJob,
  announce: announceLoop,
}
