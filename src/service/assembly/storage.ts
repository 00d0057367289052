/**
 * What a server keeps: the database and the blobs of a locked data directory, brought to a state to go on from, and what writes to
 * them in the background.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import { systemClock } from '#base/util/clock.js'
import { createIdSource, type IdSource, timeOfId } from '#base/util/ids.js'
import { type BodyLimits, DEFAULT_BODY_LIMITS } from '../bodies/bodies.js'
import { type BodyStore, createBodyStore } from '../bodies/body-store.js'
import { createUsageService, type UsageService } from '../operations/access/usage.js'
import { createBlobSweeper } from '../operations/blob-sweeper.js'
import { dropOldTrainingData } from '../operations/training/rollouts/retention.js'
import { DEFAULT_OUTBOX_TIMING, type OutboxTiming } from '../operations/webhooks/outbox.js'
import type { ResolvedSettings } from '../options.js'
import { createClockWatch } from '../queue/clock-watch.js'
import { recoverInterrupted } from '../queue/recovery.js'
import type { BlobStore } from '../storage/blobs.js'
import type { DataDir } from '../storage/data-dir.js'
import type { DatabaseHandle, OpenDatabase } from '../storage/database.js'
import { rehearseTransactions } from '../storage/in-transaction.js'
import { countModels } from '../storage/models.js'
import { parsePostgresAddress } from '../storage/postgres/address.js'
import { assertBlobsAreIn, assertOwnBucket, claimPlace } from '../storage/upkeep/blob-place.js'
import { listNewestIds, shortenWaits } from '../storage/upkeep/clock-shift.js'
import { openOwnDatabase, openOwnPostgres } from '../storage/upkeep/open-own-database.js'
import { type Adoption, claimDirectory } from '../storage/upkeep/ownership.js'
import { openBlobStore } from './blob-store.js'
import type { Start } from './start.js'

export interface Storage {
  readonly db: DatabaseHandle
  readonly blobs: BlobStore
  /** Ids that sort behind all that there are. */
  readonly ids: IdSource
  readonly usage: UsageService
  /** Bodies on their way in. */
  readonly bodies: BodyStore
  /** Asks for a sweep of blobs that nothing names any more. */
  requestSweep(): void
  /** Models of all projects, as the start found them. */
  readonly modelCount: number
}

/** @throws {AppError} `database_unreadable`, `database_locked`, `disk_full` */
export async function startStorage(start: Start, dataDir: DataDir): Promise<Storage> {
  const { options, settings, logger, lifetimes, seams } = start
  assertAlone(settings)
  const adoption = { ofEmpty: options.adoptsEmptyDatabase === true, ofOther: options.adoptsOtherDatabase === true }
  const database = await openRows(start, dataDir, adoption)
  lifetimes.add('database', () => database.close())
  const { db } = database
  if (seams.rehearsesTransactions === true) rehearseTransactions(db)
  const { blobs, bucket } = await openBlobStore(start, dataDir)
  if (bucket !== null) await assertOwnBucket(bucket, db, adoption)
  await assertBlobsAreIn(bucket?.name ?? null, { db, blobs, dataDir: dataDir.path })
  const usage = createUsageService(db, logger)
  lifetimes.add('usage', () => usage.stop())

  // the clock may be behind what an earlier process saw: whatever is made now still sorts behind what there is
  const ids = createIdSource(systemClock)
  const newestIds = await listNewestIds(db)
  for (const id of newestIds) ids.continueAfter(id)
  // another machine's clock is its own business
  if (settings.database === null) await shortenWaits(db, 2 * Math.max(0, ...webhookTiming(start).retryMs))
  if (!(await dataDir.makePrivate())) logger.warn({ data_dir: dataDir.path }, 'data_dir.not_private')
  const recovered = await recoverInterrupted(db, ids, options.tuning?.jobs?.leaseMs ?? settings.jobLeaseMs)
  if (recovered.length > 0) logger.warn({ job_ids: recovered }, 'jobs.recovered')

  if (settings.database === null) {
    const clockWatch = createClockWatch(db, systemClock, logger)
    clockWatch.start()
    lifetimes.add('clock watch', () => clockWatch.stop())
  }
  const claim = (): Promise<void> => claimDirectory(db, dataDir.path, () => ids.uuid())
  await claim()
  await claimPlace(bucket, db, adoption)
  const graceMs = settings.sweepGraceMs
  const retention = {
    db,
    blobs,
    logger,
    keepMs: settings.keepTrainingDataMs,
    maxBytes: settings.keepTrainingDataBytes,
    directory: bucket === null ? dataDir.path : null,
  }
  await dropOldTrainingData(retention)
  const beforeSweep = async (): Promise<void> => {
    await claim()
    await dropOldTrainingData(retention)
  }
  const sweeper = createBlobSweeper({ db, blobs, clock: systemClock, logger, graceMs, beforeSweep, beforeEnd: claim })
  lifetimes.add('sweeper', () => sweeper.stop())
  await sweeper.start(Math.max(0, ...newestIds.map((id) => timeOfId(id) ?? 0)))

  const bodies = createBodyStore({ limits: bodyLimits(start), temporaryPath: blobs.temporaryPath })
  lifetimes.add('bodies', () => bodies.close())
  return { db, blobs, ids, usage, bodies, requestSweep: () => sweeper.request(), modelCount: await countModels(db) }
}

/** A file of the data directory, or the database that the settings name, once it is clear that it belongs to what lies beside it. */
async function openRows(
  { settings, seams, logger, fail }: Start,
  dataDir: DataDir,
  adoption: Adoption,
): Promise<OpenDatabase> {
  if (settings.database === null) {
    const maxPages = seams.maxDatabasePages
    return openOwnDatabase(dataDir, { adoption, ...(maxPages === undefined ? {} : { maxPages }) })
  }
  const database = await openOwnPostgres(settings.database, dataDir, {
    adoption,
    maxConnections: settings.databaseConnections,
    onTrouble: (error) => logger.warn({ err: error }, 'database.connection_lost'),
    onTakenOver: fail,
  })
  logger.info({ database: parsePostgresAddress(settings.database).name }, 'database.opened')
  return database
}

/** A second server would see rows whose blobs lie on this machine. @throws {InvalidRequestError} `invalid_setting` */
function assertAlone({ database, blobStore, singleServer }: ResolvedSettings): void {
  if (database === null || blobStore !== null || singleServer) return
  throw new InvalidRequestError(
    'invalid_setting',
    'database names PostgreSQL, and blobs would lie in the data directory, where no other server can read them',
    {
      param: 'database',
      hint: 'name a bucket with --blob-store s3://…, or start with --single-server',
    },
  )
}

/** Waits of webhook deliveries. */
export function webhookTiming({ options }: Pick<Start, 'options'>): OutboxTiming {
  return { ...DEFAULT_OUTBOX_TIMING, ...options.tuning?.webhooks }
}

function bodyLimits({ options, settings }: Start): BodyLimits {
  return {
    ...DEFAULT_BODY_LIMITS,
    smallBytes: settings.maxRequestBodyBytes,
    chatBytes: settings.maxChatBodyBytes,
    trajectoriesBytes: settings.maxTrajectoriesBytes,
    groupBytes: settings.maxGroupBytes,
    uploadBytes: settings.maxUploadBytes,
    unfinishedBytes: settings.maxUnfinishedBytes,
    ...options.tuning?.bodies,
  }
}
