/**
 * What the model computes next, and for whom: waiting, prompts, running.
 *
 * A request waits until there is a row for it and memory for its prompt; its prompt is computed in pieces, once for all that begin with
 * the same tokens (`prompt-queue.ts`); its choices then wait for rows (`seat-queue.ts`) and run in slots of the runner
 * (`running-choices.ts`). A turn is a step of prompts or one of running choices (`prompt-turns.ts`), so that a long prompt never
 * stalls running streams. A choice whose row another request needs more keeps what it has computed and waits again. Speaks with the
 * model through `ModelRunner` alone. All state changes between steps, on one thread.
 */
import { AppError } from '#base/errors/errors.js'
import type { ModelRunner } from '../model-runner.js'
import { Beam } from '../sampling/beam-search.js'
import { type ActiveRequest, isBefore, type SearchRun } from './active-request.js'
import { Delivery } from './delivery.js'
import type { KeptBytes } from './kept-memory.js'
import { type ComputedPrompt, PREFIX_BLOCK_TOKENS, PrefixCache } from './prefix-cache.js'
import { cacheableTokens, scopeOf } from './prompt.js'
import { PromptQueue } from './prompt-queue.js'
import { type FixedChunk, PromptTurns } from './prompt-turns.js'
import { RunningChoices, type Seat } from './running-choices.js'
import { SeatQueue } from './seat-queue.js'

// Whose request is let in next: keys take turns, so that one key's many do not stand before another key's one.

/**
 * The request that is let in next. A key of which nothing is inside needs no free row for it: another key gives one.
 *
 * @param waiting at least one
 * @param requests all of the engine
 */
function nextOf(
  waiting: readonly ActiveRequest[],
  requests: Iterable<ActiveRequest>,
): { readonly next: ActiveRequest; readonly isFirstOfKey: boolean } {
  const open = openByKey(requests)
  const next = waiting.reduce((first, other) => (isNext(other, first, open) ? other : first))
  return { next, isFirstOfKey: !open.has(next.keyId) }
}

/** Choices that are not at their end, of requests that were let in, by key. */
function openByKey(requests: Iterable<ActiveRequest>): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const { keyId, admittedMs, open } of requests) {
    if (admittedMs === Number.POSITIVE_INFINITY) continue
    counts.set(keyId, (counts.get(keyId) ?? 0) + open.size)
  }
  return counts
}

/** Whether `a` is let in before `b`: by priority, then the key with fewer choices inside, then as they came. */
function isNext(a: ActiveRequest, b: ActiveRequest, open: ReadonlyMap<string, number>): boolean {
  const [ofA, ofB] = [open.get(a.keyId) ?? 0, open.get(b.keyId) ?? 0]
  return a.priority === b.priority && ofA !== ofB ? ofA < ofB : isBefore(a, b)
}

// Keeps what ended answers have computed, for prompts that go on from them: the next turn of a conversation computes its new tokens alone.
//
// Rows of a step are written over by the next one, so keeping is a copy, 5 to 10 ms for an answer of 400 tokens. Answers of a burst end
// together: all are kept where nobody else is served, and as many as hold nobody up where somebody is.

/** So much is copied in one step while others are served: some 10 ms. */
const KEPT_BESIDE_BYTES = 16e6

export class AnswerKeeper {
  readonly #running: Pick<RunningChoices, 'copyTail' | 'remove'>
  readonly #prefixes: Pick<PrefixCache, 'store'> | null

  /** @param prefixes null: nothing is kept */
  constructor(running: Pick<RunningChoices, 'copyTail' | 'remove'>, prefixes: Pick<PrefixCache, 'store'> | null) {
    this.#running = running
    this.#prefixes = prefixes
  }

