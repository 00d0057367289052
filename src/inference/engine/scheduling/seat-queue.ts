/**
 * Choices of computed prompts that wait for a row, and who gets the next one.
 *
 * Requests come in order of arrival, higher priority first, and each gets rows for all its choices: those of one prompt take less time
 * together than apart. One with few choices does not wait for one with many, though: while another request of twice as many has
 * more rows, it is next, and gets them from there. A request of higher priority gets rows from the lowest, one of a key that has fewer
 * rows than another key from that key's newest request. The choice that gives way keeps what it has computed and waits here.
 *
 * Requests behind all others have no row while another one is inside: each more row makes the step of all longer.
 */

import type { KvSequence } from '../model-runner.js'
import { type ActiveRequest, isBefore } from './active-request.js'
import type { ComputedPrompt } from './prefix-cache.js'
import type { RunningChoices, Seat } from './running-choices.js'

/** A request with fewer choices gets rows from one with so many times as many. */
const LARGER = 2
/** Rows that are kept together for choices of one prompt while fewer are free. */
const KEPT_TOGETHER = 16

export class SeatQueue {
  readonly #running: RunningChoices
  readonly #maxRows: number
  readonly #wake: () => void
  readonly #seats = new Map<ActiveRequest, Seat[]>()
  /** Choices whose mask is awaited, and those whose mask has come. */
  readonly #held = new Set<Seat>()
  #ready: Seat[] = []

  /** @param wake called when a mask that was awaited is there, at any time */
  constructor(running: RunningChoices, maxRows: number, wake: () => void) {
    this.#wake = wake
    this.#running = running
    this.#maxRows = maxRows
  }

