/**
 * Logging trajectory groups, and reading back what was logged.
 */
import type { AppOptions } from '../environment.js'
import { sendFile } from '../file-answer.js'
import { handlers } from '../handlers.js'
import { createHeaders } from '../headers.js'

export function logHandlers({ services: { trajectoryLog, logComparison } }: AppOptions) {
  return handlers({
    'POST /v1/preview/models/{model_id}/log': async ({ principal, params, body, c }) => {
      // before its body is taken: nobody uploads a gigabyte to a model that is not there
      await trajectoryLog.checkModel(principal, params.model_id)
      return trajectoryLog.log(principal, params.model_id, await body(), createHeaders(c))
    },
    'GET /v1/preview/models/{model_id}/log': ({ principal, params, query }) =>
      trajectoryLog.list(principal, params.model_id, query()),
    'GET /v1/preview/models/{model_id}/log/compare': ({ principal, params, query, c }) =>
      logComparison.compare(principal, params.model_id, query(), c.req.raw.signal),
    'GET /v1/preview/models/{model_id}/log/{log_id}/groups': async ({ principal, params, c }) => {
      const stream = await trajectoryLog.openGroups(principal, params.model_id, params.log_id)
      return sendFile(c, stream, { 'content-type': 'application/jsonl' })
    },
  })
}
