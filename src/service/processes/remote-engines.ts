/**
 * Engines of other machines as the core sees them: which there are, and who hears of requests. A plugin knows them; without one
 * there are none.
 */
import type { EngineNodeReport } from '#contract/processes/engine-node.js'
import type { GenerateRequest } from './engine-calls.js'

/** What an engine of another machine said of itself last. */
export type RemoteEngine = Pick<
  EngineNodeReport,
  'name' | 'engine' | 'base_model' | 'is_leaving' | 'running' | 'waiting'
>

/** Who knows them. */
export interface RemoteEngines {
  list(): readonly RemoteEngine[]
  /** A request goes to an engine: its adapter may be fetched by others from now on. */
  offer(request: Pick<GenerateRequest, 'adapter' | 'owner'>): void
  /** Whether one may be of somebody else than the operator. */
  takesTenants(): boolean
}

/** The place of who knows them. */
export interface RemoteEnginesSeat extends RemoteEngines {
  /** From now on these are told and asked. */
  use(engines: RemoteEngines): void
}

export function createRemoteEngines(): RemoteEnginesSeat {
  let known: RemoteEngines | null = null
  return {
    list: () => known?.list() ?? [],
    offer: (request) => known?.offer(request),
    takesTenants: () => known?.takesTenants() === true,
    use: (engines) => {
      known = engines
    },
  }
}
