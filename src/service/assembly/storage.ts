/**
 * What a server keeps: the database and the blobs of a locked data directory, brought to a state to go on from, and what
 * writes to them in the background.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import { systemClock } from '#base/util/clock.js'
import { createIdSource, type IdSource, timeOfId } from '#base/util/ids.js'
import { maxOf } from '#base/util/lists.js'
import { type BodyLimits, DEFAULT_BODY_LIMITS } from '../bodies/bodies.js'
import { type BodyStore, createBodyStore } from '../bodies/body-store.js'
import { createUsageService, type UsageService } from '../operations/access/usage.js'
import { createBlobSweeper } from '../operations/blob-sweeper.js'
import { assertKeepRule, dropByRule } from '../operations/models/kept-checkpoints.js'
import { dropOldTrainingData } from '../operations/training/retention.js'
import { createClockWatch } from '../queue/clock-watch.js'
import { alone, type JoinedPeers, type JoinPeers, type PeerGroup, type Peers } from '../queue/peers.js'
import { recoverInterrupted } from '../queue/recovery.js'
import { readAddress } from '../storage/addresses.js'
import { createLocalBlobs } from '../storage/blobs/local-blobs.js'
import type { BlobGuard, RemoteBlobs } from '../storage/blobs/remote-blobs.js'
import type { BlobStore } from '../storage/blobs.js'
import type { DataDir } from '../storage/data-dir.js'
import { type DatabaseHandle, type OpenDatabase, readDatabaseNowMs } from '../storage/database.js'
import { rehearseTransactions } from '../storage/in-transaction.js'
import { countModels } from '../storage/models.js'
import type { RemoteDatabase, RemoteDatabaseOptions, SharedDatabase } from '../storage/remote-database.js'
import { listRemovedPlugins } from '../storage/removed-plugins.js'
import { giveSessionsBack } from '../storage/training-sessions/training-sessions.js'
import { assertBlobsAreIn, assertOwnBlobs, claimPlace } from '../storage/upkeep/blob-place.js'
import { listNewestIds, shortenWaits } from '../storage/upkeep/clock-shift.js'
import { openOwnDatabase, openOwnRemote } from '../storage/upkeep/open-own-database.js'
import { type Adoption, claimDirectory } from '../storage/upkeep/ownership.js'
import { type Start, startEnvironment } from './start.js'

/**
 * The store of blobs that the settings name, opened and tried.
 */
interface OpenedBlobs {
  readonly blobs: BlobStore
  /** The same, where it is not the data directory. */
  readonly remote: RemoteBlobs | null
}

/** @throws {AppError} `invalid_setting`, `blob_store_keys_missing`, `blob_store_unavailable`, `blob_store_refused` */
async function openBlobStore(start: Start, dataDir: DataDir, guard?: BlobGuard): Promise<OpenedBlobs> {
  const { settings, logger, options, plugins } = start
  if (settings.blobStore === null) return { blobs: await createLocalBlobs(dataDir.blobsPath), remote: null }
  const address = await readAddress('blob-store', settings.blobStore, plugins.blobStores, startEnvironment(start))
  const remote = await address.open({ cachePath: dataDir.cachePath, guard, tuning: options.tuning?.blobStore })
  logger.info({ blob_store: remote.name, check: await remote.check() }, 'blob_store.opened')
  return { blobs: remote, remote }
}

/**
 * Of several servers one may write a row that names a blob which another is about to sweep: what was just stored stays for
 * so long.
 */
const LEAST_SHARED_GRACE_MS = 600_000

export interface Storage {
  readonly db: DatabaseHandle
  readonly blobs: BlobStore
  /** Ids that sort behind all that there are. */
  readonly ids: IdSource
  readonly usage: UsageService
  /** Bodies on their way in. */
  readonly bodies: BodyStore
  readonly peers: Peers
  /** Does what servers do one after the other when they start. */
  inTurn<T>(action: () => Promise<T>): Promise<T>
  /** Asks for a sweep of blobs that nothing names any more. */
  requestSweep(): void
  /** Models of all projects, as the start found them. */
  readonly modelCount: number
}

