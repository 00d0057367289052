/**
 * The triggers of a PostgreSQL database: how many models there are of a base model, and which blobs a row lets go. The same
 * names and the same effect as SQLite's (migrations 0013, 0014 and 0027).
 */
import type { BlobColumn } from '#service/storage/migrations/0014-blob-upkeep.js'

/** Columns that name blobs; whether what they name serves one job, or one session, only. */
const BLOB_COLUMNS: readonly BlobColumn[] = [
  ['checkpoint_files', 'sha256', 0],
  ['job_files', 'sha256', 1],
  ['resume_points', 'sha256', 1],
  ['files', 'sha256', 0],
  ['trajectory_logs', 'body_sha256', 0],
  ['training_jobs', 'input_sha256', 1],
  ['training_jobs', 'validation_sha256', 1],
  ['session_files', 'sha256', 1],
  ['session_weight_files', 'sha256', 1],
]

const COUNT_MODELS = [
  `create function count_model() returns trigger language plpgsql as $$ begin
    insert into model_counts (base_model, entity, project, count) values (new.base_model, new.entity, new.project, 1)
      on conflict (base_model, entity, project) do update set count = model_counts.count + 1;
    return null;
  end $$`,
  `create function uncount_model() returns trigger language plpgsql as $$ begin
    update model_counts set count = count - 1
      where base_model = old.base_model and entity = old.entity and project = old.project;
    delete from model_counts
      where base_model = old.base_model and entity = old.entity and project = old.project and count = 0;
    return null;
  end $$`,
  'create trigger models_counted after insert on models for each row execute function count_model()',
  'create trigger models_uncounted after delete on models for each row execute function uncount_model()',
]

/** Its arguments: the column, and whether its blobs serve one job only. */
const noteBlob = (clock: string): string => `create function note_dropped_blob() returns trigger language plpgsql as $$
  declare dropped text collate "C" := to_jsonb(old) ->> tg_argv[0];
  begin
    if dropped is null or (tg_op = 'UPDATE' and dropped is not distinct from to_jsonb(new) ->> tg_argv[0]) then
      return null;
    end if;
    insert into unnamed_blobs (sha256, known_at_ms, seen_at_ms, is_transient)
      values (dropped, ${clock}, null, tg_argv[1]::bigint)
      on conflict (sha256) do update set known_at_ms = excluded.known_at_ms, seen_at_ms = null,
        is_transient = least(unnamed_blobs.is_transient, excluded.is_transient);
    return null;
  end $$`

/** Notes what a column of a row lets go. */
export function blobTriggers([table, column, isTransient]: BlobColumn): readonly string[] {
  const run = `for each row execute function note_dropped_blob('${column}', '${isTransient}')`
  return [
    `create trigger ${table}_${column}_dropped after delete on ${table} ${run}`,
    `create trigger ${table}_${column}_changed after update of ${column} on ${table} ${run}`,
  ]
}

/** @param clock the expression for the database's time, milliseconds */
export function triggers(clock: string): readonly string[] {
  const notes = BLOB_COLUMNS.flatMap(blobTriggers)
  return [...COUNT_MODELS, noteBlob(clock), ...notes]
}
