/**
 * Requests in progress, and what their listeners are told: tokens, ends, failures. Knows nothing of steps: the `Holder` of slots,
 * keys and values is told when a request no longer needs them.
 */
import { AppError, RuntimeError } from '#base/errors/errors.js'
import type { TokenEvent } from '../generation.js'
import type { ActiveRequest } from './active-request.js'
import type { Seat } from './running-choices.js'

/** Who holds slots, keys and values for requests. */
export interface Holder {
  /** The request is over: everything it holds is free. */
  forget(active: ActiveRequest): void
  /** These choices have ended; what they have computed may be kept for later. */
  free(ended: readonly Seat[]): void
}

export class Delivery {
  readonly #holder: Holder
  readonly #requests = new Map<string, ActiveRequest>()

  constructor(holder: Holder) {
    this.#holder = holder
  }

  /** All that have not heard their last event, by id. */
  get requests(): ReadonlyMap<string, ActiveRequest> {
    return this.#requests
  }

  add(active: ActiveRequest): void {
    this.#requests.set(active.request.id, active)
  }

  isInProgress(active: ActiveRequest): boolean {
    return this.#requests.has(active.request.id)
  }

  /**
   * Tells of a token and ends the choice if it is the last one.
   *
   * @param ended takes the choice instead, to be ended with others; null: it is ended here
   * @returns whether the choice goes on
   */
  tell(seat: Seat, event: TokenEvent | AppError | null, ended: Seat[] | null = null): boolean {
    if (event === null) return true
    if (event instanceof AppError) {
      this.fail(seat.active, event)
      return false
    }
    const mayGoOn = seat.active.listener.onToken(event)
    if (mayGoOn && event.finishReason === null) return true
    if (ended !== null) {
      ended.push(seat)
      return false
    }
    this.tellEnded([seat])
    this.#holder.free([seat])
    return false
  }

  /** Tells of choices that ended; what they hold is freed next. */
  tellEnded(ended: readonly Seat[]): void {
    for (const { active, choice } of ended) {
      // another choice of it may have failed meanwhile
      if (!this.isInProgress(active)) continue
      active.open.delete(choice)
      if (active.open.size > 0) continue
      this.#requests.delete(active.request.id)
      active.listener.onFinished()
    }
  }

  /** Tells of whole answers, and ends the request. */
  tellAnswers(active: ActiveRequest, answers: readonly (readonly TokenEvent[])[]): void {
    for (const events of answers) for (const event of events) active.listener.onToken(event)
    active.open.clear()
    this.#requests.delete(active.request.id)
    active.listener.onFinished()
  }

  /** Ends requests that were given up. */
  endAborted(): void {
    for (const active of [...this.#requests.values()]) {
      if (!active.isAborted) continue
      this.#forget(active)
      for (const choice of active.open) active.listener.onAborted(choice.index)
      active.listener.onFinished()
    }
  }

  /** A failing step says nothing about which request caused it: all that took part are lost, the engine is not. */
  failStep(requests: readonly ActiveRequest[], cause: unknown): void {
    const error = cause instanceof AppError ? cause : new RuntimeError('step_failed', 'model step failed', { cause })
    for (const active of requests) if (this.isInProgress(active)) this.fail(active, error)
  }

  fail(active: ActiveRequest, error: AppError): void {
    this.#forget(active)
    active.listener.onFailed(error)
  }

  #forget(active: ActiveRequest): void {
    this.#requests.delete(active.request.id)
    this.#holder.forget(active)
  }
}
