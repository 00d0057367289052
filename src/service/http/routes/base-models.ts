/**
 * Base models. The list of names is the hosted service's; details, adding and removing are additions of ours.
 */
import type { AppOptions } from '../environment.js'
import { handlers } from '../handlers.js'

export function baseModelHandlers({ services: { baseModels } }: AppOptions) {
  return handlers({
    'GET /v1/preview/base-models': () => [...baseModels.names()],
    'GET /v1/preview/base-models/details': ({ principal }) => baseModels.list(principal),
    'POST /v1/preview/base-models': async ({ principal, body, c }) => {
      const added = await baseModels.add(principal, await body())
      return c.json(added, added.status === 'downloading' ? 202 : 200)
    },
    'GET /v1/preview/base-models/{+name}': ({ principal, params }) => baseModels.get(principal, params.name),
    'DELETE /v1/preview/base-models/{+name}': ({ params }) => baseModels.remove(params.name),
  })
}
