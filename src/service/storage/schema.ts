/**
 * Every table, as Kysely sees it: the index of what is stored.
 *
 * The same for SQLite and PostgreSQL: text ids, integer milliseconds, 0/1 for booleans, JSON as text. Big bodies are
 * never rows: a `*_sha256` column names a blob. Times come from the database's clock only.
 */
import type { Generated } from 'kysely'
import type { TrainingSessionTables } from './training-sessions/tables.js'

export interface ApiKeysTable {
  id: string
  entity: string
  /** SHA-256 of the key, hex; the key itself is not stored. */
  key_hash: string
  /** First characters of the key, to tell keys apart. */
  key_prefix: string
  /** What its owner calls it. */
  name: Generated<string>
  /** The one project it may see; null: all of its entity. */
  project: string | null
  /** One of `KEY_SCOPES`. */
  scope: Generated<string>
  /** Refused from this time on; null: never. */
  expires_at_ms: number | null
  /** Written in batches, about a second late. */
  last_used_at_ms: number | null
  created_at_ms: Generated<number>
}

/** Sessions of browsers: each stands for a key, and ends with it. */
export interface SessionsTable {
  id: string
  key_id: string
  /** SHA-256 of the token, hex; the token itself is not stored. */
  token_hash: string
  /** `read`, `write` or `admin`; at most the key's. */
  scope: string
  /** The browser, as it calls itself. */
  name: Generated<string>
  expires_at_ms: number
  created_at_ms: Generated<number>
}

export interface ModelsTable {
  id: string
  entity: string
  project: string
  name: string
  base_model: string
  run_id: string
  /** Step of the newest checkpoint ever made; never goes back, so a step number is never used twice. */
  step: number
  created_at_ms: Generated<number>
}

/** Which checkpoints of a model stay, where that is not what the server says (`contract/jobs/keep-rule.ts`). */
export interface KeepRulesTable {
  model_id: string
  rule: string
}

/** What somebody wrote about a model. */
export interface ModelNotesTable {
  model_id: string
  description: string
  /** JSON list of words. */
  tags: string
}

/** How many models there are of a base model in a project; triggers of `models` keep it. */
export interface ModelCountsTable {
  base_model: string
  entity: string
  project: string
  count: number
}

export interface CheckpointsTable {
  id: string
  model_id: string
  step: number
  /** Which kind of job made it: `rl`, `sft`, `dpo`; `none` for an adapter from elsewhere. */
  kind: string
  job_id: string
  /** SHA-256 over the digests of the adapter's two files: what the engine host calls the adapter. */
  adapter_digest: string
  /** JSON object: chat template variables of the chats that it was trained for. */
  template_kwargs: Generated<string>
  created_at_ms: Generated<number>
}

/** What is known of a model at a step, whether or not its checkpoint still exists. */
export interface ModelMetricsTable {
  model_id: string
  /** 0: the base model. */
  step: number
  /** `job`: what the job that made the step recorded itself; `log`: what was logged at it since. */
  source: string
  /** JSON object of numbers, by full name. */
  metrics: string
  created_at_ms: Generated<number>
}

export interface CheckpointFilesTable {
  checkpoint_id: string
  name: string
  sha256: string
  size_bytes: number
}