  /** Memory of prompts that running and waiting choices go on from. */
  get promptBytes(): number {
    const prompts = new Set<KvSequence>()
    let sum = 0
    for (const { prompt, tail } of [
      ...[...this.#seats.values()].flat(),
      ...this.#held,
      ...this.#ready,
      ...[...this.#running.running.values()].flat(),
    ]) {
      sum += tail?.sizeBytes ?? 0
      prompts.add(prompt.sequence)
    }
    for (const { sizeBytes } of prompts) sum += sizeBytes
    return sum
  }

  /** How often a running choice gave its row to another. */
  parkedCount = 0
  #isHolding = false

  /** Takes rows from requests behind all others, and gives them none. @param isHolding whether another one is computed */
  hold(isHolding: boolean): void {
    this.#isHolding = isHolding
    if (!isHolding) return
    const behind = [...this.#running.running].flatMap(([{ isBehind }, seats]) => (isBehind ? seats : []))
    for (const seat of behind) this.#wait(this.#running.park(seat))
  }

  /** All choices of a request whose prompt is computed. */
  push(active: ActiveRequest, prompt: ComputedPrompt): void {
    for (const choice of active.open) this.#wait({ active, choice, prompt, tail: null })
  }

  /** A choice that goes on, at once or when its mask is there: then it is among those that `takeReady` returns. */
  pushSeat(seat: Seat): void {
    const wait = seat.choice.maskWait
    if (wait === null) {
      this.#wait(seat)
      return
    }
    this.#held.add(seat)
    const settle = (): void => {
      if (!this.#held.delete(seat)) return
      this.#ready.push(seat)
      this.#wake()
    }
    wait.then(settle, settle)
  }

  /** Choices whose mask has come. */
  takeReady(): readonly Seat[] {
    return this.#ready.splice(0)
  }

  /** Requests that cannot do anything before a mask comes. */
  get blockedRequests(): ReadonlySet<ActiveRequest> {
    const counts = new Map<ActiveRequest, number>()
    for (const { active } of this.#held) counts.set(active, (counts.get(active) ?? 0) + 1)
    return new Set([...counts].flatMap(([active, count]) => (count === active.open.size ? [active] : [])))
  }

  forget(active: ActiveRequest): void {
    const isOther = (seat: Seat): boolean => seat.active !== active
    this.#seats.delete(active)
    this.#ready = this.#ready.filter(isOther)
    for (const seat of this.#held) if (!isOther(seat)) this.#held.delete(seat)
  }

  /** Whether a choice waits that goes on from this prompt. */
  isAwaited(prompt: KvSequence): boolean {
    return this.#waitingFor(prompt) > 0
  }

  /**
   * Takes out the choice that gets a row now, or null if none does.
   *
   * @returns with it the number of choices that go on from the same prompt about now, itself included
   */
  next(): { readonly seat: Seat; readonly siblings: number } | null {
    const free = this.#maxRows - this.#running.count
    const found = this.#nextRequest(free)
    if (found === null) return null
    const { active, victim } = found
    const seats = this.#seats.get(active) ?? []
    // one that gave way before others begin: it holds memory
    const seat = seats.find(({ tail }) => tail !== null) ?? seats[0]
    if (seat === undefined) return null
    const siblings = Math.min(this.#waitingFor(seat.prompt.sequence), Math.max(free, KEPT_TOGETHER))
    seats.splice(seats.indexOf(seat), 1)
    if (seats.length === 0) this.#seats.delete(active)
    if (free <= 0 && victim !== null) {
      this.#wait(this.#running.park(victim))
      this.parkedCount++
    }
    return { seat, siblings }
  }

  #wait(seat: Seat): void {
    const seats = this.#seats.get(seat.active)
    if (seats === undefined) this.#seats.set(seat.active, [seat])
    else seats.push(seat)
  }

  #waitingFor(prompt: KvSequence): number {
    let sum = 0
    for (const seats of this.#seats.values()) for (const seat of seats) if (seat.prompt.sequence === prompt) sum++
    return sum
  }

  /** The first request that has a claim on another's row, or else the first one if a row is free. */
  #nextRequest(free: number): { readonly active: ActiveRequest; readonly victim: Seat | null } | null {
    const requests = [...this.#seats.keys()]
      .filter(({ isBehind }) => !(isBehind && this.#isHolding))
      .sort((a, b) => (isBefore(a, b) ? -1 : 1))
    for (const active of requests) {
      const victim = this.#victimFor(active) ?? this.#victimOfKey(active)
      if (victim !== null) return { active, victim }
    }
    const [first] = requests
    return free > 0 && first !== undefined ? { active: first, victim: null } : null
  }

  /** The newest running choice of the request that can best spare one for `active`. */
  #victimFor(active: ActiveRequest): Seat | null {
    let victim: readonly Seat[] | null = null
    let mostRows = 0
    let lowest = active.priority
    for (const [other, seats] of this.#running.running) {
      if (other.priority < lowest || other === active) continue
      const isLower = other.priority > lowest
      if (!isLower && seats.length <= mostRows) continue
      if (other.priority === active.priority) {
        const isLarger = other.open.size >= LARGER * active.open.size
        if (!isLarger || seats.length <= this.#rowsOf(active) + 1) continue
      }
      victim = seats
      mostRows = seats.length
      lowest = other.priority
    }
    return victim?.at(-1) ?? null
  }

  /** The newest running choice of the key that has most rows, if that is at least two more than this request's key has. */
  #victimOfKey(active: ActiveRequest): Seat | null {
    const rows = new Map<string, number>()
    for (const [{ keyId }, seats] of this.#running.running) rows.set(keyId, (rows.get(keyId) ?? 0) + seats.length)
    const own = rows.get(active.keyId) ?? 0
    let newest: ActiveRequest | null = null
    let mostRows = own + 1
    for (const other of this.#running.running.keys()) {
      const count = rows.get(other.keyId) ?? 0
      if (other.keyId === active.keyId || other.priority < active.priority || count < mostRows) continue
      if (count === mostRows && (newest === null || isBefore(other, newest))) continue
      newest = other
      mostRows = count
    }
    return newest === null ? null : (this.#running.running.get(newest)?.at(-1) ?? null)
  }

  #rowsOf(active: ActiveRequest): number {
    return this.#running.running.get(active)?.length ?? 0
  }
}