/** @throws {AppError} `database_unreadable`, `database_locked`, `disk_full` */
export async function startStorage(start: Start, dataDir: DataDir): Promise<Storage> {
  const { options, settings, logger, lifetimes, seams } = start
  assertAlone(start)
  const adoption = { ofEmpty: options.adoptsEmptyDatabase === true, ofOther: options.adoptsOtherDatabase === true }
  const joinPeers = settings.database !== null && !settings.singleServer ? start.plugins.joinPeers : null
  const { database, shared, group, earlierId } = await openRows(start, dataDir, { adoption, joinPeers })
  lifetimes.add('database', () => database.close())
  const { db } = database
  const removed = await findRemovedPlugins(start, db)
  if (seams.rehearsesTransactions === true) rehearseTransactions(db)
  const inTurn: Storage['inTurn'] = (action) => (shared === null ? action() : shared.inTurnOfStarts(action))
  const { blobs, remote } = await openBlobStore(start, dataDir, shared?.createBlobGuard())
  const peers: Peers = group ?? alone
  if (group !== null) {
    // of two that start at once one sees the other, whose version may be another
    await inTurn(() => group.start())
    lifetimes.add('peers', () => group.stop())
  }
  await assertBlobsAreIn(remote?.name ?? null, { db, blobs, dataDir: dataDir.path })
  const usage = createUsageService(db, logger)
  lifetimes.add('usage', () => usage.stop())

  // the clock may be behind what an earlier process saw: whatever is made now still sorts behind what there is
  const ids = createIdSource(systemClock)
  const newestIds = await listNewestIds(db)
  for (const id of newestIds) ids.continueAfter(id)
  // another machine's clock is its own business
  if (settings.database === null) await shortenWaits(db)
  if (!(await dataDir.makePrivate())) logger.warn({ data_dir: dataDir.path }, 'data_dir.not_private')
  const leaseMs = options.tuning?.jobs?.leaseMs ?? settings.jobLeaseMs
  const beside = peers.isShared ? { earlierId, isFirst: peers.count() === 1 } : null
  const recovered = await recoverInterrupted(db, ids, leaseMs, beside)
  if (earlierId !== null) await giveSessionsBack(db, earlierId)
  if (recovered.length > 0) logger.warn({ job_ids: recovered }, 'jobs.recovered')

  if (settings.database === null) {
    const clockWatch = createClockWatch(db, systemClock, logger)
    clockWatch.start()
    lifetimes.add('clock watch', () => clockWatch.stop())
  }
  const claim = (): Promise<void> => claimDirectory(db, dataDir.path, () => ids.uuid())
  await inTurn(async () => {
    if (remote !== null) await assertOwnBlobs(remote, db, adoption)
    await claim()
    await claimPlace(remote, db, adoption)
  })
  const graceMs = peers.isShared ? Math.max(settings.sweepGraceMs, LEAST_SHARED_GRACE_MS) : settings.sweepGraceMs
  const retention = {
    db,
    blobs,
    logger,
    keepMs: settings.keepTrainingDataMs,
    maxBytes: settings.keepTrainingDataBytes,
    directory: remote === null ? dataDir.path : null,
  }
  assertKeepRule(settings.keepCheckpoints, 'keep-checkpoints')
  const kept = { db, logger, rule: settings.keepCheckpoints, optimizers: settings.keepOptimizers }
  const dropOld = async (): Promise<void> => {
    await dropOldTrainingData(retention)
    if (removed.length === 0) await dropByRule(kept)
  }
  await inTurn(dropOld)
  const beforeSweep = async (): Promise<void> => {
    await claim()
    await inTurn(dropOld)
  }
  const sweeper = createBlobSweeper({
    ...{ db, blobs, clock: systemClock, logger, graceMs, beforeSweep, beforeEnd: claim },
    ...(peers.isShared
      ? {
          transientGraceMs: LEAST_SHARED_GRACE_MS,
          onDuty: (action) => peers.onDuty('sweep', action),
          readNowMs: () => readDatabaseNowMs(db),
        }
      : {}),
    // nobody knows which blobs they name
    ...(removed.length > 0 ? { onDuty: async () => null } : {}),
  })
  lifetimes.add('sweeper', () => sweeper.stop())
  await sweeper.start(
    maxOf(
      newestIds.map((id) => timeOfId(id) ?? 0),
      0,
    ),
  )

  const bodies = createBodyStore({
    limits: bodyLimits(start),
    bodyOf: start.plugins.bodyOf,
    thread: start.plugins.bodyThread,
    pluginFiles: start.plugins.files,
    temporaryPath: blobs.temporaryPath,
  })
  lifetimes.add('bodies', () => bodies.close())
  const requestSweep = (): void => sweeper.request()
  return { db, blobs, ids, usage, bodies, peers, inTurn, requestSweep, modelCount: await countModels(db) }
}

