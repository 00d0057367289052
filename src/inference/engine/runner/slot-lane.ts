/**
 * Slots that are computed in one step: groups of up to `width` that go on from the same prompt.
 *
 * A group's prompt is stored once. While the lane has one group the prompt is used where it lies; several are laid side by
 * side, because the step graph needs dense tensors. What slots have added is in tails of their own.
 */
import { maxOf } from '#base/util/lists.js'
import type { StepFetch } from '../logits-row.js'
import type { DecodePart, Slot, SlotBatch, StepRows } from '../model-runner.js'
import { layoutOf } from './adapter-store.js'
import { KvCache } from './kv-cache.js'
import type { KvMemory } from './kv-memory.js'
import { KvRun } from './kv-run.js'
import { CAPACITY_UNIT, type KvPlace, type KvShape } from './kv-shape.js'
import { logitsRow } from './result-rows.js'
import type { StepSequence } from './step-batch.js'
import { distinctAdapters, type StepModel } from './step-model.js'

/** A slot, and where it is; null once it is free. */
export interface LaneSlot extends Slot {
  readonly prompt: KvRun
  /** Choices of its request. */
  readonly choices: number
  lane: SlotLane | null
}

interface Group {
  readonly prompt: KvRun
  readonly slots: (LaneSlot | null)[]
}

/** Smallest growth of the tails' capacity, in tokens. */
const CAPACITY_STEP = 2 * CAPACITY_UNIT
/** What a lane has memory for at first; it costs nothing before it is used. */
const FIRST_ROWS = 4
const FIRST_TOKENS = 2 * CAPACITY_STEP
/** Steps before the capacity is used up in which the next one is prepared; both take memory meanwhile. */
const PREPARING_STEPS = 32
/** Of what is left to do, the part done in one step when the capacity shrinks. */
const SHRINKING_STEPS = 8
const PLACE = { row: 0, member: 0 } as const

export class SlotLane implements SlotBatch {
  readonly width: number
  readonly #model: StepModel
  readonly #shape: KvShape
  readonly #memory: KvMemory
  readonly #groups: Group[] = []
  /** Row g is the prompt of group g; null while there is one group. */
  #prompts: KvCache | null = null
  readonly #tails: KvCache

  constructor(
    model: StepModel,
    options: { readonly shape: KvShape; readonly memory: KvMemory; readonly width: number },
  ) {
    this.#model = model
    this.#shape = options.shape
    this.#memory = options.memory
    this.width = options.width
    const rows = Math.ceil(FIRST_ROWS / options.width)
    const room = { rows, tokens: FIRST_TOKENS }
    this.#tails = new KvCache(options.shape, options.width, { room, isGrowing: true, memory: options.memory })
  }

  /** Gives all memory back; there must be no slot, and none may come. */
  release(): void {
    this.#tails.release()
    this.#prompts?.release()
  }

  get slots(): readonly LaneSlot[] {
    return this.groups.flat()
  }

  /** Slots of each group. */
  get groups(): readonly (readonly LaneSlot[])[] {
    return this.#groups.map(({ slots }) => slots.filter((slot) => slot !== null))
  }

  /** Memory held beside the prompts themselves. */
  get sizeBytes(): number {
    return this.#tails.sizeBytes + (this.#prompts?.sizeBytes ?? 0)
  }

  /** Whether a slot of this prompt finds its group here, with a free place. */
  hasRoomFor(prompt: KvRun): boolean {
    return this.#groups.some((group) => group.prompt === prompt && group.slots.includes(null))
  }

  /** Places that a step computes for nobody, and slots, once a group of so many came. */
  loadWith(siblings: number): { readonly empty: number; readonly rows: number } {
    const rows = this.slots.length + siblings
    const groups = this.#groups.length + (siblings > 0 ? Math.ceil(siblings / this.width) : 0)
    return { rows, empty: groups * this.width - rows }
  }

  /** @param tail what it has added to the prompt; null: nothing */
  add(slot: LaneSlot, tail: KvRun | null): void {
    let row = this.#groups.findIndex(({ prompt, slots }) => prompt === slot.prompt && slots.includes(null))
    if (row < 0) row = this.#addGroup(slot.prompt)
    const group = this.#groupAt(row)
    const member = group.slots.indexOf(null)
    group.slots[member] = slot
    slot.lane = this
    if (tail === null) return
    this.#reserve(tail.length)
    this.#tails.appendFrom({ row, member }, tail.cache, { ...PLACE, start: 0, count: tail.length })
  }

  remove(slot: LaneSlot): void {
    const place = this.#placeOf(slot)
    const group = this.#groupAt(place.row)
    group.slots[place.member] = null
    slot.lane = null
    if (group.slots.some((other) => other !== null)) this.#tails.clear(place)
    else this.#removeGroup(place.row)
  }

