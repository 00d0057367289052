/**
 * Which batch of slots makes the next step.
 *
 * Batches whose requests have about as many choices each are of one kind: they take turns evenly, so that a choice is not slower for
 * standing in a small batch. Kinds share the processor's time by their requests: one with 64 choices does not make those with a
 * single choice wait. No batch waits for more than a few rounds.
 */
import { minOf } from '#base/util/lists.js'

/** What is asked of a batch. */
export interface TurnTaker {
  /** Choices that run in it, and the requests they belong to; at least one each. */
  readonly rows: number
  readonly requests: number
  /** When its last step ended, or when it was made. */
  readonly lastTurnMs: number
  /** Time of its last step. */
  readonly lastMs: number
}

/** Rounds of all batches that one batch may wait, and what it may wait in any case. */
const MOST_ROUNDS = 3
const FAIR_WAIT_MS = 150

export class BatchTurns {
  /** Time used per request, by kind. */
  readonly #clocks = new Map<number, number>()

  /** The batch whose turn it is; there is at least one. */
  next<T extends TurnTaker>(batches: readonly T[], nowMs: number): T {
    this.#follow(batches)
    const roundMs = batches.reduce((sum, { lastMs }) => sum + lastMs, 0)
    const oldest = first(batches, ({ lastTurnMs }) => lastTurnMs)
    if (nowMs - oldest.lastTurnMs > Math.max(FAIR_WAIT_MS, MOST_ROUNDS * roundMs)) return oldest
    // of kinds that have used the same, the one with fewer choices: it holds up the others for less time
    const kind = first(
      [...this.#clocks.keys()].sort((a, b) => a - b),
      (known) => this.#clocks.get(known) ?? 0,
    )
    return first(
      batches.filter((batch) => kindOf(batch) === kind),
      ({ lastTurnMs }) => lastTurnMs,
    )
  }

  /** Counts a step that a batch has made, by what ran in it and beside it when it began. */
  charge(kind: number, ms: number, requests: number): void {
    this.#clocks.set(kind, (this.#clocks.get(kind) ?? 0) + ms / requests)
  }

  /** A kind that comes owes nothing and is owed nothing; one that goes is forgotten. */
  #follow(batches: readonly TurnTaker[]): void {
    const kinds = new Set(batches.map(kindOf))
    for (const kind of this.#clocks.keys()) if (!kinds.has(kind)) this.#clocks.delete(kind)
    const start = minOf(this.#clocks.values())
    for (const kind of kinds) if (!this.#clocks.has(kind)) this.#clocks.set(kind, Number.isFinite(start) ? start : 0)
  }
}

/** Choices of one request, rounded to a power of two. */
export function kindOf({ rows, requests }: Pick<TurnTaker, 'rows' | 'requests'>): number {
  return Math.round(Math.log2(rows / requests))
}

function first<T>(items: readonly T[], keyOf: (item: T) => number): T {
  const [head, ...rest] = items
  if (head === undefined) throw new Error('no batch is running')
  return rest.reduce((best, item) => (keyOf(item) < keyOf(best) ? item : best), head)
}