  /**
   * Frees the rows of choices that ended in one step, and makes what they hold findable.
   *
   * @param areAlone whether nobody else is served
   */
  free(ended: readonly Seat[], areAlone: boolean): void {
    let leftBytes = areAlone ? Number.POSITIVE_INFINITY : KEPT_BESIDE_BYTES
    for (const seat of ended) {
      if (leftBytes > 0) leftBytes -= this.#keep(seat)
      this.#running.remove(seat.choice)
    }
  }

  /** @returns bytes copied */
  #keep({ active, choice, prompt }: Seat): number {
    if (this.#prefixes === null) return 0
    const { promptTokenIds } = active.request
    const extra = prompt.sequence.length % PREFIX_BLOCK_TOKENS
    const sequence = this.#running.copyTail(choice, extra)
    if (sequence === null) return 0
    const from = promptTokenIds.length - extra
    const ids = [...promptTokenIds, ...choice.outputIds].slice(0, from + sequence.length)
    this.#prefixes.store(ids, scopeOf(active), { sequence, from })
    return sequence.sizeBytes
  }
}

export interface SchedulerOptions {
  /** Choices that run at once. */
  readonly maxRows: number
  /** Memory for keys and values, of requests in progress and kept for later ones. */
  readonly kvBytes: number
  readonly kept: KeptBytes
  readonly fixedChunk: FixedChunk | null
  /** Called when a choice can go on that waited for its mask, at any time. */
  readonly wake: () => void
}

/** Length of an answer that is planned for, whatever its limit. */
const USUAL_ANSWER = 256

export class Scheduler {
  readonly #options: SchedulerOptions
  readonly #runner: ModelRunner
  readonly #prefixes: PrefixCache
  readonly #prompts: PromptQueue
  readonly #running: RunningChoices
  readonly #seats: SeatQueue
  readonly #turns: PromptTurns
  readonly #answers: AnswerKeeper
  readonly #delivery: Delivery
  /** Requests that hold nothing yet: those whose adapter is being loaded, and those that may be let in. */
  readonly #loading = new Set<ActiveRequest>()
  readonly #waiting: ActiveRequest[] = []

