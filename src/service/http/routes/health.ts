/**
 * `/v1/health`, `/v1/system-check` and `/v1/whoami`.
 */
import type { App, AppOptions } from '../environment.js'

export function bindHealth(app: App, options: AppOptions): void {
  app.get('/v1/health', (c) => c.json({ status: 'ok', version: options.version }))
  app.get('/v1/system-check', async (c) => {
    const { isHealthy, body } = await options.services.systemCheck.run()
    return c.json(body, isHealthy ? 200 : 503)
  })
  app.get('/v1/whoami', (c) => {
    const principal = c.get('principal')
    return c.json({
      entity: principal.entity,
      project: principal.project,
      scope: principal.scope,
      key_id: principal.keyId,
      key_prefix: principal.keyPrefix,
      version: options.version,
    })
  })
}
