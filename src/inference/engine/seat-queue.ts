/**
 * Choices of computed prompts that wait for a row, and who gets the next one.
 *
 * Requests share rows evenly: the one with the fewest running choices is next, higher priority first. When all rows are taken
 * a request without any gets one from the request that has most, and a request of higher priority gets one from the lowest;
 * the choice that gives way keeps what it has computed and waits here.
 */
import { type ActiveRequest, isBefore } from './active-request.js'
import type { KvCache } from './cache/kv-cache.js'
import type { ComputedPrompt } from './cache/prefix-cache.js'
import type { Seat } from './decode-lane.js'
import type { DecodeLanes } from './decode-lanes.js'

export class SeatQueue {
  readonly #lanes: DecodeLanes
  readonly #maxRows: number
  readonly #wake: () => void
  #seats: Seat[] = []
  /** Choices whose mask is awaited, and those whose mask has come. */
  readonly #held = new Set<Seat>()
  #ready: Seat[] = []

  /** @param wake called when a mask that was awaited is there, at any time */
  constructor(lanes: DecodeLanes, maxRows: number, wake: () => void) {
    this.#wake = wake
    this.#lanes = lanes
    this.#maxRows = maxRows
  }

  /** Memory of prompts that running and waiting choices go on from. */
  get promptBytes(): number {
    const caches = new Set<KvCache>()
    let sum = 0
    for (const { prompt, tail } of [
      ...this.#seats,
      ...this.#held,
      ...this.#ready,
      ...[...this.#lanes.running.values()].flat(),
    ]) {
      sum += tail?.sizeBytes ?? 0
      caches.add(prompt.cache)
    }
    for (const cache of caches) sum += cache.sizeBytes
    return sum
  }

  /** How often a running choice gave its row to another. */
  parkedCount = 0

  /** All choices of a request whose prompt is computed. */
  push(active: ActiveRequest, prompt: ComputedPrompt): void {
    for (const choice of active.open) this.#seats.push({ active, choice, prompt, tail: null })
  }

  /** A choice that goes on, at once or when its mask is there: then it is among those that `takeReady` returns. */
  pushSeat(seat: Seat): void {
    const wait = seat.choice.maskWait
    if (wait === null) {
      this.#seats.push(seat)
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
  get blockedRequests(): number {
    const counts = new Map<ActiveRequest, number>()
    for (const { active } of this.#held) counts.set(active, (counts.get(active) ?? 0) + 1)
    return [...counts].filter(([active, count]) => count === active.open.size).length
  }

  forget(active: ActiveRequest): void {
    const isOther = (seat: Seat): boolean => seat.active !== active
    this.#seats = this.#seats.filter(isOther)
    this.#ready = this.#ready.filter(isOther)
    for (const seat of this.#held) if (!isOther(seat)) this.#held.delete(seat)
  }

  /**
   * Takes out the choice that gets a row now, or null if none does.
   *
   * @returns with it the number of choices that go on from the same prompt about now, itself included
   */
  next(): { readonly seat: Seat; readonly siblings: number } | null {
    const [first, ...others] = this.#seats
    if (first === undefined) return null
    const seat = others.reduce((best, other) => (this.#comesBefore(other, best) ? other : best), first)
    if (this.#lanes.rowCount >= this.#maxRows) {
      const victim = this.#victimFor(seat)
      if (victim === null) return null
      this.#seats.push(this.#lanes.park(victim))
      this.parkedCount++
    }
    const free = this.#maxRows - this.#lanes.rowCount
    const siblings = this.#seats.filter(({ prompt }) => prompt === seat.prompt).length
    this.#seats.splice(this.#seats.indexOf(seat), 1)
    return { seat, siblings: Math.min(siblings, Math.max(1, free)) }
  }

  #comesBefore(a: Seat, b: Seat): boolean {
    if (a.active.priority !== b.active.priority) return a.active.priority < b.active.priority
    const [rowsOfA, rowsOfB] = [this.#rowsOf(a.active), this.#rowsOf(b.active)]
    return rowsOfA !== rowsOfB ? rowsOfA < rowsOfB : isBefore(a.active, b.active)
  }

  /** The newest running choice of the request that can best spare one for `seat`. */
  #victimFor(seat: Seat): Seat | null {
    let victim: readonly Seat[] | null = null
    let mostRows = 0
    let lowest = seat.active.priority
    for (const [active, seats] of this.#lanes.running) {
      if (active.priority < lowest || active === seat.active) continue
      const isLower = active.priority > lowest
      if (!isLower && active.priority === seat.active.priority && (seats.length < 2 || this.#rowsOf(seat.active) > 0))
        continue
      if (!isLower && seats.length <= mostRows) continue
      victim = seats
      mostRows = seats.length
      lowest = active.priority
    }
    return victim?.at(-1) ?? null
  }

  #rowsOf(active: ActiveRequest): number {
    return this.#lanes.running.get(active)?.length ?? 0
  }
}
