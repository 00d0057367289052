/**
 * Tries graders on answers.
 */
import { answerIdOf } from '#service/http/generated-answer.js'
import type { PluginHandlers, PluginService } from '#service/plugin.js'
import type { graderEndpoints } from './endpoints.js'
import { createGraderService } from './graders.js'
import type { StartedGraders } from './start.js'

export function graderHandlers({
  context,
  app,
  started,
}: PluginService<StartedGraders>): PluginHandlers<typeof graderEndpoints> {
  const graders = createGraderService(context, { chat: app.services.chat, ...started })
  return {
    'POST /v1/fine_tuning/alpha/graders/run': async ({ principal, body, c }) =>
      await graders.run(await body(), {
        principal,
        requestId: answerIdOf(c, app, undefined),
        signal: c.req.raw.signal,
      }),
    'POST /v1/fine_tuning/alpha/graders/validate': async ({ principal, body, c }) =>
      await graders.validate(await body(), principal, c.req.raw.signal),
  }
}
