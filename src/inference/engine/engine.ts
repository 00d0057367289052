/**
 * The generation engine of one base model: token ids in, token events out, many requests at once.
 *
 * Continuous batching: each turn of the loop either computes a chunk of a waiting prompt or one token of every running
 * choice, alternating while both wait, so that a long prompt never stalls running streams. Requests are taken first in,
 * first out. All state changes happen between steps on one thread; the numeric runtime blocks inside a step.
 */

import { totalmem } from 'node:os'
import { AppError, RuntimeError } from '#base/errors.js'
import type { Precision, PreparedModel } from '#model/architectures/prepare.js'
import type { Runtime } from '#numerics/runtime/runtime.js'
import type { ActiveRequest } from './active-request.js'
import { AdapterStore } from './adapter-store.js'
import { assertAdmissible, queueFullError } from './admission.js'
import { type KvShape, kvBytesPerToken } from './cache/kv-cache.js'
import { PrefixCache } from './cache/prefix-cache.js'
import { DecodeBatch } from './decode-batch.js'
import type { GenerationListener, GenerationRequest, TokenEvent } from './generation.js'
import { Prefill, runPrefillStep } from './prefill.js'
import { Choice } from './sampling/choice.js'
import { loadStepModel, type StepModel } from './step-model.js'

export interface EngineOptions {
  readonly runtime: Runtime
  readonly prepared: PreparedModel
  readonly precision: Precision
  /** Threads of one operator; null: all cores. */
  readonly threads: number | null
  /** Ceiling for prompt + answer; null: the model's own. */
  readonly maxContextLength: number | null
  /** Choices generated at once. */
  readonly maxConcurrentSequences: number
  readonly eosTokenIds: readonly number[]
  /** Requests that may wait; default 256. */
  readonly maxWaiting?: number
  /** Memory for reusable prefixes; default 96 MB. */
  readonly prefixCacheBytes?: number
  /** Memory for adapters not in use; default 256 MB. */
  readonly adapterBytes?: number
  /** Prompt tokens per step while choices run, and while none does; default 64 and 256. */
  readonly prefillChunk?: { readonly sharing: number; readonly alone: number }
}

/** A running engine. */
export interface Engine {
  readonly contextLength: number
  readonly runningSequences: number
  readonly waitingRequests: number
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
  /** Resolves when nothing runs or waits. */
  idle(): Promise<void>
  /** Stops after the current step; requests in flight fail. */
  close(): Promise<void>
}

/** Share of the machine's memory that keys and values may reserve. */
const KV_MEMORY_SHARE = 0.5
/** Length that rows are planned for, whatever the model's context allows. */
const USUAL_TOKENS = 8192

/** Loads the model and starts an idle engine. */
export async function createEngine(options: EngineOptions): Promise<Engine> {
  const { config } = options.prepared
  const contextLength = Math.min(options.maxContextLength ?? config.contextLength, config.contextLength)
  const { runtime, prepared, precision, threads } = options
  const model = await loadStepModel({ runtime, prepared, precision, threads, contextLength })
  return new StepLoop(model, options, contextLength)
}

class StepLoop implements Engine {
  readonly contextLength: number
  readonly #model: StepModel
  readonly #options: EngineOptions
  readonly #kvShape: KvShape
  readonly #maxRows: number
  readonly #eosTokenIds: ReadonlySet<number>
  readonly #adapters: AdapterStore
  readonly #prefixes: PrefixCache
  readonly #decode: DecodeBatch
  readonly #requests = new Map<string, ActiveRequest>()
  readonly #waiting: ActiveRequest[] = []
  /** Prompts being computed, then prompts whose choices wait for rows; first in, first out. */
  #prefilling: Prefill[] = []
  #prefilled: Prefill[] = []
  #isPrefillTurn = true
  #isLooping = false
  #running: Promise<void> = Promise.resolve()
  #isClosed = false

  constructor(model: StepModel, options: EngineOptions, contextLength: number) {
    const { layerCount, kvHeadCount, headSize } = model.config
    this.contextLength = contextLength
    this.#model = model
    this.#options = options
    this.#kvShape = { layerCount, kvHeadCount, headSize }
    this.#maxRows = rowsThatFit(this.#kvShape, contextLength, options.maxConcurrentSequences)
    this.#eosTokenIds = new Set(options.eosTokenIds)
    this.#adapters = new AdapterStore(model.config, options.adapterBytes ?? 256e6)
    this.#prefixes = new PrefixCache(options.prefixCacheBytes ?? 96e6)
    this.#decode = new DecodeBatch(model, { shape: this.#kvShape, maxRows: this.#maxRows, contextLength })
  }

