/**
 * A service with the plugins of this package: what commands, the library and tests start.
 */
import type { Service, ServiceOptions } from '#service/create-service.js'
import type { PluginOptions } from './index.js'

/**
 * Starts a service.
 *
 * @throws {AppError} as `createService` of `service/create-service.ts`
 * @example const service = await createService({ dataDir: './data', port: 0 })
 */
export async function createService(options: ServiceOptions & PluginOptions): Promise<Service> {
  // a program that only calls one elsewhere does not load it
  const { installed, loadOthers } = await import('./others.js')
  await loadOthers(options.plugins ?? [])
  return (await import('#service/create-service.js')).createService(options, installed())
}
