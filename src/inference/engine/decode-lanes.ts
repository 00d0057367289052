/**
 * All choices that are decoded, in lanes of like shape: width of their groups and length of their prompts.
 *
 * A lane's step is padded to its widest group and longest prompt, so what differs much goes apart. Lanes take turns by the
 * processor time they have used per request: a request with 64 choices does not make one with a single choice wait.
 */
import type { ActiveRequest } from './active-request.js'
import type { KvCache } from './cache/kv-cache.js'
import type { KvShape } from './cache/kv-shape.js'
import { DecodeLane, type LaneOutcome, type Seat } from './decode-lane.js'
import type { Choice } from './sampling/choice.js'
import type { StepModel } from './step-model.js'

/** Prompts up to this length share a lane; longer ones do so up to twice their length. */
const LIKE_LENGTH = 1024

export class DecodeLanes {
  readonly #model: StepModel
  readonly #shape: KvShape
  readonly #lanes = new Map<string, DecodeLane>()
  readonly #laneOf = new Map<Choice, DecodeLane>()
  readonly #rowsOf = new Map<ActiveRequest, Seat[]>()

  constructor(model: StepModel, shape: KvShape) {
    this.#model = model
    this.#shape = shape
  }

  get rowCount(): number {
    return this.#laneOf.size
  }

  get laneCount(): number {
    return this.#lanes.size
  }

  get sizeBytes(): number {
    let sum = 0
    for (const lane of this.#lanes.values()) sum += lane.sizeBytes
    return sum
  }

  /** What a token of every running choice takes, by the last step of each lane. */
  get roundMs(): number {
    let sum = 0
    for (const { lastMs } of this.#lanes.values()) sum += lastMs
    return sum
  }

  /** Requests with running choices, and those. */
  get running(): ReadonlyMap<ActiveRequest, readonly Seat[]> {
    return this.#rowsOf
  }

  /**
   * Gives a choice a row.
   *
   * @param siblings choices that go on from the same prompt about now, itself included
   */
  add(seat: Seat, siblings: number): void {
    const known = [...this.#lanes.values()].find((lane) => lane.hasRoomFor(seat.prompt))
    const lane = known ?? this.#laneFor(this.#widthFor(siblings), seat.prompt.cache.lengthOf(0))
    lane.add(seat)
    this.#laneOf.set(seat.choice, lane)
    const rows = this.#rowsOf.get(seat.active)
    if (rows === undefined) this.#rowsOf.set(seat.active, [seat])
    else rows.push(seat)
  }

  /** Frees a choice's row; does nothing if it has none. */
  remove(choice: Choice): void {
    const lane = this.#laneOf.get(choice)
    if (lane === undefined) return
    lane.remove(choice)
    this.#laneOf.delete(choice)
    for (const [active, seats] of this.#rowsOf) {
      const at = seats.findIndex((seat) => seat.choice === choice)
      if (at < 0) continue
      seats.splice(at, 1)
      if (seats.length === 0) this.#rowsOf.delete(active)
      break
    }
    this.#dropEmpty()
  }

  /** See `DecodeLane.copyTail`. */
  copyTail(choice: Choice, extra = 0): KvCache | null {
    return this.#laneOf.get(choice)?.copyTail(choice, extra) ?? null
  }

  /** Takes a choice's row away for now; what is returned is added again later. */
  park(seat: Seat): Seat {
    const tail = this.copyTail(seat.choice)
    this.remove(seat.choice)
    return { ...seat, tail }
  }

  /** Starts a step of the lane whose turn it is, for these requests. There must be one. */
  nextStep(): { readonly requests: readonly ActiveRequest[]; readonly outcomes: Promise<readonly LaneOutcome[]> } {
    const [first, ...others] = this.#lanes.values()
    if (first === undefined) throw new Error('no choice is running')
    const lane = others.reduce((best, other) => (other.clockMs < best.clockMs ? other : best), first)
    const requests = [...new Set(lane.seats.map(({ active }) => active))]
    return { requests, outcomes: this.#timed(lane, requests.length) }
  }

  async #timed(lane: DecodeLane, requestCount: number): Promise<readonly LaneOutcome[]> {
    const startedMs = performance.now()
    try {
      return await lane.step()
    } finally {
      lane.lastMs = performance.now() - startedMs
      lane.clockMs += lane.lastMs / requestCount
    }
  }

  /** Moves groups that have shrunk to lanes of their width. */
  tidy(): void {
    for (const lane of [...this.#lanes.values()]) {
      for (const seats of lane.sparseGroups()) {
        const moved = seats.map((seat) => this.park(seat))
        for (const seat of moved) this.add(seat, moved.length)
      }
    }
  }

  #laneFor(width: number, promptLength: number): DecodeLane {
    const length = promptLength <= LIKE_LENGTH ? 0 : Math.ceil(Math.log2(promptLength / LIKE_LENGTH))
    const key = `${width} ${length}`
    const known = this.#lanes.get(key)
    if (known !== undefined) return known
    const lane = new DecodeLane(this.#model, { shape: this.#shape, width })
    // A new lane owes nothing and is owed nothing.
    lane.clockMs = Math.min(...[...this.#lanes.values()].map(({ clockMs }) => clockMs))
    if (!Number.isFinite(lane.clockMs)) lane.clockMs = 0
    this.#lanes.set(key, lane)
    return lane
  }

  /** Widths are powers of two, so that groups of similar size share a lane. */
  #widthFor(siblings: number): number {
    const { headCount, kvHeadCount } = this.#model.config
    // The runtime multiplies a single row in another order than several, and an answer must not depend on its siblings.
    const narrowest = headCount === kvHeadCount ? 2 : 1
    return Math.max(narrowest, 2 ** Math.ceil(Math.log2(siblings)))
  }

  #dropEmpty(): void {
    for (const [key, lane] of this.#lanes) if (lane.seats.length === 0) this.#lanes.delete(key)
  }
}
