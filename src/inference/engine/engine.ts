/**
 * The generation engine of one base model: token ids in, token events out, many requests at once.
 *
 * Continuous batching: the loop takes turns between chunks of waiting prompts (`prompt-queue.ts`) and tokens of running choices
 * (`decode-lanes.ts`), so that a long prompt never stalls running streams. Rows go to requests as they come; one of lower
 * priority or of many more choices gives some back, keeping what it has computed (`seat-queue.ts`). Requests whose adapter is
 * being loaded hold nothing. All state changes happen between steps on one thread; the numeric runtime blocks
 * inside a step.
 */

import { AppError, RuntimeError } from '#base/errors/errors.js'
import { memoryBytes } from '#base/machine/memory.js'
import type { EngineOptions } from './engine-options.js'
import type { GenerationListener, GenerationRequest, TokenEvent } from './generation.js'
import { AdapterStore } from './runner/adapter-store.js'
import { KvMemory } from './runner/kv-memory.js'
import { type KvShape, kvBytesPerToken } from './runner/kv-shape.js'
import { loadStepModel, type StepModel } from './runner/step-model.js'
import { Beam, type BeamSearch } from './sampling/beam-search.js'
import { type ActiveRequest, activateRequest } from './scheduling/active-request.js'
import { assertAdmissible, queueFullError } from './scheduling/admission.js'
import { AnswerKeeper } from './scheduling/answer-keeper.js'
import { CoreSharing } from './scheduling/core-sharing.js'
import type { Seat } from './scheduling/decode-lane.js'
import { DecodeLanes } from './scheduling/decode-lanes.js'
import { createIdleGiving, type IdleGiving, type KeptBytes, keptBytes } from './scheduling/kept-memory.js'
import { nextOf } from './scheduling/key-turns.js'
import { type ComputedPrompt, PrefixCache } from './scheduling/prefix-cache.js'
import { cacheableTokens, scopeOf } from './scheduling/prompt.js'
import { PromptQueue } from './scheduling/prompt-queue.js'
import { PromptTurns } from './scheduling/prompt-turns.js'
import { SeatQueue } from './scheduling/seat-queue.js'

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

/** Share of the machine's memory that keys and values may take. */
const KV_MEMORY_SHARE = 0.25
/** Length of an answer that is planned for, whatever its limit. */
const USUAL_ANSWER = 256

/** Loads the model and starts an idle engine. */
export async function createEngine(options: EngineOptions): Promise<Engine> {
  const { config } = options.prepared
  const contextLength = Math.min(options.maxContextLength ?? config.contextLength, config.contextLength)
  const { runtime, prepared, precision, threads, threadsBesideJob } = options
  const model = await loadStepModel({ runtime, prepared, precision, threads, threadsBesideJob, contextLength })
  return new StepLoop(model, options, contextLength)
}

class StepLoop implements Engine {
  readonly contextLength: number
  readonly #model: StepModel
  readonly #options: EngineOptions
  readonly #kvShape: KvShape
  readonly #kvBytes: number
  readonly #memory: KvMemory
  readonly #kept: KeptBytes
  readonly #idle: IdleGiving
  readonly #maxRows: number
  readonly #eosTokenIds: ReadonlySet<number>
  readonly #adapters: AdapterStore
  readonly #prefixes: PrefixCache
  readonly #prompts: PromptQueue
  readonly #lanes: DecodeLanes
  readonly #answers: AnswerKeeper
  readonly #turns: PromptTurns
  readonly #seats: SeatQueue
  readonly #cores: CoreSharing
  readonly #requests = new Map<string, ActiveRequest>()
  /** Requests that hold nothing yet: those whose adapter is being loaded, and those that may be admitted. */
  readonly #loading = new Set<ActiveRequest>()
  readonly #waiting: ActiveRequest[] = []
  #arrivals = 0
  #isLooping = false
  #isClosed = false
  readonly #whenIdle: (() => void)[] = []