export interface TrainingJobsTable {
  id: string
  entity: string
  /** Not a foreign key: a job and its events outlive a deleted model, so that a polling client sees the end. */
  model_id: string
  /** The model's project. */
  project: Generated<string>
  /** The project its training time is counted for, when the request named one. */
  usage_project: string | null
  /** Grows with every claim of any job: who had the last turn. */
  claim_order: number | null
  kind: string
  status: string
  /** JSON object as submitted, nulls removed. */
  config: string
  /** JSON object of every option the job runs with; null for jobs of versions before it. */
  resolved_config: string | null
  /** Parameters of the base model when the job was created; null where nobody knew. */
  base_parameters: number | null
  /** JSON Lines: one trajectory group (RL) or one row (SFT) a line. Null once the job has ended. */
  input_sha256: string | null
  /** JSON Lines of rows that the job is measured on; null without, and once the job has ended. */
  validation_sha256: string | null
  /** JSON object: what the job tells about itself, and when it said so; of one that waits what is known of its data. */
  report: string | null
  reported_at_ms: number | null
  /** SHA-256 of kind, input and config: equal for a repeated create. */
  request_digest: string
  /** `training_data_url` of an SFT job. */
  source_url: string | null
  /** Claims so far; also the fencing token. */
  attempt: Generated<number>
  /** Attempts in a row whose worker was lost before it stored a new event; a stop of the server is not one. */
  losses: Generated<number>
  /** After a loss: not claimed again before this time. */
  retry_at_ms: number | null
  is_cancel_requested: Generated<number>
  /** 1: it ends after the gradient step it is in, with a checkpoint. */
  is_stop_requested: Generated<number>
  lease_owner: string | null
  /** JSON object: the worker of the running attempt, or of the last one, see `contract/wire/training/worker-facts.ts`. */
  worker: string | null
  /** What computed its resume point, and computes what follows; null while it can begin with any. */
  trainer: string | null
  /** Least memory of a machine that trains it: the weights of its base model in the precision of the job. Null: not known. */
  weight_bytes: number | null
  lease_expires_at_ms: number | null
  heartbeat_at_ms: number | null
  /** What the running attempt's worker last counted, and when that, or anything else of it, last moved. */
  progress: number | null
  progress_at_ms: number | null
  /** SHA-256 of the running attempt's bearer token. */
  token_hash: string | null
  /** Step of the checkpoint the running attempt starts from; 0: the base model. Set by the claim. */
  parent_step: number | null
  /** Step of the checkpoint the job made. */
  step: number | null
  /** Events stored so far: the position of the next one. */
  event_count: Generated<number>
  gradient_step_count: Generated<number>
  /** Gradient steps announced by `training_started`. */
  num_sequences: number | null
  error_code: string | null
  error_message: string | null
  created_at_ms: Generated<number>
  started_at_ms: number | null
  ended_at_ms: number | null
}

/** Files a running attempt has uploaded; they become checkpoint files when the job completes. */
export interface JobFilesTable {
  job_id: string
  attempt: number
  name: string
  sha256: string
  size_bytes: number
}

/** What a job trained on, from its creation until it is kept no longer. */
export interface KeptTrainingDataTable {
  job_id: string
  model_id: string
  /** The job's rows, as `training_jobs.input_sha256`. */
  data_sha256: string
  data_bytes: number | null
  /** What its trainer noted of every token; null where it noted nothing, and until the job has ended. */
  rollouts_sha256: string | null
  rollouts_bytes: number | null
  /** Of RL jobs. */
  group_count: number | null
  trajectory_count: number | null
}

/** Where a running job goes on after it lost its worker. */
export interface ResumePointsTable {
  job_id: string
  /** Step of the checkpoint the attempt had started from. */
  parent_step: number
  /** Events posted before the point. */
  event_count: number
  sha256: string
  size_bytes: number
  created_at_ms: Generated<number>
}

export interface EventsTable {
  id: string
  job_id: string
  /** 0, 1, 2 … inside the job; unique, so an event is stored once however often it is sent. */
  position: number
  type: string
  /** JSON object. */
  data: string
  created_at_ms: Generated<number>
}

export interface TrajectoryLogsTable {
  id: string
  model_id: string
  split: string
  step: number
  body_sha256: string
  group_count: number
  trajectory_count: number
  /** JSON object of numbers. */
  metrics: string
  created_at_ms: Generated<number>
}

/** Metrics of all logs of a split at a step, pooled, so that the next log adds to them without reading the others. */
export interface SplitMetricsTable {
  model_id: string
  step: number
  split: string
  /** JSON object: full name → [value, weight]; the weight of a count is null. */
  totals: string
}