/**
 * A file of the data directory, or the database that the settings name, once it is clear that it belongs to what lies beside
 * it.
 */
async function openRows(
  start: Start,
  dataDir: DataDir,
  { adoption, joinPeers }: { readonly adoption: Adoption; readonly joinPeers: JoinPeers | null },
): Promise<OpenedRows> {
  const { settings, seams, logger, fail, options, plugins } = start
  const { parts, databases } = plugins
  if (settings.database === null) {
    const maxPages = seams.maxDatabasePages
    const file = await openOwnDatabase(dataDir, { adoption, parts, ...(maxPages === undefined ? {} : { maxPages }) })
    return { database: file, shared: null, group: null, earlierId: null }
  }
  const address = await readAddress('database', settings.database, databases, startEnvironment(start))
  const openDatabase = (more: Partial<RemoteDatabaseOptions>): Promise<RemoteDatabase> =>
    openOwnRemote(address, dataDir, {
      adoption,
      parts,
      maxConnections: settings.databaseConnections,
      onTrouble: (error) => logger.warn({ err: error }, 'database.connection_lost'),
      onTakenOver: fail,
      ...more,
    })
  if (joinPeers === null) {
    const database = await openDatabase({})
    logger.info({ database: address.name }, 'database.opened')
    return { database, shared: null, group: null, earlierId: null }
  }
  const joined = await joinPeers({
    // some are held while one of several servers does what one at a time does, one as long as it places workers
    openDatabase: (sharing) => openDatabase({ sharing, maxConnections: Math.max(settings.databaseConnections, 7) }),
    directory: dataDir.path,
    ...{ url: settings.publicUrl, logger, leaseMs: options.tuning?.serverLeaseMs },
  })
  logger.info({ database: address.name, server_id: joined.group.id }, 'database.opened')
  return { ...joined, shared: joined.database.shared }
}

interface OpenedRows {
  readonly database: OpenDatabase
  /** The same, where other servers may work with it; null: none may. */
  readonly shared: SharedDatabase | null
  readonly group: PeerGroup | null
  /** As in {@link JoinedPeers}. */
  readonly earlierId: JoinedPeers['earlierId']
}

/** A second server would see rows whose blobs lie on this machine. @throws {InvalidRequestError} `invalid_setting` */
function assertAlone({ settings: { database, blobStore, singleServer }, plugins }: Start): void {
  if (database === null || blobStore !== null || singleServer || plugins.joinPeers === null) return
  throw new InvalidRequestError(
    'invalid_setting',
    'database names PostgreSQL, and blobs would lie in the data directory, where no other server can read them',
    {
      param: 'database',
      hint: 'name a bucket with --blob-store s3://…, or start with --single-server',
    },
  )
}

async function findRemovedPlugins({ logger, plugins }: Start, db: DatabaseHandle): Promise<readonly string[]> {
  const removed = await listRemovedPlugins(db, plugins.parts)
  const kept = 'their rows stay, and blobs that they may name: nothing is swept, and no checkpoint deleted by a rule'
  if (removed.length > 0) logger.warn({ plugins: removed, kept }, 'plugin.removed')
  return removed
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
