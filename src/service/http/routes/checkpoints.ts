/**
 * `/v1/preview/models/{model_id}/checkpoints` and the files below.
 */
import { checkpointFilesQuerySchema } from '#contract/wire/checkpoints.js'
import { orderedPageQuerySchema } from '#contract/wire/list.js'
import { readJson, readQuery } from '../body.js'
import type { App, AppOptions } from '../environment.js'
import { sendFile } from '../file-answer.js'

export function bindCheckpoints(app: App, options: AppOptions): void {
  const { checkpoints } = options.services
  const root = '/v1/preview/models/:model_id/checkpoints' as const
  app.get(root, async (c) => {
    const query = readQuery(c, orderedPageQuerySchema)
    return c.json(await checkpoints.list(c.get('principal'), c.req.param('model_id'), query))
  })
  app.delete(root, async (c) => {
    const { steps } = await readJson(c, 'deleteCheckpoints')
    return c.json(await checkpoints.delete(c.get('principal'), c.req.param('model_id'), steps))
  })
  app.get(`${root}/:step/files`, async (c) => {
    const query = readQuery(c, checkpointFilesQuerySchema)
    return c.json(await checkpoints.files(c.get('principal'), c.req.param('model_id'), c.req.param('step'), query))
  })
  app.get(`${root}/:step/files/:name`, async (c) => {
    const { model_id: modelId, step, name } = c.req.param()
    const query = readQuery(c, checkpointFilesQuerySchema)
    const file = await checkpoints.openFile(c.get('principal'), modelId, { step, name }, query)
    return sendFile(c, file.stream, {
      'content-type': 'application/octet-stream',
      'content-length': String(file.sizeBytes),
      ...(file.sha256 === null ? {} : { 'x-content-sha256': file.sha256, etag: `"${file.sha256}"` }),
    })
  })
}
