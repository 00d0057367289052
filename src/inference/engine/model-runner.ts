/**
 * What the scheduler asks of whoever computes the steps of a base model.
 *
 * A runner has the weights, the adapters in memory, and all keys and values. Its caller knows requests, tokens and whose turn it is, and
 * speaks of two things only: sequences, which are keys and values on their own, and slots, the places of choices that are being
 * decoded. `runner/onnx-runner.ts` is the one there is; every other has to pass `test/integration/inference/conformance/model-runner.ts`.
 * Calls come from one thread, and none but `loadAdapter` while a step is under way.
 */
import type { AdapterSource } from './generation.js'
import type { LogitsRow, StepFetch } from './logits-row.js'

/** Keys and values of tokens that follow each other. Its memory is free once nobody refers to it. */
export interface KvSequence {
  /** Tokens. */
  readonly length: number
  readonly sizeBytes: number
  /** Copies tokens [start, start + count) of another sequence of this runner behind its own. */
  copyFrom(source: KvSequence, start: number, count: number): void
}

/** An adapter in memory. Who refers to it may use it, also when the runner has forgotten it. */
export interface LoadedAdapter {
  readonly sizeBytes: number
}

/** The place of a choice that is decoded: what it has added to its prompt. */
export interface Slot {
  /** What it goes on from: a prompt from its first token, which must not change any more. */
  readonly prompt: KvSequence
}

/** Slots that go through the model together. */
export interface SlotBatch {
  readonly slots: readonly Slot[]
}

/** New tokens of a prompt. */
export interface PrefillPart {
  readonly sequence: KvSequence
  /** At least one. */
  readonly ids: readonly number[]
  /** null: the base model. */
  readonly adapter: LoadedAdapter | null
  /** Of which tokens rows are wanted: a step without any does not read the head. */
  readonly rows: 'none' | 'last' | 'all'
}

/** New tokens of a choice, with a row for each: the last one sampled, and guesses of those that follow. */
export interface DecodePart {
  readonly slot: Slot
  /** At least one. */
  readonly ids: readonly number[]
  readonly adapter: LoadedAdapter | null
  /** 1 / temperature of the row's probabilities. */
  readonly inverseTemperature: number
}

/** What a step gave; valid until the next one. */
export interface StepRows {
  /** The row behind token `token` of part `part`. */
  row(part: number, token: number): LogitsRow
  /**
   * Puts keys and values of the first `count` new tokens of a part behind what its sequence or slot has. What is not kept is lost.
   *
   * @param count 0: a slot loses all it had, so that numbers that are not finite reach nobody
   */
  keep(part: number, count: number): void
}

/** Who a slot is given to. */
export interface SlotRequest {
  /** What the choice had added to the prompt when it gave its slot away; null: nothing. */
  readonly tail: KvSequence | null
  /** Choices that go on from the same prompt about now, itself included. */
  readonly siblings: number
  /** Choices of its request, itself included. */
  readonly choices: number
}

/** Computes steps. The same tokens give the same bits whatever else is computed with them. */
export interface ModelRunner {
  readonly vocabularySize: number
  /** Keys and values of one token. */
  readonly bytesPerToken: number
  /** Tokens of prompts that one step should have at most: a larger step takes longer than several. */
  readonly mostPrefillTokens: number
  /** Tokens of choices up to which a step takes hardly longer than with one. */
  readonly cheapDecodeTokens: number
  /** How many of `budget` new tokens may follow `length` known ones in one step. */
  prefillLimit(length: number, budget: number): number
  readonly threads: RunnerThreads

  /**
   * An adapter, from memory or loaded. Runs beside steps.
   *
   * @throws {WeightsError} if its files cannot be read or do not fit the base model
   */
  loadAdapter(source: AdapterSource): Promise<LoadedAdapter>
  /** Drops one adapter, or all. */
  forgetAdapters(digest?: string): void

  /** An empty sequence that will have so many tokens. */
  createSequence(tokens: number): KvSequence
  /**
   * Computes tokens of prompts; rows have logits and log-probabilities.
   *
   * @param parts one, or several whose sequences are empty
   */
  prefill(parts: readonly PrefillPart[]): Promise<StepRows>

  /** All slots, by which go through the model together. */
  readonly batches: readonly SlotBatch[]
  /** Memory of all slots, without their prompts. */
  readonly slotBytes: number
  allocate(prompt: KvSequence, request: SlotRequest): Slot
  /** A copy of what a slot has, behind the last `promptTokens` tokens of its prompt. */
  fork(slot: Slot, promptTokens?: number): KvSequence
  /** Gives a slot back; it must not be used any more. */
  free(slot: Slot): void
  /**
   * Called after a step: puts slots together that others have left apart.
   *
   * @param isAwaited whether more choices of a prompt will come soon
   */
  compact(isAwaited: (prompt: KvSequence) => boolean): void
  /** Computes tokens of all slots of one batch. */
  decode(parts: readonly DecodePart[], fetch: readonly StepFetch[]): Promise<StepRows>

  /** Gives memory that nothing is in back to the system. */
  trim(): void
  release(): Promise<void>
}

/** Fewer threads for as long as something else computes on the same machine; answers have the same bits with both. */
export interface RunnerThreads {
  /** Threads of the next step; null: as many as the runner takes. */
  readonly count: number | null
  readonly canNarrow: boolean
  readonly isNarrow: boolean
  /** Whether `narrow` takes no time. */
  readonly isNarrowLoaded: boolean
  /** How long `narrow` takes where it is not loaded, about. */
  readonly loadMs: number
  /** Steps run on few threads from the next one on. @throws {AppError} `out_of_memory`; {RuntimeError} if that cannot be had */
  narrow(): Promise<void>
  /** Steps run on all threads from the next one on. */
  widen(): void
  /** Gives back what `narrow` has loaded, unless it is in use. */
  dropNarrow(): Promise<void>
}
