/**
 * The generation engine of one base model: token ids in, token events out, many requests at once.
 *
 * The loop takes one turn of the scheduler after the other (`scheduling/scheduler.ts`: who is let in, which prompts and which tokens
 * are computed next) for as long as there is something to do. The runner computes (`model-runner.ts`). Requests whose adapter is being
 * loaded hold nothing. All state changes happen between steps on one thread; the numeric runtime blocks inside a step.
 */

import { AppError } from '#base/errors/errors.js'
import { memoryBytes } from '#base/machine/memory.js'
import type { Precision, PreparedModel } from '#model/architectures/prepare.js'
import type { Runtime } from '#numerics/runtime/runtime.js'
import type { GenerationListener, GenerationRequest } from './generation.js'
import type { ModelRunner } from './model-runner.js'
import { loadOnnxRunner } from './runner/onnx-runner.js'
import { type ActiveRequest, activateRequest } from './scheduling/active-request.js'
import { assertAdmissible, queueFullError } from './scheduling/admission.js'
import { CoreSharing, type ThreadsChange } from './scheduling/core-sharing.js'
import {
  createIdleGiving,
  type IdleGiving,
  type IdleSteps,
  type KeptBytes,
  keptBytes,
} from './scheduling/kept-memory.js'
import type { FixedChunk } from './scheduling/prompt-turns.js'
import { Scheduler } from './scheduling/scheduler.js'

// The default for how much memory keys and values may take, where no setting says it.

/** What server, engine, a training job and a command beside them take of a small machine before the first key is stored. */
const BESIDE_BYTES = 320 * 2 ** 20
/** Share of what is left, and of all where next to nothing is. */
const SHARE = 1 / 4
const LEAST_SHARE = 1 / 16

/**
 * A quarter of what the machine or container has beyond 320 MB: in 512 MB a quarter of all was more than there was beside a job, and
 * the system ended the engine.
 *
 * @param total bytes of memory
 * @returns bytes
 */
export function defaultKvBytes(total = memoryBytes()): number {
  return Math.max(total * LEAST_SHARE, (total - BESIDE_BYTES) * SHARE)
}

// Options of an engine: what computes its steps, and its limits. Knows nothing of how the limits are kept.

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

/** A running engine. */
export interface Engine {
  readonly contextLength: number
  readonly runningSequences: number
  readonly waitingRequests: number
  /** Share of the memory for keys and values that requests in progress take, 0 to 1. */
  readonly kvCacheUsage: number
  /** How often a running choice gave its row to another request. */
  readonly preemptions: number
  /**
   * Queues a request; its listener hears everything else.
   *
   * @throws {InvalidRequestError} if the request does not fit the model; {AppError} `queue_full`
   */
  submit(request: GenerationRequest, listener: GenerationListener): void
  /** Ends a request before its next step; unknown ids are ignored. */
  abort(id: string): void
  /** Drops an adapter and what was computed with it; running requests keep theirs. */
  forgetAdapter(digest: string): void
  /** @param isShared whether a job computes on the same machine (`core-sharing.ts`) */
  shareCores(isShared: boolean): void
  /** Resolves when nothing runs or waits. */
  idle(): Promise<void>
  /** Stops after the current step; requests in flight fail. */
  close(): Promise<void>
}

/** Loads the model and starts an idle engine. */
export async function createEngine(options: EngineOptions & RunnerOptions): Promise<Engine> {
  const { maxContextLength, kvCacheBytes: kvBytes = defaultKvBytes() } = options
  const own = options.prepared.config.contextLength
  const contextLength = Math.min(maxContextLength ?? own, own)
  const runner = await loadOnnxRunner({ ...options, contextLength, kvBytes })
  return startEngine(runner, { ...options, contextLength, kvBytes })
}

/** @param options.kvBytes memory for keys and values */
export function startEngine(
  runner: ModelRunner,
  options: EngineOptions & { readonly contextLength: number; readonly kvBytes: number },
): Engine {
  return new TurnLoop(runner, options)
}

class TurnLoop implements Engine {
  readonly contextLength: number
  readonly #runner: ModelRunner
  readonly #options: EngineOptions
  readonly #kvBytes: number
  readonly #kept: KeptBytes
  readonly #eosTokenIds: ReadonlySet<number>
  readonly #scheduler: Scheduler
  readonly #cores: CoreSharing
  readonly #idle: IdleGiving
  #arrivals = 0
  #isLooping = false
  #isClosed = false
  readonly #whenIdle: (() => void)[] = []

