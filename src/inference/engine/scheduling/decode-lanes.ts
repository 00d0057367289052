/**
 * All choices that are decoded, in lanes of like shape: width of their groups and length of their prompts.
 *
 * A lane's step is padded to its widest group and longest prompt, so what differs much goes apart. Every further lane is a step of its
 * own for each token, though: a group joins the lane of wider ones while few places stay empty, and all requests with one choice of
 * a short prompt share one, equal prompts or not. `lane-turns.ts` says whose turn it is.
 */

import type { KvCache } from '../runner/kv-cache.js'
import type { KvMemory } from '../runner/kv-memory.js'
import type { KvShape } from '../runner/kv-shape.js'
import type { StepModel } from '../runner/step-model.js'
import type { Choice } from '../sampling/choice.js'
import type { ActiveRequest } from './active-request.js'
import { DecodeLane, type LaneOutcome, type Seat } from './decode-lane.js'
import { kindOf, LaneTurns } from './lane-turns.js'
import type { ComputedPrompt } from './prefix-cache.js'

/** Prompts up to this length share a lane; longer ones do so up to twice their length. */
const LIKE_LENGTH = 1024
/** A prompt this short is read once for each of its choices in less time than a lane of their own costs. */
const SHORT_PROMPT = 64
/** Places computed for nobody that cost less than a lane of one's own: so many, or this share of the choices. */
const FEW_EMPTY = 8
const FEW_EMPTY_SHARE = 0.5

export class DecodeLanes {
  readonly #model: StepModel
  readonly #shape: KvShape
  readonly #memory: KvMemory
  readonly #lanes = new Map<string, DecodeLane>()
  readonly #laneOf = new Map<Choice, DecodeLane>()
  readonly #rowsOf = new Map<ActiveRequest, Seat[]>()
  readonly #turns = new LaneTurns()

  /** @param memory what lanes take theirs from, and give it back to */
  constructor(model: StepModel, shape: KvShape, memory: KvMemory) {
    this.#model = model
    this.#shape = shape
    this.#memory = memory
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
    this.#addTo(seat, siblings, null)
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
    const loads = [...this.#lanes.values()].map((lane) => {
      const { seats, lastMs, lastTurnMs } = lane
      const requests = [...new Set(seats.map(({ active }) => active))]
      return { lane, active: requests, rows: seats.length, requests: requests.length, lastMs, lastTurnMs }
    })
    const { lane, active, ...load } = this.#turns.next(loads, performance.now())
    const kind = kindOf(load)
    const sharing = loads.filter((other) => kindOf(other) === kind).reduce((sum, { requests }) => sum + requests, 0)
    const charge = (ms: number): void => this.#turns.charge(kind, ms, sharing)
    return { requests: active, outcomes: timed(lane, charge) }
  }

  /**
   * Moves groups that have shrunk to narrower lanes: all of a lane, or those that leave too many places empty.
   *
   * @param isAwaited whether choices of a prompt wait for a row: their group will be fuller
   */
  tidy(isAwaited: (prompt: ComputedPrompt) => boolean): void {
    for (const lane of [...this.#lanes.values()]) {
      const { groups } = lane
      const sparse = groups
        .filter((seats) => seats.length <= lane.width / 4 && seats.every(({ prompt }) => !isAwaited(prompt)))
        .sort((a, b) => a.length - b.length)
      const areAll = sparse.length === groups.length
      const widest = sparse.at(-1)?.length ?? 0
      for (const seats of sparse) {
        if (!areAll && isDense(lane.loadWith(0))) break
        const siblings = areAll ? widest : seats.length
        for (const seat of seats.map((sparseSeat) => this.park(sparseSeat))) this.#addTo(seat, siblings, lane)
      }
    }
  }

  #addTo(seat: Seat, siblings: number, left: DecodeLane | null): void {
    const lanes = [...this.#lanes].filter(([, lane]) => lane !== left)
    const known = lanes.find(([, lane]) => lane.hasRoomFor(seat.prompt))
    const lane = known?.[1] ?? this.#laneFor(seat, siblings, lanes)
    lane.add(seat)
    this.#laneOf.set(seat.choice, lane)
    const rows = this.#rowsOf.get(seat.active)
    if (rows === undefined) this.#rowsOf.set(seat.active, [seat])
    else rows.push(seat)
  }

  /** Widths are powers of two, so that groups of similar size share a lane. */
  #laneFor({ active, prompt }: Seat, siblings: number, lanes: readonly (readonly [string, DecodeLane])[]): DecodeLane {
    const promptLength = prompt.cache.lengthOf(0)
    const length = promptLength <= LIKE_LENGTH ? 0 : Math.ceil(Math.log2(promptLength / LIKE_LENGTH))
    const { headCount, kvHeadCount } = this.#model.config
    // The runtime multiplies a single row in another order than several, and an answer must not depend on its siblings.
    const narrowest = headCount === kvHeadCount ? 2 : 1
    const count = promptLength <= SHORT_PROMPT && active.choices.length === 1 ? 1 : siblings
    const width = Math.max(narrowest, 2 ** Math.ceil(Math.log2(count)))
    const wider = lanes
      .filter(([key, lane]) => key.endsWith(` ${length}`) && lane.width > width && isDense(lane.loadWith(count)))
      .sort(([, a], [, b]) => a.width - b.width)
    const key = `${width} ${length}`
    const known = lanes.find(([other]) => other === key) ?? wider[0]
    if (known !== undefined) return known[1]
    const lane = new DecodeLane(this.#model, { shape: this.#shape, memory: this.#memory, width })
    this.#lanes.set(key, lane)
    return lane
  }

  #dropEmpty(): void {
    for (const [key, lane] of this.#lanes) {
      if (lane.seats.length > 0) continue
      this.#lanes.delete(key)
      lane.release()
    }
  }
}

/** Whether a lane has few places that are computed for nobody. */
function isDense({ empty, rows }: { readonly empty: number; readonly rows: number }): boolean {
  return empty <= Math.max(FEW_EMPTY, FEW_EMPTY_SHARE * rows)
}

/** A lane's step, with its time noted. */
async function timed(lane: DecodeLane, charge: (ms: number) => void): Promise<readonly LaneOutcome[]> {
  const startedMs = performance.now()
  try {
    return await lane.step()
  } finally {
    lane.lastTurnMs = performance.now()
    lane.lastMs = lane.lastTurnMs - startedMs
    charge(lane.lastMs)
  }
}
