/**
 * What the sweeper knows of blobs that no row names: which of them this database had, since when they are unnamed, and when servers
 * worked with it.
 *
 * A blob may be deleted only if this database had it: a row of it let it go, or it was written while a server worked with it. A
 * database that is lost, older or another's has neither noted of what it does not name, so it deletes nothing of that.
 */
import type { Database } from '../database.js'
import { hasTable } from './catalog.js'

export interface UnnamedBlob {
  readonly sha256: string
  /** When a row let it go, or a sweep found it. */
  readonly knownAtMs: number
  /** When a sweep first saw it unnamed; null: none has. */
  readonly seenAtMs: number | null
  /** It served one job alone. */
  readonly isTransient: boolean
}

/** From the start of a server to the last moment the database knows of. */
export interface ServerRun {
  readonly startedAtMs: number
  readonly seenAtMs: number
}

/** Runs that are kept; what was written in older ones and never named stays for ever. */
const MOST_RUNS = 10_000

/**
 * Notes that a server begins. The run before lasted at least to `lastKnownMs`, the newest row's time: what a crash kept it from
 * noting.
 *
 * @returns the run's id
 */
export async function startRun(db: Database, nowMs: number, lastKnownMs: number): Promise<number> {
  const last = await db.selectFrom('server_runs').select(['id', 'seen_at_ms']).orderBy('id', 'desc').executeTakeFirst()
  if (last !== undefined && lastKnownMs > last.seen_at_ms) {
    await extendRun(db, last.id, Math.min(lastKnownMs, nowMs))
  }
  const { id } = await db
    .insertInto('server_runs')
    .values({ started_at_ms: nowMs, seen_at_ms: nowMs })
    .returning('id')
    .executeTakeFirstOrThrow()
  await db
    .deleteFrom('server_runs')
    .where('id', '<=', id - MOST_RUNS)
    .execute()
  return id
}

/** The run goes on at `nowMs`. */
export async function extendRun(db: Database, id: number, nowMs: number): Promise<void> {
  await db
    .updateTable('server_runs')
    .set({ seen_at_ms: nowMs })
    .where('id', '=', id)
    .where('seen_at_ms', '<', nowMs)
    .execute()
}

export async function listRuns(db: Database): Promise<readonly ServerRun[]> {
  const rows = await db.selectFrom('server_runs').select(['started_at_ms', 'seen_at_ms']).orderBy('id').execute()
  return rows.map((row) => ({ startedAtMs: row.started_at_ms, seenAtMs: row.seen_at_ms }))
}

export async function listUnnamedBlobs(db: Database): Promise<ReadonlyMap<string, UnnamedBlob>> {
  const rows = await db.selectFrom('unnamed_blobs').selectAll().execute()
  return new Map(
    rows.map((row) => [
      row.sha256,
      {
        sha256: row.sha256,
        knownAtMs: row.known_at_ms,
        seenAtMs: row.seen_at_ms,
        isTransient: row.is_transient === 1,
      },
    ]),
  )
}

export async function putUnnamedBlob(db: Database, blob: UnnamedBlob): Promise<void> {
  const values = {
    known_at_ms: blob.knownAtMs,
    seen_at_ms: blob.seenAtMs,
    is_transient: blob.isTransient ? 1 : 0,
  }
  await db
    .insertInto('unnamed_blobs')
    .values({ sha256: blob.sha256, ...values })
    .onConflict((conflict) => conflict.column('sha256').doUpdateSet(values))
    .execute()
}

/** It is named again, or gone. */
export async function forgetUnnamedBlob(db: Database, sha256: string): Promise<void> {
  await db.deleteFrom('unnamed_blobs').where('sha256', '=', sha256).execute()
}

/** What a database knows, also one of an earlier version, which knows nothing. */
export async function readKnowledge(
  db: Database,
): Promise<{ readonly noted: ReadonlyMap<string, UnnamedBlob>; readonly runs: readonly ServerRun[] }> {
  if (!(await hasTable(db, 'unnamed_blobs'))) return { noted: new Map(), runs: [] }
  return { noted: await listUnnamedBlobs(db), runs: await listRuns(db) }
}

/**
 * What is known of an unnamed file: as a row or the sweeper noted it, or, for one that was written while a server worked with this
 * database and never named, as from now. Null: this database never had it.
 *
 * @param modifiedAtMs when the file was written; a note of before that is about other times
 */
export function knowledgeOf(
  sha256: string,
  modifiedAtMs: number,
  {
    noted,
    runs,
    nowMs,
  }: { readonly noted: UnnamedBlob | undefined; readonly runs: readonly ServerRun[]; readonly nowMs: number },
): UnnamedBlob | null {
  if (noted !== undefined && modifiedAtMs <= noted.knownAtMs + ROUNDING_MS) return noted
  const wasWrittenHere = runs.some((run) => modifiedAtMs >= run.startedAtMs - TICK_MS && modifiedAtMs <= run.seenAtMs)
  return wasWrittenHere ? { sha256, knownAtMs: nowMs, seenAtMs: null, isTransient: false } : null
}

/** Files get the time of the system's last tick, which may lie before the run that wrote them. A data directory has one server at a time. */
const TICK_MS = 20
/** File systems round times, up to two seconds. */
const ROUNDING_MS = 2000
