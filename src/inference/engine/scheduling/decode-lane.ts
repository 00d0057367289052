/**
 * Choices that are decoded in one step: groups of up to `width` choices that go on from the same prompt.
 *
 * A group's prompt is stored once. While the lane has one group the prompt is used where it lies; several are laid side by
 * side, because the step graph needs dense tensors. What choices have added is in tails of their own.
 */
import { AppError } from '#base/errors/errors.js'
import type { TokenEvent } from '../generation.js'
import { KvCache } from '../runner/kv-cache.js'
import type { KvMemory } from '../runner/kv-memory.js'
import { CAPACITY_UNIT, type KvPlace, type KvShape } from '../runner/kv-shape.js'
import { logitsRow } from '../runner/logits-row.js'
import type { StepSequence } from '../runner/step-batch.js'
import { distinctAdapters, type StepFetch, type StepModel } from '../runner/step-model.js'
import type { Choice } from '../sampling/choice.js'
import type { ActiveRequest } from './active-request.js'
import type { ComputedPrompt } from './prefix-cache.js'

/** A choice with what it goes on from. */
export interface Seat {
  readonly active: ActiveRequest
  readonly choice: Choice
  readonly prompt: ComputedPrompt
  /** Row 0: what it has added to the prompt; null: nothing. */
  readonly tail: KvCache | null
}

interface Group {
  readonly prompt: ComputedPrompt
  readonly seats: (Seat | null)[]
}

/** What a step gave one choice; an error concerns its request only. */
export interface LaneOutcome {
  readonly seat: Seat
  readonly events: readonly (TokenEvent | AppError)[]
}

/** Tokens of a step with guesses: so many rows of a product take hardly longer than one. */
const MOST_GUESSED_ROWS = 8
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

export class DecodeLane {
  readonly width: number
  /** Time of the last step, and when it ended. */
  lastMs = 0
  lastTurnMs = performance.now()
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

  /** Gives all memory back; there must be no seat, and none may come. */
  release(): void {
    this.#tails.release()
    this.#prompts?.release()
  }

  get seats(): readonly Seat[] {
    return this.#groups.flatMap(({ seats }) => seats.filter((seat) => seat !== null))
  }

  /** Memory held beside the prompts themselves. */
  get sizeBytes(): number {
    return this.#tails.sizeBytes + (this.#prompts?.sizeBytes ?? 0)
  }

  /** Whether a choice of this prompt finds its group here, with a free slot. */
  hasRoomFor(prompt: ComputedPrompt): boolean {
    return this.#groups.some((group) => group.prompt === prompt && group.seats.includes(null))
  }

  add(seat: Seat): void {
    let row = this.#groups.findIndex(({ prompt, seats }) => prompt === seat.prompt && seats.includes(null))
    if (row < 0) row = this.#addGroup(seat.prompt)
    const group = this.#groupAt(row)
    const member = group.seats.indexOf(null)
    group.seats[member] = seat
    const { tail } = seat
    if (tail === null) return
    const count = tail.lengthOf(0)
    this.#reserve(count)
    this.#tails.appendFrom({ row, member }, tail, { ...PLACE, start: 0, count })
  }

  /** Frees a choice's slot; does nothing if it has none. */
  remove(choice: Choice): void {
    const place = this.#placeOf(choice)
    if (place === null) return
    const group = this.#groupAt(place.row)
    group.seats[place.member] = null
    if (group.seats.some((seat) => seat !== null)) this.#tails.clear(place)
    else this.#removeGroup(place.row)
  }