export interface FilesTable {
  id: string
  entity: string
  filename: string
  purpose: string
  /** Project of the key that uploaded it, when that key is bound to one. */
  project: string | null
  /** `entity/project/name:version` the file answers to, or null. */
  artifact: string | null
  sha256: string
  size_bytes: number
  /** What is wrong with its rows, as a sentence; null for nothing, and where nobody looked. */
  problem: string | null
  created_at_ms: Generated<number>
}

/** Remembers which object an `Idempotency-Key` made. */
export interface IdempotencyKeysTable {
  entity: string
  /** Which create: `models`, `training-jobs`, `files`. */
  scope: string
  key: string
  request_digest: string
  object_id: string
  created_at_ms: Generated<number>
}

/** What a project's use of a model comes to on a day (UTC). */
/** What each key asked for. A key that was revoked keeps its rows. */
export interface UsageKeyDaysTable {
  entity: string
  day: string
  key_id: string
  requests: Generated<number>
  prompt_tokens: Generated<number>
  cached_tokens: Generated<number>
  completion_tokens: Generated<number>
}

export interface UsageDaysTable {
  entity: string
  /** `2026-11-22`. */
  day: string
  project: string
  /** A base model's name, or `entity/project/name`. */
  model: string
  requests: Generated<number>
  prompt_tokens: Generated<number>
  /** Of the prompt tokens, those computed before. */
  cached_tokens: Generated<number>
  completion_tokens: Generated<number>
  training_ms: Generated<number>
}

/** One row per process that opened this database: written and read back by the system check. */
export interface HealthProbesTable {
  id: string
  value: string
}

/** One row: the database that a data directory's mark names (`upkeep/ownership.ts`). */
export interface DatabaseIdentityTable {
  id: string
  /** Grows at every start and while a server works; the directory remembers the last one. */
  mark: number
  /** Name of the bucket and prefix that blobs are kept in; null: the data directory (`upkeep/blob-place.ts`). */
  blob_store: string | null
}

/** When servers worked with this database: what was written meanwhile was written for it. */
export interface ServerRunsTable {
  id: Generated<number>
  started_at_ms: number
  /** The last moment that this database knows of. */
  seen_at_ms: number
}

/**
 * Blobs this database had and names no more; triggers of every column that names one keep it, and the sweeper (`upkeep/unnamed-
 * blobs.ts`).
 */
export interface UnnamedBlobsTable {
  sha256: string
  /** When a row let it go, or a sweep found it; a file written later is not meant. */
  known_at_ms: number
  /** When a sweep first saw it unnamed. */
  seen_at_ms: number | null
  /** 1: served one job alone. */
  is_transient: number
}

/** What is had once by whoever knows a secret. */
export interface OneTimeSecretsTable {
  secret_hash: string
  kind: string
  key_id: string
  scope: string
  session_id: string | null
  usage_project: string | null
  address: string | null
  expires_at_ms: number
}

/** A server that works with this database beside others, as long as its lease runs. */
export interface ServersTable {
  id: string
  /** Where others find it; null: not known. */
  url: string | null
  version: string
  started_at_ms: number
  lease_expires_at_ms: number
}

export interface Schema extends TrainingSessionTables {
  api_keys: ApiKeysTable
  sessions: SessionsTable
  one_time_secrets: OneTimeSecretsTable
  models: ModelsTable
  keep_rules: KeepRulesTable
  model_notes: ModelNotesTable
  model_counts: ModelCountsTable
  checkpoints: CheckpointsTable
  checkpoint_files: CheckpointFilesTable
  model_metrics: ModelMetricsTable
  training_jobs: TrainingJobsTable
  job_files: JobFilesTable
  kept_training_data: KeptTrainingDataTable
  resume_points: ResumePointsTable
  events: EventsTable
  trajectory_logs: TrajectoryLogsTable
  split_metrics: SplitMetricsTable
  files: FilesTable
  idempotency_keys: IdempotencyKeysTable
  usage_days: UsageDaysTable
  usage_key_days: UsageKeyDaysTable
  health_probes: HealthProbesTable
  database_identity: DatabaseIdentityTable
  server_runs: ServerRunsTable
  servers: ServersTable
  unnamed_blobs: UnnamedBlobsTable
}
