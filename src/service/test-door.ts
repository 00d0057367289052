/**
 * A service for tests: some of its parts can be replaced, and it tells the process ids of its engines and workers.
 *
 * Only tests and benches import this (`test/architecture/service-parts.test.ts`); nothing here is for production.
 */
import type { ServiceSeams } from './assembly/start.js'
import { type Service, startService, type TunedServiceOptions } from './create-service.js'
import type { Installed } from './plugin.js'

export type { ServiceSeams } from './assembly/start.js'

/** Options of a service, and what is replaced in it. */
export interface TestedServiceOptions extends TunedServiceOptions {
  readonly seams?: ServiceSeams
}

export interface TestedService extends Service {
  /** Process ids of the engine hosts that run, those of tenants' nodes too, for tests of their death. */
  enginePids(): readonly number[]
  /** Process ids of training workers that wait for a job. */
  idleWorkerPids(): readonly number[]
}

/** Starts a service as `createService` does. */
export async function createTestedService(
  { seams, ...options }: TestedServiceOptions,
  installed: Installed,
): Promise<TestedService> {
  const { service, processes } = await startService(options, installed, seams)
  return {
    ...service,
    enginePids: () => processes.engines.all().flatMap((engine) => engine.pid() ?? []),
    idleWorkerPids: () => processes.workers.idlePids(),
  }
}