  /** See `ModelRunner.fork`. */
  fork(slot: LaneSlot, promptTokens: number): KvRun {
    const place = this.#placeOf(slot)
    const count = this.#tails.lengthOf(place.row, place.member)
    const { prompt } = slot
    const copy = new KvRun(this.#shape, promptTokens + count)
    copy.reserve(promptTokens + count)
    if (promptTokens > 0) copy.copyFrom(prompt, prompt.length - promptTokens, promptTokens)
    if (count > 0) copy.cache.appendFrom(PLACE, this.#tails, { ...place, start: 0, count })
    return copy
  }

  /** A token or more for every slot. */
  async step(
    parts: readonly (DecodePart & { readonly slot: LaneSlot })[],
    fetch: readonly StepFetch[],
  ): Promise<StepRows> {
    const tokens = maxOf(parts.map(({ ids }) => ids.length))
    this.#followLongest(this.#tails.longest + tokens)
    const { adapters, indexOf } = distinctAdapters(parts.map(({ adapter }) => layoutOf(adapter)))
    const firstRows: number[] = []
    let flat = 0
    const sequences = parts.map(({ slot, ids }, index): StepSequence => {
      const place = this.#placeOf(slot)
      firstRows.push(flat)
      flat += ids.length
      const tailLength = this.#tails.lengthOf(place.row, place.member)
      return { ...place, ids, promptLength: slot.prompt.length, tailLength, adapter: indexOf[index] ?? -1 }
    })
    const groups = this.#groups.length
    const result = await this.#model.run(
      {
        sequences,
        groups,
        width: this.width,
        prompts: this.#prompts ?? this.#groupAt(0).prompt.cache,
        tails: this.#tails,
        logitRows: Array.from({ length: flat }, (_, index) => index),
        inverseTemperatures: parts.flatMap(({ ids, inverseTemperature }) => ids.map(() => inverseTemperature)),
        adapters,
      },
      fetch,
    )
    const { vocabularySize } = this.#model.config
    const slots = groups * this.#shape.kvHeadCount * this.width
    const source = { data: result.newRows, slots, width: this.width, tokens }
    const placeOf = (part: number): KvPlace => {
      const { row, member } = sequences[part] ?? missing(part)
      return { row, member }
    }
    return {
      row: (part, token) => logitsRow(result, (firstRows[part] ?? missing(part)) + token, vocabularySize),
      keep: (part, count) => {
        const place = placeOf(part)
        if (count > 0) this.#tails.append(place, { ...source, ...place, count })
        // A row of NaN must not reach whoever gets its memory next: 0 times NaN is NaN.
        else this.#tails.clear(place)
      },
    }
  }

  #addGroup(prompt: KvRun): number {
    this.#groups.push({ prompt, slots: Array.from({ length: this.width }, () => null) })
    this.#tails.addRow()
    if (this.#groups.length === 2) {
      this.#prompts = new KvCache(this.#shape, 1, { memory: this.#memory })
      for (const group of this.#groups) this.#layPrompt(this.#prompts, group.prompt)
    } else if (this.#prompts !== null) this.#layPrompt(this.#prompts, prompt)
    return this.#groups.length - 1
  }

  #layPrompt(prompts: KvCache, { cache, length }: KvRun): void {
    if (length > prompts.capacity) prompts.setCapacity(length)
    const row = prompts.addRow()
    prompts.appendFrom({ row, member: 0 }, cache, { ...PLACE, start: 0, count: length })
  }

  #removeGroup(row: number): void {
    this.#tails.removeRow(row)
    this.#prompts?.removeRow(row)
    const last = this.#groups.pop()
    if (last !== undefined && row < this.#groups.length) this.#groups[row] = last
    if (this.#groups.length < 2) {
      this.#prompts?.release()
      this.#prompts = null
    } else if (this.#prompts !== null && this.#prompts.capacity > 2 * this.#prompts.longest) {
      this.#prompts.setCapacity(this.#prompts.longest)
    }
  }

  /** Makes C at least `tokens`, at once if need be. */
  #reserve(tokens: number): void {
    if (tokens <= this.#tails.capacity) return
    const prepared = this.#tails.preparedCapacity
    this.#tails.setCapacity(prepared >= tokens ? prepared : capacityFor(tokens))
  }

  /**
   * Keeps C tight, because every step pays for it. Another capacity moves the tails of all slots, so it is prepared in the
   * steps before it is needed, a part in each.
   */
  #followLongest(tokens: number): void {
    this.#reserve(tokens)
    const { capacity } = this.#tails
    if (capacity > 2 * tokens + CAPACITY_STEP) {
      const tight = capacityFor(tokens + CAPACITY_STEP)
      if (this.#tails.prepareCapacity(tight, SHRINKING_STEPS)) this.#tails.setCapacity(tight)
    } else {
      const left = capacity - tokens
      if (left < PREPARING_STEPS) this.#tails.prepareCapacity(capacityFor(capacity + 1), left + 1)
    }
  }

  #placeOf(slot: LaneSlot): KvPlace {
    for (const [row, { slots }] of this.#groups.entries()) {
      const member = slots.indexOf(slot)
      if (member >= 0) return { row, member }
    }
    throw new Error('the slot is not in this lane')
  }

  #groupAt(row: number): Group {
    const group = this.#groups[row]
    if (group === undefined) throw new Error(`lane has no group ${row}`)
    return group
  }
}

/** Not token by token, because tails must move. */
function capacityFor(tokens: number): number {
  const growth = Math.max(CAPACITY_STEP, Math.ceil(tokens / 8 / CAPACITY_STEP) * CAPACITY_STEP)
  return Math.ceil(tokens / growth) * growth
}

function missing(part: number): never {
  throw new Error(`the step had no part ${part}`)
}
