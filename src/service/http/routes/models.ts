/**
 * `/v1/preview/models`.
 */
import { listModelsQuerySchema } from '#contract/wire/models.js'
import { readJson, readQuery } from '../body.js'
import type { App, AppOptions } from '../environment.js'
import { idempotencyKey } from '../headers.js'

export function bindModels(app: App, options: AppOptions): void {
  const { models } = options.services
  app.get('/v1/preview/models', async (c) =>
    c.json(await models.list(c.get('principal'), readQuery(c, listModelsQuerySchema))),
  )
  app.post('/v1/preview/models', async (c) => {
    const request = await readJson(c, 'createModel')
    return c.json(await models.create(c.get('principal'), request, idempotencyKey(c)))
  })
  app.get('/v1/preview/models/:model_id', async (c) =>
    c.json(await models.get(c.get('principal'), c.req.param('model_id'))),
  )
  app.delete('/v1/preview/models/:model_id', async (c) =>
    c.json(await models.delete(c.get('principal'), c.req.param('model_id'))),
  )
}
