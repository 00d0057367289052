/**
 * `/v1/preview/models/{model_id}/log`: logging trajectory groups, and reading back what was logged.
 */
import { listTrajectoryLogsQuerySchema } from '#contract/wire/trajectories.js'
import { readGroups, readQuery } from '../body.js'
import type { App, AppOptions } from '../environment.js'
import { sendFile } from '../file-answer.js'
import { idempotencyKey, isRetry } from '../headers.js'

export function bindLog(app: App, options: AppOptions): void {
  const { trajectoryLog } = options.services
  app.post('/v1/preview/models/:model_id/log', async (c) => {
    // before its body is taken: nobody uploads a gigabyte to a model that is not there
    await trajectoryLog.checkModel(c.get('principal'), c.req.param('model_id'))
    const groups = await readGroups(c, 'logTrajectories')
    const repeat = { idempotencyKey: idempotencyKey(c), isRetry: isRetry(c) }
    return c.json(await trajectoryLog.log(c.get('principal'), c.req.param('model_id'), groups, repeat))
  })
  app.get('/v1/preview/models/:model_id/log', async (c) => {
    const query = readQuery(c, listTrajectoryLogsQuerySchema)
    return c.json(await trajectoryLog.list(c.get('principal'), c.req.param('model_id'), query))
  })
  app.get('/v1/preview/models/:model_id/log/:log_id/groups', async (c) => {
    const { model_id: modelId, log_id: logId } = c.req.param()
    const stream = await trajectoryLog.openGroups(c.get('principal'), modelId, logId)
    return sendFile(c, stream, { 'content-type': 'application/jsonl' })
  })
}
