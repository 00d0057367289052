/**
 * `trainyard/plugin`: a plugin of your own, in one module: endpoints, tables, settings and commands beside those of the package.
 *
 * @example
 * export const plugin = definePlugin({ name: 'notes', endpoints: async () => ({ runs }), handlers: async (service) => … })
 */

export { sql } from 'kysely'
export { z } from 'zod'
export { AppError, ConflictError, InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
export { defineCommand } from '#cli/command/define-command.js'
export { argument, flag } from '#cli/command/flags.js'
export { small } from '#contract/endpoints/bodies.js'
export { endpoints } from '#contract/endpoints/endpoint.js'
export type {
  PluginJobOptions,
  PluginOptionRow,
  RewardShaping,
  ShownMessage,
  ShownTrajectory,
} from '#contract/jobs/plugin-options.js'
export type { PluginModule, PluginView } from '#contract/wire/plugin-page.js'
export { definePlugin } from '#service/define-plugin.js'
export type {
  Plugin,
  PluginEndpoints,
  PluginHandlers,
  PluginPageRow,
  PluginService,
  PluginStart,
} from '#service/plugin.js'
export type { SchemaPart, TableFacts } from '#service/storage/schema-part.js'
