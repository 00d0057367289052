/**
 * Options of an engine: what computes its steps, and its limits. Knows nothing of how the limits are kept.
 */
import type { Precision, PreparedModel } from '#model/architectures/prepare.js'
import type { Runtime } from '#numerics/runtime/runtime.js'
import type { ThreadsChange } from './scheduling/core-sharing.js'
import type { IdleSteps } from './scheduling/kept-memory.js'
import type { FixedChunk } from './scheduling/prompt-turns.js'

/** What computes. */
export interface RunnerOptions {
  readonly runtime: Runtime
  readonly prepared: PreparedModel
  readonly precision: Precision
  /** Threads of one operator; null: all cores. */
  readonly threads: number | null
  /** Threads of one operator while a job computes on the same machine; null, the default: the same. */
  readonly threadsBesideJob?: number | null
  /** Memory for adapters not in use; default 256 MB. */
  readonly adapterBytes?: number
}

/** How requests are served. */
export interface EngineOptions {
  readonly onThreadsChange?: (change: ThreadsChange) => void
  /** Ceiling for prompt + answer; null: the model's own. */
  readonly maxContextLength: number | null
  /** Choices generated at once. */
  readonly maxConcurrentSequences: number
  readonly eosTokenIds: readonly number[]
  /** Requests that may wait; default 256. */
  readonly maxWaiting?: number
  /** Memory for keys and values, of requests in progress and kept for later ones; default a quarter of the machine's beyond 320 MB. */
  readonly kvCacheBytes?: number
  /** Memory for keys and values kept for later requests; default as `kept-memory.ts` has it. 0: nothing is kept. */
  readonly prefixCacheBytes?: number
  /** When what is kept is given back while nobody asks; default `IDLE_STEPS`. */
  readonly idleSteps?: IdleSteps
  /** Nobody has asked for a while, and what the engine itself can give back soon is given back. */
  readonly onRested?: () => void
  /** Whether choices guess their next tokens where few run (`prompt-lookup.ts`); default auto. */
  readonly speculation?: 'auto' | 'off'
  /** Prompt tokens per step while choices run, and while none does; default what fits the time `step-budget.ts` grants. */
  readonly prefillChunk?: FixedChunk
}