  get runningSequences(): number {
    return this.#decode.rowCount
  }

  get waitingRequests(): number {
    return this.#waiting.length + this.#prefilling.length
  }

  submit(request: GenerationRequest, listener: GenerationListener): void {
    if (this.#isClosed) throw new AppError('unavailable', 'shutting_down', 'engine is shutting down')
    const maxWaiting = this.#options.maxWaiting ?? 256
    const { vocabularySize } = this.#model.config
    assertAdmissible(request, { contextLength: this.contextLength, vocabularySize, maxWaiting })
    if (this.#waiting.length >= maxWaiting) throw queueFullError(maxWaiting)
    const active = this.#activate(request, listener)
    this.#requests.set(request.id, active)
    this.#waiting.push(active)
    this.#start()
  }

  abort(id: string): void {
    const active = this.#requests.get(id)
    if (active === undefined) return
    active.isAborted = true
    this.#start()
  }

  forgetAdapter(digest: string): void {
    this.#adapters.forget(digest)
    this.#prefixes.forgetAdapter(digest)
  }

  async idle(): Promise<void> {
    while (this.#isLooping) await this.#running
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.idle()
    await this.#model.release()
  }

  #activate(request: GenerationRequest, listener: GenerationListener): ActiveRequest {
    const { rules, promptTokenIds } = request
    const left = this.contextLength - promptTokenIds.length
    const stopRules = {
      eosTokenIds: this.#eosTokenIds,
      ignoreEos: rules.ignoreEos,
      stopTokenIds: new Set(rules.stopTokenIds),
      minTokens: rules.minTokens,
      maxTokens: Math.min(rules.maxTokens ?? left, left),
    }
    const promptIds = promptTokenIds
    const choices = Array.from({ length: rules.n }, (_, index) => new Choice(index, { rules, stopRules, promptIds }))
    return { request, listener, choices, layout: null, open: new Set(choices), isAborted: false }
  }

  #start(): void {
    if (this.#isLooping) return
    this.#isLooping = true
    this.#running = this.#loop()
  }

  async #loop(): Promise<void> {
    try {
      while (this.#requests.size > 0) await this.#guardedTurn()
    } finally {
      // In the same tick as the check above, so that a request submitted later starts a new loop.
      this.#isLooping = false
    }
  }

  async #guardedTurn(): Promise<void> {
    // Lets messages in: aborts and new requests take effect between steps.
    await new Promise((resolve) => setImmediate(resolve))
    if (this.#isClosed) this.#failAll(new AppError('unavailable', 'shutting_down', 'engine is shutting down'))
    this.#removeAborted()
    try {
      await this.#turn()
    } catch (cause) {
      // A failing step says nothing about which request caused it; all that took part are lost, the engine is not.
      this.#failAll(cause instanceof AppError ? cause : new RuntimeError('step_failed', 'model step failed', { cause }))
    }
  }

  async #turn(): Promise<void> {
    this.#startChoices()
    await this.#admit()
    const canPrefill = this.#prefilling.length > 0
    const canDecode = this.#decode.rowCount > 0
    if (canPrefill && (this.#isPrefillTurn || !canDecode)) {
      this.#isPrefillTurn = false
      await this.#prefillStep(canDecode)
    } else if (canDecode) {
      this.#isPrefillTurn = true
      for (const { active, event } of await this.#decode.step()) this.#deliver(active, event)
    }
  }

  /** Takes requests while there will be rows for them. */
  async #admit(): Promise<void> {
    for (;;) {
      const [next] = this.#waiting
      const claimed = [...this.#prefilling, ...this.#prefilled].reduce((sum, { pending }) => sum + pending.length, 0)
      const taken = this.#decode.rowCount + claimed
      if (next === undefined || taken >= this.#maxRows) return
      if (taken > 0 && !this.#fitsMemory(taken + 1, next.request.promptTokenIds.length)) return
      this.#waiting.shift()
      const { adapter } = next.request
      try {
        if (adapter !== null) next.layout = await this.#adapters.get(adapter)
      } catch (cause) {
        this.#fail(
          next,
          cause instanceof AppError
            ? cause
            : new AppError('internal', 'adapter_failed', 'adapter could not be loaded', { cause }),
        )
        continue
      }
      const prefill = new Prefill(next, this.#kvShape, this.#prefixes)
      next.listener.onStarted(prefill.cachedTokens)
      this.#prefilling.push(prefill)
    }
  }

  /** All rows have the capacity of the longest, so one long prompt beside many rows is what costs. */
  #fitsMemory(rows: number, promptLength: number): boolean {
    const prompts = [...this.#prefilling, ...this.#prefilled].map(({ active }) => active.request.promptTokenIds.length)
    const longest = Math.max(promptLength, this.#decode.longest, ...prompts)
    return rows * longest * kvBytesPerToken(this.#kvShape) <= kvMemoryBytes()
  }

  async #prefillStep(isSharing: boolean): Promise<void> {
    const { sharing, alone } = this.#options.prefillChunk ?? { sharing: 64, alone: 256 }
    const done = await runPrefillStep(this.#model, this.#prefilling, isSharing ? sharing : alone)
    for (const prefill of done) prefill.storePrefix(this.#prefixes)
    this.#prefilling = this.#prefilling.filter((prefill) => !done.includes(prefill))
    this.#prefilled.push(...done)
    this.#startChoices()
  }

  /** Gives computed prompts rows for their choices, as long as there are rows. */
  #startChoices(): void {
    for (const prefill of this.#prefilled) {
      while (prefill.pending.length > 0 && this.#decode.rowCount < this.#maxRows) {
        const choice = prefill.pending.shift()
        if (choice === undefined) break
        const event = choice.next(prefill.row())
        const goesOn = this.#deliver(prefill.active, event, choice)
        if (goesOn) this.#decode.add(prefill.active, choice, prefill.cache)
      }
    }
    this.#prefilled = this.#prefilled.filter((prefill) => prefill.pending.length > 0)
  }

  /**
   * Tells the listener of a token and ends the choice if it is the last one.
   *
   * @returns whether the choice goes on
   */
  #deliver(active: ActiveRequest, event: TokenEvent | AppError, started?: Choice): boolean {
    if (event instanceof AppError) {
      this.#fail(active, event)
      return false
    }
    const mayGoOn = active.listener.onToken(event)
    if (mayGoOn && event.finishReason === null) return true
    const choice = started ?? active.choices[event.choice]
    if (choice !== undefined) this.#finishChoice(active, choice)
    return false
  }

  #finishChoice(active: ActiveRequest, choice: Choice): void {
    const { request } = active
    this.#decode.remove(choice, (read) => {
      // The newest token was never fed, so its keys and values do not exist.
      const ids = [...request.promptTokenIds, ...choice.outputIds.slice(0, -1)]
      this.#prefixes.store(ids, { adapterDigest: request.adapter?.digest ?? null, cacheSalt: request.cacheSalt }, read)
    })
    active.open.delete(choice)
    if (active.open.size > 0) return
    this.#requests.delete(request.id)
    active.listener.onFinished()
  }

  #removeAborted(): void {
    for (const active of [...this.#requests.values()]) {
      if (!active.isAborted) continue
      this.#forget(active)
      for (const choice of active.open) active.listener.onAborted(choice.index)
      active.listener.onFinished()
    }
  }

  #fail(active: ActiveRequest, error: AppError): void {
    this.#forget(active)
    active.listener.onFailed(error)
  }

  #failAll(error: AppError): void {
    for (const active of [...this.#requests.values()]) this.#fail(active, error)
  }

  /** Frees everything a request holds. */
  #forget(active: ActiveRequest): void {
    this.#requests.delete(active.request.id)
    const at = this.#waiting.indexOf(active)
    if (at >= 0) this.#waiting.splice(at, 1)
    this.#prefilling = this.#prefilling.filter((prefill) => prefill.active !== active)
    this.#prefilled = this.#prefilled.filter((prefill) => prefill.active !== active)
    for (const choice of active.choices) this.#decode.remove(choice)
  }
}

/** Rows that fit the memory set aside when none is longer than usual; longer ones are held back on admission. */
function rowsThatFit(shape: KvShape, contextLength: number, wanted: number): number {
  const usualBytes = kvBytesPerToken(shape) * Math.min(contextLength, USUAL_TOKENS)
  return Math.max(1, Math.min(wanted, Math.floor(kvMemoryBytes() / usualBytes)))
}

function kvMemoryBytes(): number {
  return totalmem() * KV_MEMORY_SHARE
}
