/**
 * Tries graders on answers.
 */
import type { PluginHandlers, PluginService } from '#service/plugin.js'
import type { graderEndpoints } from './endpoints.js'
import { createGraderService } from './graders.js'

export function graderHandlers({ context }: PluginService): PluginHandlers<typeof graderEndpoints> {
  const graders = createGraderService(context)
  return {
    'POST /v1/fine_tuning/alpha/graders/run': async ({ body }) => await graders.run(await body()),
    'POST /v1/fine_tuning/alpha/graders/validate': async ({ body }) => graders.validate(await body()),
  }
}
