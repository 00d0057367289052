/**
 * Fairness between jobs and training sessions, which share the workers. Pure.
 *
 * A free worker is never left idle while something waits for it, and kinds take turns where both wait. A job has its worker
 * to its end, a session as long as nobody waits: then one session at a time gives its worker back, first one that its client
 * leaves idle, else one that had its turn.
 */

export type WorkKind = 'job' | 'session'

/** Work that can give its worker back and go on later. */
export interface Preemptible {
  /** Time in which nothing was to be done; 0 while something is. */
  idleMs(): number
  /** Time in which the worker has had new requests, and not what others had before it; 0 before the first. */
  servedMs(): number
  /** Whether it gives its worker back already. */
  isClosing(): boolean
  /** Has the work give its worker back, once its state is stored. */
  close(): void
}

interface Contest<Held extends Preemptible = Preemptible> {
  readonly isWorkerFree: boolean
  readonly waiting: ReadonlySet<WorkKind>
  /** Kind that was started last; null: none yet. */
  readonly last: WorkKind | null
  /** Work that has the workers in question. */
  readonly held: readonly Held[]
  /** Time that a session which never pauses has its worker while others wait. */
  readonly turnMs: number
}

type Turn<Held extends Preemptible> =
  | { readonly action: 'start'; readonly kind: WorkKind }
  | { readonly action: 'preempt'; readonly work: Held }

/** A session without requests gives way after so long, for a client thinks between two steps. */
export const YIELD_IDLE_MS = 1000

/**
 * The next turn: the kind that a free worker starts, or, where none is free, the work that gives one back; null: none, for
 * now.
 */
export function fairTurn<Held extends Preemptible>(contest: Contest<Held>): Turn<Held> | null {
  const { isWorkerFree, waiting, last, held, turnMs } = contest
  if (waiting.size === 0) return null
  if (isWorkerFree) {
    const first: WorkKind = last === 'job' ? 'session' : 'job'
    return { action: 'start', kind: waiting.has(first) ? first : last === 'job' ? 'job' : 'session' }
  }
  if (held.some((work) => work.isClosing())) return null
  const idle = held.filter((work) => work.idleMs() >= YIELD_IDLE_MS).sort((a, b) => b.idleMs() - a.idleMs())
  // a turn in which nothing new was done would be none, where a start takes longer than a turn
  const work = idle[0] ?? held.find((each) => each.servedMs() >= turnMs)
  return work === undefined ? null : { action: 'preempt', work }
}
