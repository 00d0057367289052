/**
 * The engine that computes in this process: precision chosen, weights prepared, sessions loaded.
 */
import { type DecoderConfig, parameterCount } from '#model/architectures/decoder-config.js'
import type { TextModel } from '#model/text/text-model.js'
import { engineThreadsFor, threadsBesideJob } from '#numerics/runtime/default-threads.js'
import { onDevice, type Runtime } from '#numerics/runtime/runtime.js'
import { createEngine, type Engine } from '../engine/engine.js'
import type { ThreadsChange } from '../engine/scheduling/core-sharing.js'
import type { IdleSteps } from '../engine/scheduling/kept-memory.js'
import { choosePrecision } from './choose-precision.js'
import { prepareWeights } from './prepare-weights.js'
import type { LoadCommand, LoadedEvent } from './protocol.js'

export interface LocalEngine {
  readonly engine: Engine
  /** What is told of how it serves. */
  readonly facts: Pick<
    LoadedEvent,
    'weightsDigest' | 'precision' | 'precisionReason' | 'int8Speedup' | 'threads' | 'threadsBesideJob' | 'device'
  >
}

export interface LocalEngineParts {
  readonly config: DecoderConfig
  readonly textModel: TextModel
  readonly runtime: Runtime
  readonly onThreadsChange: (change: ThreadsChange) => void
  readonly idleSteps?: IdleSteps
  /** It has given back what it can. */
  readonly onRested?: () => void
}

/** @throws {AppError} as loading has it */
export async function openLocalEngine(command: LoadCommand, parts: LocalEngineParts): Promise<LocalEngine> {
  const { config, textModel, onThreadsChange, idleSteps, onRested } = parts
  const { device } = command
  const runtime = onDevice(parts.runtime, device?.name ?? 'cpu')
  const threads = engineThreadsFor(parameterCount(config), command.threads)
  // a second session would hold the weights a second time on a device, and compute no less
  const fewThreads = device === undefined ? threadsBesideJob(parameterCount(config), command.threads) : null
  const choice = await choosePrecision({ ...command, threads }, { config, runtime })
  const { precision } = choice
  const prepared = await prepareWeights({ ...command, threads }, { precision, textModel, runtime })
  const engine = await createEngine({
    runtime,
    prepared,
    precision,
    threads,
    threadsBesideJob: fewThreads,
    onThreadsChange,
    ...(idleSteps === undefined ? {} : { idleSteps }),
    ...(onRested === undefined ? {} : { onRested }),
    maxContextLength: command.maxContextLength,
    maxConcurrentSequences: command.maxConcurrentSequences,
    speculation: command.speculation,
    ...(command.kvCacheBytes === null ? {} : { kvCacheBytes: command.kvCacheBytes }),
    eosTokenIds: textModel.eosTokenIds,
    // The server counts what is on its way here and refuses what exceeds its setting: one limit, not two.
    maxWaiting: Number.POSITIVE_INFINITY,
  })
  return {
    engine,
    facts: {
      weightsDigest: prepared.digest,
      precision,
      precisionReason: choice.reason,
      int8Speedup: choice.int8Speedup,
      threads,
      threadsBesideJob: fewThreads,
      ...(device === undefined ? {} : { device }),
    },
  }
}