  /**
   * A copy of what a choice has added to its prompt.
   *
   * @param options.extra tokens of the prompt's end to put in front
   */
  copyTail(choice: Choice, extra = 0): KvCache | null {
    const place = this.#placeOf(choice)
    if (place === null) return null
    const count = this.#tails.lengthOf(place.row, place.member)
    const { prompt } = this.#groupAt(place.row)
    const copy = new KvCache(this.#shape)
    copy.addRow()
    copy.setCapacity(extra + count)
    const promptLength = prompt.cache.lengthOf(0)
    if (extra > 0) copy.appendFrom(PLACE, prompt.cache, { ...PLACE, start: promptLength - extra, count: extra })
    if (count > 0) copy.appendFrom(PLACE, this.#tails, { ...place, start: 0, count })
    return copy
  }

  /** Choices of each group. */
  get groups(): readonly (readonly Seat[])[] {
    return this.#groups.map(({ seats }) => seats.filter((seat) => seat !== null))
  }

  /** Places that a step computes for nobody, and choices, once a group of so many came. */
  loadWith(siblings: number): { readonly empty: number; readonly rows: number } {
    const rows = this.seats.length + siblings
    const groups = this.#groups.length + (siblings > 0 ? Math.ceil(siblings / this.width) : 0)
    return { rows, empty: groups * this.width - rows }
  }

  /** A token or more for every choice. */
  async step(): Promise<readonly LaneOutcome[]> {
    const places = this.#groups.flatMap(({ prompt, seats }, row) =>
      seats.flatMap((seat, member) => (seat === null ? [] : [{ seat, row, member, length: prompt.cache.lengthOf(0) }])),
    )
    const room = Math.floor(MOST_GUESSED_ROWS / places.length) - 1
    let flat = 0
    const seated = places.map((place) => {
      const { choice } = place.seat
      const guess = room > 0 ? choice.guess(room) : []
      const firstRow = flat
      flat += 1 + guess.length
      return { ...place, guess, firstRow }
    })
    const tokens = Math.max(...seated.map(({ guess }) => 1 + guess.length))
    this.#followLongest(this.#tails.longest + tokens)
    const { adapters, indexOf } = distinctAdapters(seated.map(({ seat }) => seat.active.layout))
    const sequences = seated.map(({ seat, row, member, length, guess }, index): StepSequence => {
      const ids = [seat.choice.outputIds.at(-1) ?? 0, ...guess]
      const tailLength = this.#tails.lengthOf(row, member)
      return { row, member, ids, promptLength: length, tailLength, adapter: indexOf[index] ?? -1 }
    })
    const result = await this.#model.run(
      {
        sequences,
        groups: this.#groups.length,
        width: this.width,
        prompts: this.#prompts ?? this.#groupAt(0).prompt.cache,
        tails: this.#tails,
        logitRows: Array.from({ length: flat }, (_, index) => index),
        inverseTemperatures: seated.flatMap(({ seat, guess }) =>
          Array.from({ length: 1 + guess.length }, () => seat.choice.inverseTemperature),
        ),
        adapters,
      },
      [...new Set<StepFetch>(seated.flatMap(({ seat }) => seat.choice.fetch))],
    )
    const slots = this.#groups.length * this.#shape.kvHeadCount * this.width
    const { vocabularySize } = this.#model.config
    return seated.map(({ seat, row, member, guess, firstRow }) => {
      const place = { row, member }
      const events = seat.choice.nextAfter(guess, (i) => logitsRow(result, firstRow + i, vocabularySize))
      // The last token sampled has not been computed yet; those before it were guessed right.
      this.#tails.append(place, {
        data: result.newRows,
        slots,
        width: this.width,
        row,
        member,
        tokens,
        // a beam tells nothing yet; a token whose mask is awaited follows those told
        count: Math.max(1, events.length + (seat.choice.maskWait === null ? 0 : 1)),
      })
      // A row of NaN must not reach whoever gets its memory next: 0 times NaN is NaN.
      if (events.at(-1) instanceof AppError) this.#tails.clear(place)
      return { seat, events }
    })
  }

  #addGroup(prompt: ComputedPrompt): number {
    this.#groups.push({ prompt, seats: Array.from({ length: this.width }, () => null) })
    this.#tails.addRow()
    if (this.#groups.length === 2) {
      this.#prompts = new KvCache(this.#shape, 1, { memory: this.#memory })
      for (const group of this.#groups) this.#layPrompt(this.#prompts, group.prompt.cache)
    } else if (this.#prompts !== null) this.#layPrompt(this.#prompts, prompt.cache)
    return this.#groups.length - 1
  }

  #layPrompt(prompts: KvCache, source: KvCache): void {
    const count = source.lengthOf(0)
    if (count > prompts.capacity) prompts.setCapacity(count)
    const row = prompts.addRow()
    prompts.appendFrom({ row, member: 0 }, source, { ...PLACE, start: 0, count })
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
   * Keeps C tight, because every step pays for it. Another capacity moves the tails of all choices, so it is prepared in the
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

  #placeOf(choice: Choice): KvPlace | null {
    for (const [row, { seats }] of this.#groups.entries()) {
      const member = seats.findIndex((seat) => seat?.choice === choice)
      if (member >= 0) return { row, member }
    }
    return null
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
