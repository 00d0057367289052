/**
 * `POST /v1/preview/models/{model_id}/log`.
 */
import { logTrajectoriesRequestSchema } from '#api/wire/trajectories.js'
import type { App, AppOptions } from '../environment.js'
import { readGroups } from '../trajectory-body.js'

export function bindLog(app: App, options: AppOptions): void {
  const { trainingJobs, trajectoryLog } = options.services
  app.post('/v1/preview/models/:model_id/log', async (c) =>
    readGroups(c, trainingJobs, { schema: logTrajectoriesRequestSchema, isKept: true }, async (request, groups) =>
      c.json(await trajectoryLog.log(c.get('principal'), c.req.param('model_id'), request, groups)),
    ),
  )
}
