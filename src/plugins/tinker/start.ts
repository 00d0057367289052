/**
 * What holds samples ends with the service; it is made with the handlers, when somebody asks for something.
 */
import type { PluginStart } from '#service/plugin.js'
import type { createSamples, Samples } from './samples.js'

export interface Sampling {
  /** Whether other servers share the database. */
  readonly isShared: boolean
  /** Makes it, once for the service. */
  samples(create: typeof createSamples): Samples
}

export async function startSampling(core: PluginStart): Promise<Sampling> {
  const { context, lifetimes, serviceSettings: settings, isAlone, tuning } = core
  const limits = { mostWaiting: settings.maxWaitingSamples, mostBytes: settings.maxSampleBytes }
  let samples: Samples | null = null
  lifetimes.add('samples', () => samples?.stop())
  return {
    isShared: !isAlone,
    samples: (create) => {
      samples ??= create(context.clock, limits, tuning)
      return samples
    },
  }
}
