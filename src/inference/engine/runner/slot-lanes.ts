/**
 * All slots, in lanes of like shape: width of their groups and length of their prompts.
 *
 * A lane's step is padded to its widest group and longest prompt, so what differs much goes apart. Every further lane is a step of its
 * own for each token, though: a group joins the lane of wider ones while few places stay empty, and all requests with one choice of
 * a short prompt share one, equal prompts or not.
 */
import type { SlotRequest } from '../model-runner.js'
import type { KvMemory } from './kv-memory.js'
import { type KvRun, runOf } from './kv-run.js'
import type { KvShape } from './kv-shape.js'
import { type LaneSlot, SlotLane } from './slot-lane.js'
import type { StepModel } from './step-model.js'

/** Prompts up to this length share a lane; longer ones do so up to twice their length. */
const LIKE_LENGTH = 1024
/** A prompt this short is read once for each of its choices in less time than a lane of their own costs. */
const SHORT_PROMPT = 64
/** Places computed for nobody that cost less than a lane of one's own: so many, or this share of the slots. */
const FEW_EMPTY = 8
const FEW_EMPTY_SHARE = 0.5

type Lanes = readonly (readonly [string, SlotLane])[]

export class SlotLanes {
  readonly #model: StepModel
  readonly #shape: KvShape
  readonly #memory: KvMemory
  readonly #lanes = new Map<string, SlotLane>()

  /** @param memory what lanes take theirs from, and give it back to */
  constructor(model: StepModel, shape: KvShape, memory: KvMemory) {
    this.#model = model
    this.#shape = shape
    this.#memory = memory
  }

  get lanes(): readonly SlotLane[] {
    return [...this.#lanes.values()]
  }

  get sizeBytes(): number {
    return this.lanes.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
  }

  allocate(prompt: KvRun, { tail, siblings, choices }: SlotRequest): LaneSlot {
    const slot: LaneSlot = { prompt, choices, lane: null }
    this.#add(slot, { tail: tail === null ? null : runOf(tail), siblings, lanes: [...this.#lanes] })
    return slot
  }

  free(slot: LaneSlot): void {
    laneOf(slot).remove(slot)
    for (const [key, lane] of this.#lanes) {
      if (lane.slots.length > 0) continue
      this.#lanes.delete(key)
      lane.release()
    }
  }

  /** Moves groups that have shrunk to narrower lanes: all of a lane, or those that leave too many places empty. */
  compact(isAwaited: (prompt: KvRun) => boolean): void {
    for (const lane of this.lanes) {
      const { groups } = lane
      const sparse = groups
        .filter((slots) => slots.length <= lane.width / 4 && slots.every(({ prompt }) => !isAwaited(prompt)))
        .sort((a, b) => a.length - b.length)
      const areAll = sparse.length === groups.length
      const widest = sparse.at(-1)?.length ?? 0
      for (const slots of sparse) {
        if (!areAll && isDense(lane.loadWith(0))) break
        this.#move(slots, areAll ? widest : slots.length, lane)
      }
    }
  }

  #move(slots: readonly LaneSlot[], siblings: number, left: SlotLane): void {
    const moved = slots.map((slot) => {
      const tail = left.fork(slot, 0)
      this.free(slot)
      return { slot, tail }
    })
    for (const { slot, tail } of moved) {
      this.#add(slot, { tail, siblings, lanes: [...this.#lanes].filter(([, lane]) => lane !== left) })
    }
  }

  #add(
    slot: LaneSlot,
    { tail, siblings, lanes }: { readonly tail: KvRun | null; readonly siblings: number; readonly lanes: Lanes },
  ): void {
    const known = lanes.find(([, lane]) => lane.hasRoomFor(slot.prompt))
    const lane = known?.[1] ?? this.#laneFor(slot, siblings, lanes)
    lane.add(slot, tail)
  }

  /** Widths are powers of two, so that groups of similar size share a lane. */
  #laneFor({ prompt, choices }: LaneSlot, siblings: number, lanes: Lanes): SlotLane {
    const tokens = prompt.length
    const length = tokens <= LIKE_LENGTH ? 0 : Math.ceil(Math.log2(tokens / LIKE_LENGTH))
    const { headCount, kvHeadCount } = this.#model.config
    // The runtime multiplies a single row in another order than several, and an answer must not depend on its siblings.
    const narrowest = headCount === kvHeadCount ? 2 : 1
    const count = tokens <= SHORT_PROMPT && choices === 1 ? 1 : siblings
    const width = Math.max(narrowest, 2 ** Math.ceil(Math.log2(count)))
    const wider = lanes
      .filter(([key, lane]) => key.endsWith(` ${length}`) && lane.width > width && isDense(lane.loadWith(count)))
      .sort(([, a], [, b]) => a.width - b.width)
    const key = `${width} ${length}`
    const known = lanes.find(([other]) => other === key) ?? wider[0]
    if (known !== undefined) return known[1]
    const lane = new SlotLane(this.#model, { shape: this.#shape, memory: this.#memory, width })
    this.#lanes.set(key, lane)
    return lane
  }
}

/** The lane of a slot that is not free. */
export function laneOf({ lane }: LaneSlot): SlotLane {
  if (lane === null) throw new Error('the slot is free')
  return lane
}

/** Whether a lane has few places that are computed for nobody. */
function isDense({ empty, rows }: { readonly empty: number; readonly rows: number }): boolean {
  return empty <= Math.max(FEW_EMPTY, FEW_EMPTY_SHARE * rows)
}
