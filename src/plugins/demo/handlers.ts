/**
 * Runs the demo for whoever may write.
 */
import type { PluginHandlers, PluginService } from '#service/plugin.js'
import type { demoEndpoints } from './endpoints.js'
import { createDemoRunner } from './runner.js'
import type { DemoPlace } from './start.js'

export function demoHandlers({
  context,
  app,
  started,
}: PluginService<DemoPlace>): PluginHandlers<typeof demoEndpoints> {
  const { baseModels, logger } = context
  const runner = createDemoRunner({ ...started, ...{ baseModels, logger, sessions: app.services.sessions } })
  started.endBy(() => runner.close())
  return {
    'POST /v1/preview/demo': async ({ principal, body }) => await runner.start(principal, await body()),
    'GET /v1/preview/demo': ({ principal }) => runner.get(principal),
    'DELETE /v1/preview/demo': async ({ principal }) => await runner.stop(principal),
  }
}
