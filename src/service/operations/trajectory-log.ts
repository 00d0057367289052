/**
 * Logging trajectory groups under a split: stores them and attaches their metrics to the model's latest checkpoint.
 *
 * Several logs at one step are averaged. Before the first checkpoint the metrics are stored with the log only.
 */

import type { LogTrajectoriesRequest, LogTrajectoriesResponse } from '#api/wire/trajectories.js'
import { findCheckpoint, mergeCheckpointMetrics } from '#service/storage/checkpoints.js'
import { averageLogMetrics, insertTrajectoryLog } from '#service/storage/trajectories.js'
import { countBatch, logMetrics } from '#training/data/metrics.js'
import type { Principal, ServiceContext } from './context.js'
import { requireModel } from './models.js'
import type { GroupSink } from './training/trajectory-groups.js'

export interface TrajectoryLogService {
  /** @param groups holds the groups of the body already */
  log(
    principal: Principal,
    modelId: string,
    request: LogTrajectoriesRequest,
    groups: GroupSink,
  ): Promise<LogTrajectoriesResponse>
}

export function createTrajectoryLogService(context: ServiceContext): TrajectoryLogService {
  const { db, ids } = context
  return {
    log: async (principal, modelId, request, groups) => {
      const model = await requireModel(context, principal, modelId)
      groups.checkPolicyVersions(model.step)
      const counts = countBatch(groups.groups())
      const metrics = logMetrics(groups.groups(), request.split)
      await groups.flush()
      const body = await groups.commit()
      const step = await db.transaction().execute(async (transaction) => {
        const checkpoint = await findCheckpoint(transaction, model.id, 'latest')
        const at = checkpoint?.step ?? 0
        await insertTrajectoryLog(transaction, {
          id: ids.uuid(),
          modelId: model.id,
          split: request.split,
          step: at,
          bodySha256: body.sha256,
          groupCount: counts.groupsSubmitted,
          trajectoryCount: counts.trajectories,
          metrics,
        })
        if (checkpoint !== null) {
          const averaged = await averageLogMetrics(transaction, model.id, at)
          await mergeCheckpointMetrics(transaction, checkpoint.id, averaged)
        }
        return at
      })
      return {
        model_id: model.id,
        split: request.split,
        step,
        groups: counts.groupsSubmitted,
        trajectories: counts.trajectories,
        metrics,
      }
    },
  }
}
