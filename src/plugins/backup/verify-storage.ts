/**
 * Looks through all blobs and changes nothing: which are missing, damaged (the digest of every one is computed again) or named by no row,
 * and whether the database belongs to the data beside it. For a data directory, also one that no server may start on, and for a
 * running service.
 */
import { stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { AppError, ConflictError, NotFoundError } from '#base/errors/errors.js'
import { type Clock, systemClock } from '#base/util/clock.js'
import type { StorageReport, VerifyProgress } from '#contract/wire/health.js'
import type { Principal } from '#service/operations/access/principal.js'
import type { ServiceContext } from '#service/operations/context.js'
import { digestOfFile, factsOf, listBlobs } from '#service/storage/blobs/local-blobs.js'
import type { BlobStore } from '#service/storage/blobs.js'
import type { Database } from '#service/storage/database.js'
import type { SchemaPart } from '#service/storage/schema-part.js'
import { readBlobPlace } from '#service/storage/upkeep/blob-place.js'
import { mapNamers } from '#service/storage/upkeep/blob-references.js'
import { describe, type Fit, fitOfDatabase, fitOfFile } from '#service/storage/upkeep/ownership.js'
import { knowledgeOf, readKnowledge } from '#service/storage/upkeep/unnamed-blobs.js'
import { openForReading } from './storage/read-database.js'

/** What has been looked at so far, about once a second, and the report at last. */
export type VerifyEvent = VerifyProgress | StorageReport

/** How often progress is told. */
const PROGRESS_MS = 1000

/**
 * Verifies a data directory; a server may work in it meanwhile.
 *
 * @param options.parts what plugins add to the database
 * @throws {NotFoundError} `data_dir_not_found`; {StorageError} `database_unreadable` for a database that is corrupt, `database_newer`
 */
export async function* verifyDataDir(
  path: string,
  { parts, signal }: { readonly parts: readonly SchemaPart[]; readonly signal?: AbortSignal },
): AsyncGenerator<VerifyEvent> {
  const root = resolve(path)
  const databasePath = join(root, 'trainyard.sqlite3')
  const paths = { path: root, databasePath, blobsPath: join(root, 'blobs'), apiKeyPath: join(root, 'api-key') }
  const [hasBlobs, hasDatabase] = await Promise.all([isThere(join(paths.blobsPath, 'sha256')), isThere(databasePath)])
  if (!hasBlobs && !hasDatabase) {
    throw new NotFoundError('data_dir_not_found', `"${root}" is not the data directory of a service`, {
      hint: 'name it with --data-dir, and run this as a user who may read it',
    })
  }
  const fit = await fitOfFile(paths)
  const database = fit === 'ours' ? await openForReading(databasePath, parts) : null
  try {
    const place = database === null ? null : await readBlobPlace(database.db)
    if (place !== null) {
      throw new ConflictError('blobs_elsewhere', `the blobs of "${root}" are kept in ${place}`, {
        hint: 'start the service and run trainyard verify with an admin key: it reads the bucket',
      })
    }
    const found = database === null ? fit : await fitOfDatabase(database.db, paths)
    const state = { fit: found, message: `database "${databasePath}" ${await describe(found, paths)}` }
    yield* verify({
      db: database?.db ?? null,
      blobs: blobsOfFolder(paths.blobsPath),
      state,
      clock: systemClock,
      signal,
    })
  } finally {
    await database?.close()
  }
}

interface VerifyService {
  /** @throws {ConflictError} `verify_running` while another one reads; {AppError} `forbidden` for a key of one project */
  run(principal: Principal, signal: AbortSignal): Promise<AsyncGenerator<VerifyEvent>>
}

/** Verifies what a running service has: one at a time, for every byte is read. */
export function createVerifyService({
  db,
  blobs,
  clock,
}: Pick<ServiceContext, 'db' | 'blobs' | 'clock'>): VerifyService {
  let isRunning = false

  async function* run(signal: AbortSignal, release: () => void): AsyncGenerator<VerifyEvent> {
    try {
      // a server that runs has looked at its start
      const state = { fit: 'ours', message: 'the database fits the data beside it' } as const
      yield* verify({ db, blobs, state, clock, signal })
    } finally {
      release()
    }
  }

  return {
    run: async (principal, signal) => {
      if (principal.project !== null) {
        throw new AppError('permission', 'forbidden', 'blobs are of all projects, and this API key sees one', {
          hint: 'use a key without a project, or trainyard verify --data-dir on the machine of the server',
        })
      }
      if (isRunning) {
        throw new ConflictError('verify_running', 'the blobs are being verified for another request', {
          hint: 'try again when it is done',
        })
      }
      isRunning = true
      const release = once(() => {
        isRunning = false
      })
      // a reader that leaves before the first event never begins the run
      signal.addEventListener('abort', release, { once: true })
      return run(signal, release)
    },
  }
}

/** The run that ends late must not free the place of the next one. */
function once(action: () => void): () => void {
  let isDone = false
  return () => {
    if (isDone) return
    isDone = true
    action()
  }
}

interface VerifyOptions {
  /** Null: there is none to read, so nothing is named. */
  readonly db: Database | null
  readonly blobs: VerifiedBlobs
  readonly state: { readonly fit: Fit; readonly message: string }
  readonly clock: Clock
  readonly signal: AbortSignal | undefined
}

async function* verify({ db, blobs, state, clock, signal }: VerifyOptions): AsyncGenerator<VerifyEvent> {
  const namers = db === null ? new Map<string, readonly string[]>() : await mapNamers(db)
  const knowledge = db === null ? { noted: new Map(), runs: [] } : await readKnowledge(db)
  const found = new Set<string>()
  const damaged: StorageReport['damaged'] = []
  const unnamed: StorageReport['orphans'] = []
  let bytes = 0
  let toldMs = clock.monotonicMs()
  for await (const sha256 of blobs.list()) {
    signal?.throwIfAborted()
    const facts = await blobs.factsOf(sha256)
    const read = facts === null ? null : await digestOf(blobs, sha256)
    // swept meanwhile
    if (facts === null || read === null) continue
    const { actual, problem } = read
    found.add(sha256)
    bytes += facts.sizeBytes
    const named_by = [...(namers.get(sha256) ?? [])]
    if (actual !== sha256) {
      damaged.push({ sha256, size_bytes: facts.sizeBytes, actual_sha256: actual, problem, named_by })
    }
    if (named_by.length === 0) {
      const { modifiedAtMs } = facts
      const known = knowledgeOf(sha256, modifiedAtMs, {
        noted: knowledge.noted.get(sha256),
        runs: knowledge.runs,
        nowMs: clock.nowMs(),
      })
      const modified_at = Math.floor(modifiedAtMs / 1000)
      unnamed.push({ sha256, size_bytes: facts.sizeBytes, modified_at, is_kept: known === null })
    }
    if (clock.monotonicMs() - toldMs < PROGRESS_MS) continue
    toldMs = clock.monotonicMs()
    yield { object: 'storage_progress', blobs: found.size, bytes }
  }
  // what was named or let go while the bytes were read is neither missing nor an orphan
  const later = db === null ? namers : await mapNamers(db)
  const missing = [...namers.keys()]
    .filter((sha256) => !found.has(sha256) && later.has(sha256))
    .sort()
    .map((sha256) => ({ sha256, named_by: [...(later.get(sha256) ?? [])] }))
  const orphans = unnamed.filter(({ sha256 }) => !later.has(sha256))
  const isFit = state.fit === 'ours' || state.fit === 'new'
  yield {
    object: 'storage_report',
    ok: isFit && missing.length === 0 && damaged.length === 0,
    database: { state: state.fit, message: state.message },
    blobs: found.size,
    bytes,
    missing,
    damaged,
    orphans,
  }
}

type VerifiedBlobs = Pick<BlobStore, 'list' | 'factsOf' | 'digestOf'>

/** The blobs of a folder that no store is opened on. */
function blobsOfFolder(root: string): VerifiedBlobs {
  const pathOf = (sha256: string) => join(root, 'sha256', sha256.slice(0, 2), sha256.slice(2))
  async function* list(): AsyncGenerator<string> {
    if (await isThere(join(root, 'sha256'))) yield* listBlobs(root)
  }
  return {
    list,
    factsOf: (sha256) => factsOf(pathOf(sha256)),
    digestOf: (sha256) => digestOfFile(pathOf(sha256)),
  }
}

/** Without a digest, what is said of bytes that cannot be read; null: they are gone. */
async function digestOf(
  blobs: VerifiedBlobs,
  sha256: string,
): Promise<{ readonly actual: string | null; readonly problem: string | null } | null> {
  try {
    const actual = await blobs.digestOf(sha256)
    return actual === null ? null : { actual, problem: null }
  } catch (error) {
    // a store that gives no answer says nothing about its bytes
    if (error instanceof AppError) throw error
    return { actual: null, problem: error instanceof Error && 'code' in error ? String(error.code) : String(error) }
  }
}

async function isThere(path: string): Promise<boolean> {
  return (await stat(path).catch(() => null)) !== null
}
