/**
 * Choices that have a slot of the runner, and their steps. `batch-turns.ts` says which of the runner's batches makes the next one.
 */
import { AppError } from '#base/errors/errors.js'
import type { TokenEvent } from '../generation.js'
import type { StepFetch } from '../logits-row.js'
import type { KvSequence, ModelRunner, Slot, SlotBatch } from '../model-runner.js'
import type { Choice } from '../sampling/choice.js'
import type { ActiveRequest } from './active-request.js'
import { BatchTurns, kindOf } from './batch-turns.js'
import type { ComputedPrompt } from './prefix-cache.js'

/** A choice with what it goes on from. */
export interface Seat {
  readonly active: ActiveRequest
  readonly choice: Choice
  readonly prompt: ComputedPrompt
  /** What it has added to the prompt; null: nothing. */
  readonly tail: KvSequence | null
}

/** What a step gave one choice; an error concerns its request only. */
export interface StepOutcome {
  readonly seat: Seat
  readonly events: readonly (TokenEvent | AppError)[]
}

/** A batch's last step. */
interface BatchTime {
  lastMs: number
  /** When it ended, or when the batch was made. */
  lastTurnMs: number
}

export class RunningChoices {
  readonly #runner: ModelRunner
  readonly #seats = new Map<Slot, Seat>()
  readonly #slotOf = new Map<Choice, Slot>()
  readonly #seatsOf = new Map<ActiveRequest, Seat[]>()
  readonly #times = new WeakMap<SlotBatch, BatchTime>()
  readonly #turns = new BatchTurns()

  constructor(runner: ModelRunner) {
    this.#runner = runner
  }

  get count(): number {
    return this.#slotOf.size
  }

  get batchCount(): number {
    return this.#runner.batches.length
  }

  /** What a token of every running choice takes, by the last step of each batch. */
  get roundMs(): number {
    return this.#runner.batches.reduce((sum, batch) => sum + this.#timeOf(batch).lastMs, 0)
  }

  /** Requests with running choices, and those. */
  get running(): ReadonlyMap<ActiveRequest, readonly Seat[]> {
    return this.#seatsOf
  }

  /**
   * Gives a choice a slot.
   *
   * @param siblings choices that go on from the same prompt about now, itself included
   */
  add(seat: Seat, siblings: number): void {
    const { active, choice, prompt, tail } = seat
    const slot = this.#runner.allocate(prompt.sequence, { tail, siblings, choices: active.choices.length })
    this.#seats.set(slot, seat)
    this.#slotOf.set(choice, slot)
    const seats = this.#seatsOf.get(active)
    if (seats === undefined) this.#seatsOf.set(active, [seat])
    else seats.push(seat)
    this.#noteBatches()
  }

  /** Frees a choice's slot; does nothing if it has none. */
  remove(choice: Choice): void {
    const slot = this.#slotOf.get(choice)
    const seat = slot === undefined ? undefined : this.#seats.get(slot)
    if (slot === undefined || seat === undefined) return
    this.#runner.free(slot)
    this.#slotOf.delete(choice)
    this.#seats.delete(slot)
    const seats = this.#seatsOf.get(seat.active) ?? []
    seats.splice(seats.indexOf(seat), 1)
    if (seats.length === 0) this.#seatsOf.delete(seat.active)
  }

  /** A copy of what a choice has added to its prompt, behind the last `promptTokens` tokens of that; null if it has no slot. */
  copyTail(choice: Choice, promptTokens = 0): KvSequence | null {
    const slot = this.#slotOf.get(choice)
    return slot === undefined ? null : this.#runner.fork(slot, promptTokens)
  }

  /** Takes a choice's slot away for now; what is returned is added again later. */
  park(seat: Seat): Seat {
    const tail = this.copyTail(seat.choice)
    this.remove(seat.choice)
    return { ...seat, tail }
  }

  /** Starts a step of the batch whose turn it is, for these requests. There must be one. */
  nextStep(): { readonly requests: readonly ActiveRequest[]; readonly outcomes: Promise<readonly StepOutcome[]> } {
    const loads = this.#runner.batches.map((batch) => {
      const seats = batch.slots.flatMap((slot) => this.#seats.get(slot) ?? [])
      const active = [...new Set(seats.map((seat) => seat.active))]
      return { batch, active, rows: seats.length, requests: active.length, ...this.#timeOf(batch) }
    })
    const { batch, active, ...load } = this.#turns.next(loads, performance.now())
    const kind = kindOf(load)
    const sharing = loads.filter((other) => kindOf(other) === kind).reduce((sum, { requests }) => sum + requests, 0)
    const charge = (ms: number): void => this.#turns.charge(kind, ms, sharing)
    return { requests: active, outcomes: this.#timed(batch, charge) }
  }

  /** @param isAwaited whether choices of a prompt wait for a slot */
  compact(isAwaited: (prompt: KvSequence) => boolean): void {
    this.#runner.compact(isAwaited)
    this.#noteBatches()
  }

  /** A step, with its time noted. */
  async #timed(batch: SlotBatch, charge: (ms: number) => void): Promise<readonly StepOutcome[]> {
    const startedMs = performance.now()
    try {
      return await this.#step(batch)
    } finally {
      const time = this.#timeOf(batch)
      time.lastTurnMs = performance.now()
      time.lastMs = time.lastTurnMs - startedMs
      charge(time.lastMs)
    }
  }

  /** A token or more for every choice of a batch. */
  async #step({ slots }: SlotBatch): Promise<readonly StepOutcome[]> {
    const room = Math.floor(this.#runner.cheapDecodeTokens / slots.length) - 1
    const seated = slots.map((slot) => {
      const seat = this.#seats.get(slot)
      if (seat === undefined) throw new Error('nobody sits in a slot')
      return { slot, seat, guess: room > 0 ? seat.choice.guess(room) : [] }
    })
    const rows = await this.#runner.decode(
      seated.map(({ slot, seat: { active, choice }, guess }) => ({
        slot,
        ids: [choice.outputIds.at(-1) ?? 0, ...guess],
        adapter: active.adapter,
        inverseTemperature: choice.inverseTemperature,
      })),
      [...new Set<StepFetch>(seated.flatMap(({ seat }) => seat.choice.fetch))],
    )
    return seated.map(({ seat, guess }, part) => {
      const { choice } = seat
      const events = choice.nextAfter(guess, (token) => rows.row(part, token))
      // The last token sampled has not been computed yet; those before it were guessed right. A beam tells nothing yet; a token
      // whose mask is awaited follows those told.
      const count = Math.max(1, events.length + (choice.maskWait === null ? 0 : 1))
      rows.keep(part, events.at(-1) instanceof AppError ? 0 : count)
      return { seat, events }
    })
  }

  #timeOf(batch: SlotBatch): BatchTime {
    const known = this.#times.get(batch)
    if (known !== undefined) return known
    const time = { lastMs: 0, lastTurnMs: performance.now() }
    this.#times.set(batch, time)
    return time
  }

  /** A new batch waits from now on. */
  #noteBatches(): void {
    for (const batch of this.#runner.batches) this.#timeOf(batch)
  }
}