  constructor(model: StepModel, options: EngineOptions, contextLength: number) {
    const { layerCount, kvHeadCount, headSize } = model.config
    this.contextLength = contextLength
    this.#model = model
    this.#options = options
    this.#kvShape = { layerCount, kvHeadCount, headSize }
    this.#kvBytes = options.kvCacheBytes ?? memoryBytes() * KV_MEMORY_SHARE
    const kept = keptBytes(this.#kvShape, contextLength, this.#kvBytes)
    const { prefixCacheBytes = kept.most } = options
    this.#kept = { most: prefixCacheBytes, idle: Math.min(prefixCacheBytes, kept.idle) }
    this.#maxRows = options.maxConcurrentSequences
    this.#eosTokenIds = new Set(options.eosTokenIds)
    this.#adapters = new AdapterStore(model.config, options.adapterBytes ?? 256e6)
    this.#prefixes = new PrefixCache(this.#kept.most)
    this.#prompts = new PromptQueue(model, { shape: this.#kvShape, prefixes: this.#prefixes })
    this.#memory = new KvMemory(this.#kvBytes)
    this.#lanes = new DecodeLanes(model, this.#kvShape, this.#memory)
    this.#answers = new AnswerKeeper(this.#lanes, this.#kept.most === 0 ? null : this.#prefixes)
    const work = { prompts: this.#prompts, lanes: this.#lanes, config: model.config }
    this.#turns = new PromptTurns({ ...work, fixed: options.prefillChunk ?? null })
    this.#seats = new SeatQueue(this.#lanes, this.#maxRows, () => this.#start())
    this.#cores = new CoreSharing(model.sessions, options.onThreadsChange)
    const give = {
      trim: () => this.#memory.trim(),
      shrink: () => this.#prefixes.limit(this.#kept.idle),
      empty: () => {
        this.#prefixes.limit(0)
        this.#adapters.clear()
      },
    }
    this.#idle = createIdleGiving(give, options.idleSteps)
  }

  get runningSequences(): number {
    return this.#lanes.rowCount
  }

  get waitingRequests(): number {
    return this.#queued + this.#prompts.requests.length
  }

  get kvCacheUsage(): number {
    return Math.min(1, this.#usedBytes / this.#kvBytes)
  }

  get preemptions(): number {
    return this.#seats.parkedCount
  }

  get #usedBytes(): number {
    return this.#prompts.sizeBytes + this.#lanes.sizeBytes + this.#seats.promptBytes
  }

  get #queued(): number {
    return this.#waiting.length + this.#loading.size
  }

  submit(request: GenerationRequest, listener: GenerationListener): void {
    if (this.#isClosed) throw new AppError('unavailable', 'shutting_down', 'engine is shutting down')
    const maxWaiting = this.#options.maxWaiting ?? 256
    const { vocabularySize } = this.#model.config
    assertAdmissible(request, { contextLength: this.contextLength, vocabularySize, maxWaiting })
    if (this.#queued >= maxWaiting) throw queueFullError(maxWaiting)
    const active = activateRequest(request, listener, {
      contextLength: this.contextLength,
      eosTokenIds: this.#eosTokenIds,
      isSpeculative: this.#options.speculation !== 'off',
      arrival: this.#arrivals++,
    })
    this.#requests.set(request.id, active)
    if (request.adapter === null) this.#waiting.push(active)
    else void this.#loadAdapter(active, this.#adapters.get(request.adapter))
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

  shareCores(isShared: boolean): void {
    this.#cores.set(isShared)
    this.#start()
  }

  idle(): Promise<void> {
    if (this.#requests.size === 0 && !this.#isLooping) return Promise.resolve()
    return new Promise((resolve) => this.#whenIdle.push(resolve))
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#start()
    await this.idle()
    this.#cores.close()
    await this.#model.release()
  }

  /** Steps go on meanwhile. */
  async #loadAdapter(active: ActiveRequest, loading: ReturnType<AdapterStore['get']>): Promise<void> {
    this.#loading.add(active)
    try {
      active.layout = await loading
      if (this.#loading.delete(active)) this.#waiting.push(active)
    } catch (cause) {
      const unexpected = (): AppError =>
        new AppError('internal', 'adapter_failed', 'adapter could not be loaded', { cause })
      if (this.#loading.has(active)) this.#fail(active, cause instanceof AppError ? cause : unexpected())
    }
    this.#start()
  }

  #start(): void {
    this.#idle.stop()
    if (this.#isLooping) return
    this.#prefixes.limit(this.#kept.most)
    this.#isLooping = true
    void this.#loop()
  }

  async #loop(): Promise<void> {
    do {
      // Lets messages in: aborts and new requests take effect between steps.
      await new Promise((resolve) => setImmediate(resolve))
      if (this.#isClosed) this.#failAll(new AppError('unavailable', 'shutting_down', 'engine is shutting down'))
      this.#removeAborted()
      try {
        if (this.#mustShare()) await this.#cores.settle()
        const fromMs = performance.now()
        await this.#turn()
        this.#cores.noteWork(performance.now() - fromMs)
      } catch (cause) {
        // Steps report their own failures; what is left is a defect, and nobody knows whose state it broke.
        this.#failStep([...this.#requests.values()], cause)
      }
    } while (this.#hasWork() || this.#mustShare())
    // In the same tick as the check above, so that a request submitted later starts a new loop.
    this.#isLooping = false
    if (!this.#isClosed) this.#idle.start()
    if (this.#requests.size === 0) for (const resolve of this.#whenIdle.splice(0)) resolve()
  }

  #hasWork(): boolean {
    const isCalled = this.#isClosed || [...this.#requests.values()].some(({ isAborted }) => isAborted)
    return this.#requests.size > (isCalled ? 0 : this.#loading.size + this.#seats.blockedRequests)
  }

  #mustShare(): boolean {
    return !this.#isClosed && this.#cores.isDue(this.#requests.size === 0)
  }

  async #turn(): Promise<void> {
    this.#admit()
    for (const seat of this.#seats.takeReady()) {
      if (this.#deliver(seat, seat.choice.resume())) this.#seats.pushSeat(seat)
    }
    this.#startChoices()
    const budget = this.#turns.next(performance.now())
    if (budget > 0) {
      await this.#promptStep(budget)
    } else if (this.#lanes.rowCount > 0) {
      this.#turns.decoded()
      await this.#decodeStep()
    }
  }

  /** Takes requests while there will be a row for each, or is one of another key's for it, and memory for its prompt. */
  #admit(): void {
    while (this.#waiting.length > 0) {
      const admitted = this.#requests.size - this.#queued
      const { next, isFirstOfKey } = nextOf(this.#waiting, this.#requests.values())
      if ((admitted >= this.#maxRows && !isFirstOfKey) || (admitted > 0 && !this.#fitsMemory(next))) return
      this.#waiting.splice(this.#waiting.indexOf(next), 1)
      next.admittedMs = performance.now()
      const { promptTokenIds, rules } = next.request
      const isReported = (rules.promptLogprobs ?? null) !== null
      const known = isReported ? null : this.#prefixes.findPrompt(promptTokenIds, scopeOf(next))
      if (known === null) {
        this.#prompts.add(next, next.admittedMs)
      } else {
        next.listener.onStarted(cacheableTokens(promptTokenIds.length))
        this.#seat(next, known)
      }
    }
  }

  /** Whether a request's prompt fits beside those in progress; what is kept for later makes room. */
  #fitsMemory({ request }: ActiveRequest): boolean {
    const rows = Math.min(request.rules.n, this.#maxRows)
    const answer = Math.min(request.rules.maxTokens ?? USUAL_ANSWER, USUAL_ANSWER)
    const needed = (request.promptTokenIds.length + rows * answer) * kvBytesPerToken(this.#kvShape)
    const used = this.#usedBytes
    this.#prefixes.limit(Math.min(this.#kept.most, Math.max(0, this.#kvBytes - used - needed)))
    return used + needed <= this.#kvBytes
  }

  /** @param budget tokens */
  async #promptStep(budget: number): Promise<void> {
    const group = this.#prompts.choose(budget)
    try {
      for (const { prompt, row } of await this.#prompts.step(group, budget)) {
        const computed: ComputedPrompt = { cache: prompt.cache, row }
        this.#prefixes.store(prompt.tokenIds, prompt.scope, { cache: prompt.cache, from: 0, prompt: computed })
        for (const active of prompt.followers) this.#seat(active, computed)
      }
    } catch (cause) {
      this.#failStep(
        group.flatMap(({ followers }) => followers),
        cause,
      )
    }
  }

  async #decodeStep(): Promise<void> {
    const { requests, outcomes } = this.#lanes.nextStep()
    try {
      const ended: Seat[] = []
      for (const { seat, events } of await outcomes) {
        const isOver = events.some((event) => !this.#deliver(seat, event, ended))
        if (!isOver && seat.choice.maskWait !== null) this.#seats.pushSeat(this.#lanes.park(seat))
        const { search } = seat.active
        // a beam waits for the others without holding a row
        if (search !== null && seat.choice instanceof Beam) search.held.set(seat.choice, this.#lanes.park(seat).tail)
      }
      this.#tellEnded(ended)
      if (ended.length > 0) {
        // the host sends what a step says when its tick ends: last tokens do not wait for copies
        await Promise.resolve()
        this.#freeEnded(ended)
      }
      for (const active of requests) if (active.search?.isComplete === true) this.#advanceBeams(active, active.search)
      this.#lanes.tidy((prompt) => this.#seats.isAwaited(prompt))
    } catch (cause) {
      this.#failStep(requests, cause)
    }
  }

  /** A request whose prompt is computed. */
  #seat(active: ActiveRequest, prompt: ComputedPrompt): void {
    const { search } = active
    if (search === null) {
      this.#seats.push(active, prompt)
      return
    }
    const [first] = search.alive
    search.prompt = prompt
    const error = first?.next(prompt.row) ?? null
    if (error !== null) this.#fail(active, error)
    else this.#advanceBeams(active, search)
  }

  /** All beams of a request have been computed: the best continuations go on, each with the keys and values of its past. */
  #advanceBeams(active: ActiveRequest, search: BeamSearch): void {
    if (!this.#requests.has(active.request.id)) return
    const successions = search.advance()
    const held = new Map(search.held)
    search.held.clear()
    for (const { beam, parent } of successions) {
      const tail = held.get(parent) ?? null
      if (search.prompt !== null) this.#seats.pushSeat({ active, choice: beam, prompt: search.prompt, tail })
    }
    if (!search.isOver) return
    const results = search.results()
    if (results instanceof AppError) {
      this.#fail(active, results)
      return
    }
    for (const events of results) for (const event of events) active.listener.onToken(event)
    active.open.clear()
    this.#requests.delete(active.request.id)
    active.listener.onFinished()
  }

  /** Gives choices of computed prompts their rows, as far as there are rows. */
  #startChoices(): void {
    for (let next = this.#seats.next(); next !== null; next = this.#seats.next()) {
      const { seat, siblings } = next
      const isNew = seat.choice.outputIds.length === 0
      if (isNew && !this.#deliver(seat, seat.choice.next(seat.prompt.row))) continue
      if (seat.choice.maskWait === null) this.#lanes.add(seat, siblings)
      else this.#seats.pushSeat(seat)
    }
  }

  /**
   * Tells the listener of a token and ends the choice if it is the last one.
   *
   * @param ended takes the choice instead, to be ended with others; null: it is ended here
   * @returns whether the choice goes on
   */
  #deliver(seat: Seat, event: TokenEvent | AppError | null, ended: Seat[] | null = null): boolean {
    if (event === null) return true
    if (event instanceof AppError) {
      this.#fail(seat.active, event)
      return false
    }
    const mayGoOn = seat.active.listener.onToken(event)
    if (mayGoOn && event.finishReason === null) return true
    if (ended !== null) {
      ended.push(seat)
      return false
    }
    this.#tellEnded([seat])
    this.#freeEnded([seat])
    return false
  }

  /** Tells of choices that ended; their rows are freed next. */
  #tellEnded(ended: readonly Seat[]): void {
    for (const { active, choice } of ended) {
      // another choice of it may have failed meanwhile
      if (!this.#requests.has(active.request.id)) continue
      active.open.delete(choice)
      if (active.open.size > 0) continue
      this.#requests.delete(active.request.id)
      active.listener.onFinished()
    }
  }

  #freeEnded(ended: readonly Seat[]): void {
    const areAlone = this.#requests.size === 0 && this.#lanes.rowCount <= ended.length
    this.#answers.free(ended, areAlone)
  }

  #removeAborted(): void {
    for (const active of [...this.#requests.values()]) {
      if (!active.isAborted) continue
      this.#forget(active)
      for (const choice of active.open) active.listener.onAborted(choice.index)
      active.listener.onFinished()
    }
  }

  /** A failing step says nothing about which request caused it: all that took part are lost, the engine is not. */
  #failStep(requests: readonly ActiveRequest[], cause: unknown): void {
    const error = cause instanceof AppError ? cause : new RuntimeError('step_failed', 'model step failed', { cause })
    for (const active of requests) if (this.#requests.has(active.request.id)) this.#fail(active, error)
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
    this.#loading.delete(active)
    const at = this.#waiting.indexOf(active)
    if (at >= 0) this.#waiting.splice(at, 1)
    this.#prompts.forget(active)
    this.#seats.forget(active)
    for (const choice of active.choices) this.#lanes.remove(choice)
  }
}