  constructor(runner: ModelRunner, options: Parameters<typeof startEngine>[1]) {
    const { contextLength, kvBytes } = options
    this.contextLength = contextLength
    this.#runner = runner
    this.#options = options
    this.#kvBytes = kvBytes
    const kept = keptBytes(runner.bytesPerToken, contextLength, kvBytes)
    const { prefixCacheBytes = kept.most } = options
    this.#kept = { most: prefixCacheBytes, idle: Math.min(prefixCacheBytes, kept.idle) }
    this.#eosTokenIds = new Set(options.eosTokenIds)
    this.#scheduler = new Scheduler(runner, {
      maxRows: options.maxConcurrentSequences,
      kvBytes,
      kept: this.#kept,
      fixedChunk: options.prefillChunk ?? null,
      wake: () => this.#start(),
    })
    this.#cores = new CoreSharing(runner.threads, options.onThreadsChange)
    const give = {
      trim: () => runner.trim(),
      shrink: () => this.#scheduler.limitKept(this.#kept.idle),
      rested: () => options.onRested?.(),
      empty: () => {
        this.#scheduler.limitKept(0)
        runner.forgetAdapters()
      },
    }
    this.#idle = createIdleGiving(give, options.idleSteps)
  }

  get runningSequences(): number {
    return this.#scheduler.runningChoices
  }

  get waitingRequests(): number {
    return this.#scheduler.waitingRequests
  }

  get kvCacheUsage(): number {
    return Math.min(1, this.#scheduler.usedBytes / this.#kvBytes)
  }

  get preemptions(): number {
    return this.#scheduler.preemptions
  }

  submit(request: GenerationRequest, listener: GenerationListener): void {
    if (this.#isClosed) throw shuttingDown()
    const maxWaiting = this.#options.maxWaiting ?? 256
    const { contextLength } = this
    assertAdmissible(request, { contextLength, vocabularySize: this.#runner.vocabularySize, maxWaiting })
    if (this.#scheduler.queuedRequests >= maxWaiting) throw queueFullError(maxWaiting)
    const active = activateRequest(request, listener, {
      contextLength,
      eosTokenIds: this.#eosTokenIds,
      isSpeculative: this.#options.speculation !== 'off',
      arrival: this.#arrivals++,
    })
    const { adapter } = request
    this.#scheduler.add(active, adapter === null)
    if (adapter !== null) void this.#loadAdapter(active, this.#runner.loadAdapter(adapter))
    this.#start()
  }

  abort(id: string): void {
    const active = this.#scheduler.requests.get(id)
    if (active === undefined) return
    active.isAborted = true
    this.#start()
  }

  forgetAdapter(digest: string): void {
    this.#runner.forgetAdapters(digest)
    this.#scheduler.forgetAdapter(digest)
  }

  shareCores(isShared: boolean): void {
    this.#cores.set(isShared)
    this.#start()
  }

  idle(): Promise<void> {
    if (this.#isEmpty && !this.#isLooping) return Promise.resolve()
    return new Promise((resolve) => this.#whenIdle.push(resolve))
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#start()
    await this.idle()
    this.#cores.close()
    await this.#runner.release()
  }

  get #isEmpty(): boolean {
    return this.#scheduler.requests.size === 0
  }

  /** Steps go on meanwhile. */
  async #loadAdapter(active: ActiveRequest, loading: ReturnType<ModelRunner['loadAdapter']>): Promise<void> {
    try {
      active.adapter = await loading
      this.#scheduler.ready(active)
    } catch (cause) {
      const unexpected = (): AppError =>
        new AppError('internal', 'adapter_failed', 'adapter could not be loaded', { cause })
      this.#scheduler.failLoading(active, cause instanceof AppError ? cause : unexpected())
    }
    this.#start()
  }

  #start(): void {
    this.#idle.stop()
    if (this.#isLooping) return
    this.#scheduler.limitKept(this.#kept.most)
    this.#isLooping = true
    void this.#loop()
  }

  async #loop(): Promise<void> {
    do {
      // Lets messages in: aborts and new requests take effect between steps.
      await new Promise((resolve) => setImmediate(resolve))
      if (this.#isClosed) this.#scheduler.failAll(shuttingDown())
      this.#scheduler.endAborted()
      try {
        if (this.#mustShare()) await this.#cores.settle()
        const fromMs = performance.now()
        await this.#scheduler.turn()
        this.#cores.noteWork(performance.now() - fromMs)
      } catch (cause) {
        // Steps report their own failures; what is left is a defect, and nobody knows whose state it broke.
        this.#scheduler.failAll(cause)
      }
    } while (this.#scheduler.hasWork(this.#isClosed) || this.#mustShare())
    // In the same tick as the check above, so that a request submitted later starts a new loop.
    this.#isLooping = false
    if (!this.#isClosed) this.#idle.start()
    if (this.#isEmpty) for (const resolve of this.#whenIdle.splice(0)) resolve()
  }

  #mustShare(): boolean {
    return !this.#isClosed && this.#cores.isDue(this.#isEmpty)
  }
}

function shuttingDown(): AppError {
  return new AppError('unavailable', 'shutting_down', 'engine is shutting down')
}
