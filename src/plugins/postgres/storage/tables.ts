/**
 * The tables of a new PostgreSQL database, as SQLite's migrations up to `0028-job-workers` leave them: what came before is only
 * of interest to databases that are older, and there are none. Migrations after that one are the same for both
 * (`open-postgres.ts`).
 *
 * In SQLite's words for types, which `dialect.ts` translates for migrations too.
 * `test/integration/storage/postgres/schema.test.ts` holds that both databases have the same tables, columns, keys, indexes and
 * triggers.
 */
import { CLOCK_OF_SQLITE, toPostgresTypes } from './dialect.js'

/** Statements; `now_ms` stands for the database's clock. */
export const STATEMENTS = `
create table api_keys (
  id text primary key, entity text not null, key_hash text not null unique, key_prefix text not null,
  created_at_ms bigint not null default now_ms, name text not null default '', project text,
  scope text not null default 'admin', expires_at_ms bigint, last_used_at_ms bigint
);
create index api_keys_on_entity_id on api_keys (entity, id);
create table models (
  id text primary key, entity text not null, project text not null, name text not null, base_model text not null,
  run_id text not null, step integer not null, created_at_ms bigint not null default now_ms,
  unique (entity, project, name)
);
create index models_on_entity_id on models (entity, id);
create index models_on_entity_project_id on models (entity, project, id);
create index models_on_entity_name_id on models (entity, name, id);
create index models_on_entity_base_model_id on models (entity, base_model, id);
create index models_on_entity_project_base_model_id on models (entity, project, base_model, id);
create table checkpoints (
  id text primary key, model_id text not null references models, step integer not null, kind text not null,
  job_id text not null unique, adapter_digest text not null, created_at_ms bigint not null default now_ms,
  template_kwargs text not null default '{}', unique (model_id, step)
);
create table checkpoint_files (
  checkpoint_id text not null references checkpoints on delete cascade, name text not null, sha256 text not null,
  size_bytes bigint not null, primary key (checkpoint_id, name)
);
create table training_jobs (
  id text primary key, entity text not null, model_id text not null, kind text not null, status text not null,
  config text not null, input_sha256 text, request_digest text not null, source_url text,
  attempt integer not null default 0, losses integer not null default 0,
  is_cancel_requested integer not null default 0, lease_owner text, lease_expires_at_ms bigint,
  heartbeat_at_ms bigint, token_hash text, parent_step integer, step integer, error_code text, error_message text,
  created_at_ms bigint not null default now_ms, started_at_ms bigint, ended_at_ms bigint, retry_at_ms bigint,
  event_count integer not null default 0, gradient_step_count integer not null default 0, num_sequences integer,
  project text not null default '', usage_project text, claim_order integer, validation_sha256 text, report text,
  reported_at_ms bigint, resolved_config text, base_parameters bigint, worker text
);
create index training_jobs_by_status on training_jobs (status, id);
create index training_jobs_by_model on training_jobs (model_id, id);
create unique index training_jobs_one_running on training_jobs (model_id) where status = 'running';
create index training_jobs_on_entity_id on training_jobs (entity, id);
create index training_jobs_on_entity_status_id on training_jobs (entity, status, id);
create index training_jobs_on_model_id_status_id on training_jobs (model_id, status, id);
create index training_jobs_on_model_id_request_digest_id on training_jobs (model_id, request_digest, id);
create index training_jobs_on_entity_project_id on training_jobs (entity, project, id);
create index training_jobs_on_entity_project_claim_order on training_jobs (entity, project, claim_order);
create index training_jobs_on_model_id_claim_order on training_jobs (model_id, claim_order);
create index training_jobs_on_claim_order on training_jobs (claim_order);
create index training_jobs_on_entity_project_status_id on training_jobs (entity, project, status, id);
create table job_files (
  job_id text not null references training_jobs on delete cascade, attempt integer not null, name text not null,
  sha256 text not null, size_bytes bigint not null, primary key (job_id, attempt, name)
);
create table events (
  id text primary key, job_id text not null references training_jobs on delete cascade, position integer not null,
  type text not null, data text not null, created_at_ms bigint not null default now_ms, unique (job_id, position)
);
create unique index events_one_terminal on events (job_id) where type in ('training_ended', 'training_failed');
create table trajectory_logs (
  id text primary key, model_id text not null references models on delete cascade, split text not null,
  step integer not null, body_sha256 text not null, group_count integer not null,
  trajectory_count integer not null, metrics text not null, created_at_ms bigint not null default now_ms
);
create index trajectory_logs_on_model_id_id on trajectory_logs (model_id, id);
create index trajectory_logs_on_model_id_split_id on trajectory_logs (model_id, split, id);
create index trajectory_logs_on_model_id_step_id on trajectory_logs (model_id, step, id);
create index trajectory_logs_on_model_id_split_step_id on trajectory_logs (model_id, split, step, id);
create index trajectory_logs_on_model_id_body_sha256_id on trajectory_logs (model_id, body_sha256, id);
create table files (
  id text primary key, entity text not null, filename text not null, purpose text not null, artifact text,
  sha256 text not null, size_bytes bigint not null, created_at_ms bigint not null default now_ms, project text,
  problem text, unique (entity, artifact)
);
create index files_of_entity on files (entity, id);
create index files_of_project on files (entity, project, id);
create index files_on_entity_purpose_id on files (entity, purpose, id);
create index files_on_entity_project_purpose_id on files (entity, project, purpose, id);
create table idempotency_keys (
  entity text not null, scope text not null, key text not null, request_digest text not null,
  object_id text not null, created_at_ms bigint not null default now_ms, primary key (entity, scope, key)
);
create index idempotency_keys_on_object_id on idempotency_keys (object_id);
create table health_probes (
  id text primary key, value text not null
);
create table resume_points (
  job_id text primary key references training_jobs on delete cascade, parent_step integer not null,
  event_count integer not null, sha256 text not null, size_bytes bigint not null,
  created_at_ms bigint not null default now_ms
);
create table split_metrics (
  model_id text not null references models on delete cascade, step integer not null, split text not null,
  totals text not null, primary key (model_id, step, split)
);
create table usage_days (
  entity text not null, day text not null, project text not null, model text not null,
  requests bigint not null default 0, prompt_tokens bigint not null default 0,
  cached_tokens bigint not null default 0, completion_tokens bigint not null default 0,
  training_ms bigint not null default 0, primary key (entity, day, project, model)
);
create table model_counts (
  base_model text not null, entity text not null, project text not null, count integer not null,
  primary key (base_model, entity, project)
);
create table database_identity (
  id text primary key, mark integer not null, blob_store text
);
create table server_runs (
  id integer generated by default as identity primary key, started_at_ms bigint not null, seen_at_ms bigint not null
);
create table unnamed_blobs (
  sha256 text primary key, known_at_ms bigint not null, seen_at_ms bigint, is_transient integer not null
);
create table model_metrics (
  model_id text not null references models on delete cascade, step integer not null, source text not null,
  metrics text not null, created_at_ms bigint not null default now_ms, primary key (model_id, step, source)
);
create table sessions (
  id text primary key, key_id text not null references api_keys on delete cascade,
  token_hash text not null unique, scope text not null, name text not null default '',
  expires_at_ms bigint not null, created_at_ms bigint not null default now_ms
);
create index sessions_by_key on sessions (key_id, id);
create table client_sessions (
  id text primary key, entity text not null, project text, key_id text not null, tags text not null,
  user_metadata text not null, sdk_version text not null, display_name text,
  created_at_ms bigint not null default now_ms, seen_at_ms bigint not null, ended_at_ms bigint
);
create table training_sessions (
  id text primary key, entity text not null, project text not null,
  client_session_id text not null references client_sessions on delete cascade, base_model text not null,
  rank integer not null, alpha real not null, seed text not null, trains_mlp integer not null,
  trains_attention integer not null, user_metadata text not null, error text, attempt integer not null default 0,
  next_seq integer not null default 1, state_seq integer not null default 0,
  step_count integer not null default 0, model_id text, created_at_ms bigint not null default now_ms,
  used_at_ms bigint not null
);
create index training_sessions_by_entity on training_sessions (entity, created_at_ms);
create table session_requests (
  session_id text not null references training_sessions on delete cascade, seq integer not null,
  kind text not null, detail text not null, body blob, status text not null, result text, output blob,
  error text, is_user_error integer not null default 0, losses integer not null default 0,
  created_at_ms bigint not null default now_ms, ended_at_ms bigint, primary key (session_id, seq)
);
create index session_requests_waiting on session_requests (session_id, seq) where status = 'waiting';
create table session_files (
  session_id text not null references training_sessions on delete cascade, name text not null,
  sha256 text not null, size_bytes bigint not null, primary key (session_id, name)
);
create table session_weights (
  id text primary key, entity text not null,
  session_id text not null references training_sessions on delete cascade, kind text not null, name text,
  step integer, user_metadata text not null, created_at_ms bigint not null default now_ms, expires_at_ms bigint,
  unique (session_id, kind, name)
);
create table session_weight_files (
  weights_id text not null references session_weights on delete cascade, name text not null, sha256 text not null,
  size_bytes bigint not null, primary key (weights_id, name)
);
create table samplers (
  id text primary key, entity text not null,
  client_session_id text not null references client_sessions on delete cascade, base_model text not null,
  weights_id text, model_path text, created_at_ms bigint not null default now_ms
);
`

/**
 * Statements one by one, in PostgreSQL's words.
 *
 * @param text each ends with a semicolon and a line end; `now_ms` is the database's clock
 */
export function toStatements(text: string): readonly string[] {
  return text
    .replaceAll('now_ms', `(${CLOCK_OF_SQLITE})`)
    .split(';\n')
    .filter((statement) => statement.trim() !== '')
    .map(toPostgresTypes)
}
