/**
 * `/v1/preview/base-models`. The list of names is the hosted service's; details, adding and removing are additions of ours. Names
 * have slashes, so the path goes on to its end.
 */
import { readJson } from '../../body.js'
import type { App, AppOptions } from '../../environment.js'

export function bindBaseModels(app: App, options: AppOptions): void {
  const { baseModels } = options.services
  app.get('/v1/preview/base-models', (c) => c.json([...baseModels.names()]))
  app.get('/v1/preview/base-models/details', async (c) => c.json(await baseModels.list(c.get('principal'))))
  app.post('/v1/preview/base-models', async (c) => {
    const added = await baseModels.add(c.get('principal'), await readJson(c, 'addBaseModel'))
    return c.json(added, added.status === 'downloading' ? 202 : 200)
  })
  app.get('/v1/preview/base-models/:name{.+}', async (c) =>
    c.json(await baseModels.get(c.get('principal'), c.req.param('name'))),
  )
  app.delete('/v1/preview/base-models/:name{.+}', async (c) => c.json(await baseModels.remove(c.req.param('name'))))
}
