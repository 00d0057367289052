/**
 * The Tinker API: sessions of clients, training runs request by request, samples, and results by long poll.
 *
 * What a run computes and how it outlives its worker is `queue/sessions/`; what the client sends and reads is
 * `contract/wire/compatible/tinker.ts` and `formats/tinker/`.
 */
import type { ServiceContext } from '../../operations/context.js'
import { createClients } from './clients.js'
import { createFutures, type FuturesOptions } from './futures.js'
import { createRuns } from './runs.js'
import { createSamples, type SampleLimits, type SampleTiming } from './samples.js'
import { createSampling, type SamplingContext } from './sampling.js'
import { createTrainingRequests, type TrainingContext } from './training.js'

export type TinkerService = ReturnType<typeof createTinkerService>

export function createTinkerService(
  context: TrainingContext &
    SamplingContext &
    Pick<ServiceContext, 'clock' | 'signals' | 'requestSweep' | 'trainWorkers'> &
    Pick<FuturesOptions, 'isShared'>,
  limits: SampleLimits,
  timing?: SampleTiming,
) {
  const samples = createSamples(context.clock, limits, timing)
  const futures = createFutures({ ...context, sampleState: samples.stateOf })
  return {
    clients: createClients(context, samples),
    training: createTrainingRequests(context),
    sampling: createSampling(context, samples),
    futures,
    runs: createRuns(context),
    stop: samples.stop,
  }
}
