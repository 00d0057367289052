/**
 * Logging trajectory groups under a split: stores them, and their metrics at the step of the model's latest checkpoint.
 *
 * Logs of a split at one step are pooled: their metrics are those of one log with all the trajectories.
 * Where they say what they measure, the newest of the same replaces those before it, and another is refused. What the step's
 * own job recorded is never overwritten. Before the first checkpoint the step is 0, the base model.
 */

import type { Readable } from 'node:stream'
import { ConflictError, NotFoundError } from '#base/errors/errors.js'
import { DEFAULT_PAGE_LIMIT, type List, toList } from '#contract/wire/list.js'
import type { ListTrajectoryLogsQuery, LogTrajectoriesResponse, TrajectoryLog } from '#contract/wire/trajectories.js'
import { decodeTotals, encodeTotals, measurementOf, poolTotals, toMetrics } from '#formats/rows/split-metrics.js'
import type { ReceivedGroups } from '#service/bodies/body-store.js'
import { RETRY_WINDOW_MS } from '#service/queue/queue.js'
import { findCheckpoint } from '#service/storage/checkpoints.js'
import { findIdempotent, rememberIdempotent } from '#service/storage/idempotency.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import { putMetrics } from '#service/storage/model-metrics.js'
import {
  findRepeatedLog,
  findSplitTotals,
  findTrajectoryLog,
  insertTrajectoryLog,
  listTrajectoryLogs,
  putSplitTotals,
} from '#service/storage/trajectories.js'
import { digestOf } from './access/request-digest.js'
import { ownerOf } from './access/tenant.js'
import type { Principal, ServiceContext } from './context.js'
import { requireModel } from './models/models.js'
import { toWireLog } from './to-wire.js'
import type { CreateHeaders } from './training/training-jobs.js'
import { checkPolicyVersions, withGroups } from './training/trajectory-groups.js'

export interface TrajectoryLogService {
  /** @throws {NotFoundError} `model_not_found` */
  checkModel(principal: Principal, modelId: string): Promise<void>
  /** Takes the groups over, also when it fails. */
  log(
    principal: Principal,
    modelId: string,
    groups: ReceivedGroups<'POST /v1/preview/models/{model_id}/log'>,
    repeat: CreateHeaders,
  ): Promise<LogTrajectoriesResponse>
  /** What was logged, newest first. */
  list(principal: Principal, modelId: string, query: ListTrajectoryLogsQuery): Promise<List<TrajectoryLog>>
  /** The groups of one log as JSON Lines, as they were sent. @throws {NotFoundError} `trajectory_log_not_found` */
  openGroups(principal: Principal, modelId: string, logId: string): Promise<Readable>
}

function otherMeasurement(split: string, step: number): ConflictError {
  return new ConflictError(
    'other_measurement',
    `split "${split}" of step ${step} holds another measurement: other prompts, another reward or other sampling`,
    { hint: 'store it under a split of its own (--split, split)' },
  )
}

export function createTrajectoryLogService(
  context: Pick<ServiceContext, 'db' | 'blobs' | 'ids' | 'activity'>,
): TrajectoryLogService {
  const { db, ids } = context
  return {
    checkModel: async (principal, modelId) => {
      await requireModel(context, principal, modelId)
    },
    log: async (principal, modelId, groups, { idempotencyKey, isRetry }) => {
      const model = await requireModel(context, principal, modelId)
      const { request, counts } = groups
      const totals = decodeTotals(groups.totals)
      const metrics = toMetrics(totals)
      const body = await withGroups(context.blobs, groups, async (publish) => {
        checkPolicyVersions(groups, model.step)
        return publish()
      })
      const { split, measurement = null } = request
      const key =
        idempotencyKey === null ? null : { ...ownerOf(principal), scope: 'logs' as const, key: idempotencyKey }
      const digest = digestOf([model.id, split, body.sha256, ...(measurement === null ? [] : [measurement])])
      const { step, isNew } = await inTransaction(db, async (transaction) => {
        const id = key === null ? null : await findIdempotent(transaction, key, digest)
        const before =
          id !== null
            ? await findTrajectoryLog(transaction, model.id, id)
            : key === null && isRetry
              ? await findRepeatedLog(
                  transaction,
                  { modelId: model.id, split, bodySha256: body.sha256 },
                  RETRY_WINDOW_MS,
                )
              : null
        // sent again: counting it twice would shift the metrics
        if (before !== null) return { step: before.step, isNew: false }
        const checkpoint = await findCheckpoint(transaction, model.id, 'latest')
        const at = checkpoint?.step ?? 0
        const place = { modelId: model.id, step: at, split }
        const stored = await findSplitTotals(transaction, place)
        const isReplaced = measurement !== null && measurementOf(stored) === measurement
        if (measurement !== null && stored !== null && !isReplaced) throw otherMeasurement(split, at)
        const logId = ids.uuid()
        await insertTrajectoryLog(transaction, {
          id: logId,
          modelId: model.id,
          split: request.split,
          step: at,
          bodySha256: body.sha256,
          groupCount: counts.groupsSubmitted,
          trajectoryCount: counts.trajectories,
          metrics,
        })
        if (key !== null) await rememberIdempotent(transaction, key, digest, logId)
        const pooled = isReplaced ? totals : poolTotals(decodeTotals(stored), totals)
        await putSplitTotals(
          transaction,
          place,
          encodeTotals(pooled, stored === null || isReplaced ? measurement : null),
        )
        await putMetrics(transaction, { modelId: model.id, step: at, source: 'log' }, toMetrics(pooled))
        return { step: at, isNew: true }
      })
      if (isNew) {
        const data = { split, step, trajectories: counts.trajectories }
        context.activity.publish({ type: 'log.created', owner: model, modelId: model.id, data })
      }
      return {
        model_id: model.id,
        split: request.split,
        step,
        groups: counts.groupsSubmitted,
        trajectories: counts.trajectories,
        metrics,
      }
    },
    list: async (principal, modelId, query) => {
      const model = await requireModel(context, principal, modelId)
      const limit = query.limit ?? DEFAULT_PAGE_LIMIT
      const page = await listTrajectoryLogs(db, model.id, { ...query, limit })
      return toList(page.items.map(toWireLog), page.hasMore)
    },
    openGroups: async (principal, modelId, logId) => {
      const model = await requireModel(context, principal, modelId)
      const log = await findTrajectoryLog(db, model.id, logId)
      if (log === null) {
        throw new NotFoundError('trajectory_log_not_found', `trajectory log "${logId.slice(0, 100)}" was not found`)
      }
      return context.blobs.openRead(log.bodySha256)
    },
  }
}