  constructor(runner: ModelRunner, options: SchedulerOptions) {
    const { maxRows, kept, fixedChunk, wake } = options
    this.#options = options
    this.#runner = runner
    this.#prefixes = new PrefixCache(kept.most)
    this.#prompts = new PromptQueue(runner, this.#prefixes)
    this.#running = new RunningChoices(runner)
    this.#seats = new SeatQueue(this.#running, maxRows, wake)
    const { mostPrefillTokens } = runner
    this.#turns = new PromptTurns({
      prompts: this.#prompts,
      choices: this.#running,
      mostPrefillTokens,
      fixed: fixedChunk,
    })
    this.#answers = new AnswerKeeper(this.#running, kept.most === 0 ? null : this.#prefixes)
    this.#delivery = new Delivery({
      forget: (active) => this.#forget(active),
      free: (ended) => this.#free(ended),
    })
  }

  /** Requests in progress. */
  get requests(): ReadonlyMap<string, ActiveRequest> {
    return this.#delivery.requests
  }

  get runningChoices(): number {
    return this.#running.count
  }

  /** Requests that hold nothing yet. */
  get queuedRequests(): number {
    return this.#waiting.length + this.#loading.size
  }

  /** Requests whose answers have not begun. */
  get waitingRequests(): number {
    return this.queuedRequests + this.#prompts.requestCount
  }

  /** Memory of requests in progress. */
  get usedBytes(): number {
    return this.#prompts.sizeBytes + this.#runner.slotBytes + this.#seats.promptBytes
  }

  /** How often a running choice gave its row to another request. */
  get preemptions(): number {
    return this.#seats.parkedCount
  }

  /** Whether a turn would do something. @param isCalled whether requests are about to be ended from outside */
  hasWork(isCalled: boolean): boolean {
    const all = [...this.requests.values()]
    if (isCalled || all.some(({ isAborted }) => isAborted)) return all.length > 0
    const blocked = this.#seats.blockedRequests
    const isHolding = this.#isHolding
    return all.some((active) => !(this.#loading.has(active) || blocked.has(active) || (isHolding && active.isBehind)))
  }

  /** Whether requests that are behind all others wait: another one is inside. */
  get #isHolding(): boolean {
    for (const { isBehind, admittedMs } of this.requests.values()) {
      if (!isBehind && admittedMs !== Number.POSITIVE_INFINITY) return true
    }
    return false
  }

  /** @param isReady false: it may be let in once `ready` is called */
  add(active: ActiveRequest, isReady: boolean): void {
    this.#delivery.add(active)
    if (isReady) this.#waiting.push(active)
    else this.#loading.add(active)
  }

  /** The adapter of a request is loaded. */
  ready(active: ActiveRequest): void {
    if (this.#loading.delete(active)) this.#waiting.push(active)
  }

  /** The adapter of a request cannot be loaded. */
  failLoading(active: ActiveRequest, error: AppError): void {
    if (this.#loading.has(active)) this.#delivery.fail(active, error)
  }

  failAll(cause: unknown): void {
    this.#delivery.failStep([...this.requests.values()], cause)
  }

  endAborted(): void {
    this.#delivery.endAborted()
  }

  /** Drops what was computed with an adapter; running requests keep theirs. */
  forgetAdapter(digest: string): void {
    this.#prefixes.forgetAdapter(digest)
  }

  /** @param bytes what may be kept for later requests from now on */
  limitKept(bytes: number): void {
    this.#prefixes.limit(bytes)
  }

  /** Lets requests in, gives choices rows, and makes one step. */
  async turn(): Promise<void> {
    this.#letIn()
    const isHolding = this.#isHolding
    this.#prompts.isHolding = isHolding
    this.#seats.hold(isHolding)
    this.#resume()
    this.#startChoices()
    const budget = this.#turns.next(performance.now())
    if (budget > 0) {
      await this.#promptStep(budget)
    } else if (this.#running.count > 0) {
      this.#turns.decoded()
      await this.#decodeStep()
    }
  }

  /** Takes requests while there will be a row for each, or is one of another key's for it, and memory for its prompt. */
  #letIn(): void {
    while (this.#waiting.length > 0) {
      const letIn = this.requests.size - this.queuedRequests
      const { next, isFirstOfKey } = nextOf(this.#waiting, this.requests.values())
      if ((letIn >= this.#options.maxRows && !isFirstOfKey) || (letIn > 0 && !this.#fitsMemory(next))) return
      this.#waiting.splice(this.#waiting.indexOf(next), 1)
      next.admittedMs = performance.now()
      const { promptTokenIds, rules } = next.request
      const isReported = (rules.promptLogprobs ?? null) !== null
      const known = isReported ? null : this.#prefixes.findPrompt(promptTokenIds, scopeOf(next))
      if (known === null) {
        this.#prompts.add(next, next.admittedMs)
      } else {
        next.listener.onStarted(cacheableTokens(promptTokenIds.length))
        this.#computed(next, known)
      }
    }
  }

  /** Whether a request's prompt fits beside those in progress; what is kept for later makes room. */
  #fitsMemory({ request }: ActiveRequest): boolean {
    const { maxRows, kvBytes, kept } = this.#options
    const rows = Math.min(request.rules.n, maxRows)
    const answer = Math.min(request.rules.maxTokens ?? USUAL_ANSWER, USUAL_ANSWER)
    const needed = (request.promptTokenIds.length + rows * answer) * this.#runner.bytesPerToken
    const used = this.usedBytes
    this.#prefixes.limit(Math.min(kept.most, Math.max(0, kvBytes - used - needed)))
    return used + needed <= kvBytes
  }

  /** Choices whose mask has come say their token and go on. */
  #resume(): void {
    for (const seat of this.#seats.takeReady()) {
      if (this.#delivery.tell(seat, seat.choice.resume())) this.#seats.pushSeat(seat)
    }
  }

  /** Gives choices of computed prompts their rows, as far as there are rows. */
  #startChoices(): void {
    for (let next = this.#seats.next(); next !== null; next = this.#seats.next()) {
      const { seat, siblings } = next
      const isNew = seat.choice.outputIds.length === 0
      if (isNew && !this.#delivery.tell(seat, seat.choice.next(seat.prompt.row))) continue
      if (seat.choice.maskWait === null) this.#running.add(seat, siblings)
      else this.#seats.pushSeat(seat)
    }
  }

  /** @param budget tokens */
  async #promptStep(budget: number): Promise<void> {
    const group = this.#prompts.choose(budget)
    try {
      for (const { prompt, row } of await this.#prompts.step(group, budget)) {
        const { tokenIds, scope, sequence, followers } = prompt
        const computed: ComputedPrompt = { sequence, row }
        this.#prefixes.store(tokenIds, scope, { sequence, from: 0, prompt: computed })
        for (const active of followers) this.#computed(active, computed)
      }
    } catch (cause) {
      const requests = group.flatMap(({ followers }) => followers)
      this.#delivery.failStep(requests, cause)
    }
  }

  async #decodeStep(): Promise<void> {
    const { requests, outcomes } = this.#running.nextStep()
    try {
      const ended: Seat[] = []
      for (const { seat, events } of await outcomes) {
        const isOver = events.some((event) => !this.#delivery.tell(seat, event, ended))
        if (!isOver && seat.choice.maskWait !== null) this.#seats.pushSeat(this.#running.park(seat))
        const { search } = seat.active
        // a beam waits for the others without holding a row
        if (search !== null && seat.choice instanceof Beam) search.held.set(seat.choice, this.#running.park(seat).tail)
      }
      this.#delivery.tellEnded(ended)
      if (ended.length > 0) {
        // the host sends what a step says when its tick ends: last tokens do not wait for copies
        await Promise.resolve()
        this.#free(ended)
      }
      for (const active of requests) {
        if (active.search?.beams.isComplete === true) this.#advanceBeams(active, active.search)
      }
      this.#running.compact((prompt) => this.#seats.isAwaited(prompt))
    } catch (cause) {
      this.#delivery.failStep(requests, cause)
    }
  }

  /** The choices of a request whose prompt is computed wait for rows. */
  #computed(active: ActiveRequest, prompt: ComputedPrompt): void {
    const { search } = active
    if (search === null) {
      this.#seats.push(active, prompt)
      return
    }
    const [first] = search.beams.alive
    search.prompt = prompt
    const error = first?.next(prompt.row) ?? null
    if (error !== null) this.#delivery.fail(active, error)
    else this.#advanceBeams(active, search)
  }

  /** All beams of a request have been computed: the best continuations go on, each with the keys and values of its past. */
  #advanceBeams(active: ActiveRequest, { beams, held, prompt }: SearchRun): void {
    if (!this.#delivery.isInProgress(active)) return
    const tails = new Map(held)
    held.clear()
    for (const { beam, parent } of beams.advance()) {
      const tail = tails.get(parent) ?? null
      if (prompt !== null) this.#seats.pushSeat({ active, choice: beam, prompt, tail })
    }
    if (!beams.isOver) return
    const results = beams.results()
    if (results instanceof AppError) this.#delivery.fail(active, results)
    else this.#delivery.tellAnswers(active, results)
  }

  /** Frees the rows of choices that ended in one step. */
  #free(ended: readonly Seat[]): void {
    const areAlone = this.requests.size === 0 && this.#running.count <= ended.length
    this.#answers.free(ended, areAlone)
  }

  /** Frees everything a request holds. */
  #forget(active: ActiveRequest): void {
    this.#loading.delete(active)
    const at = this.#waiting.indexOf(active)
    if (at >= 0) this.#waiting.splice(at, 1)
    this.#prompts.forget(active)
    this.#seats.forget(active)
    for (const choice of active.choices) this.#running.remove(choice)
  }
}
