/**
 * When an engine changes to fewer threads, because a job computes on the same machine, and when it takes all again.
 *
 * The session with fewer threads costs time to load, so it is loaded only where answers are generated beside a job: in the first
 * pause after the engine has worked as long as loading takes, or, while streams run, after ten times as long. From then on both
 * sessions are loaded and a change takes no time. Knows nothing of jobs; asked between steps.
 */
import type { RunnerThreads } from '../model-runner.js'

/** What an engine's steps run on from now on. */
export interface ThreadsChange {
  /** null: as many as the runtime takes. */
  readonly threads: number | null
  /** For how long the change held the engine up, milliseconds. */
  readonly heldUpMs: number
  /** Why fewer threads cannot be had; steps go on as before then. */
  readonly error: unknown
}

/** Running streams are held up for at most this share of the time they have run beside a job. */
const HELD_UP_SHARE = 0.1
/** For how long the session is kept after a job, as workers are: whoever trains in a loop loads it once. */
const KEEP_MS = 10 * 60_000

export class CoreSharing {
  readonly #threads: RunnerThreads
  readonly #onChange: (change: ThreadsChange) => void
  #isShared = false
  /** Time of work beside this job. */
  #busyMs = 0
  /** Not tried again before the next job. */
  #isGivenUp = false
  #dropping: NodeJS.Timeout | null = null

  constructor(threads: RunnerThreads, onChange: (change: ThreadsChange) => void = () => undefined) {
    this.#threads = threads
    this.#onChange = onChange
  }

  /** @param isShared whether a job computes on the same machine */
  set(isShared: boolean): void {
    if (isShared === this.#isShared || !this.#threads.canNarrow) return
    this.#isShared = isShared
    this.#isGivenUp = false
    this.#busyMs = 0
    this.close()
    if (!isShared) this.#dropping = setTimeout(() => void this.#threads.dropNarrow(), KEEP_MS).unref()
  }

  /** @param durationMs of work that was just done for requests */
  noteWork(durationMs: number): void {
    if (this.#isShared) this.#busyMs += durationMs
  }

  /** @param isIdle whether nobody would wait for it */
  isDue(isIdle: boolean): boolean {
    const { isNarrow, isNarrowLoaded, loadMs } = this.#threads
    if (this.#isShared === isNarrow || this.#isGivenUp) return false
    return !this.#isShared || isNarrowLoaded || this.#busyMs * (isIdle ? 1 : HELD_UP_SHARE) >= loadMs
  }

  /** Does what is due, between steps. Blocks while a session is loaded; a failure is told and changes nothing. */
  async settle(): Promise<void> {
    const fromMs = performance.now()
    let error: unknown = null
    if (this.#isShared) {
      try {
        await this.#threads.narrow()
      } catch (cause) {
        error = cause
        this.#isGivenUp = true
      }
    } else {
      this.#threads.widen()
    }
    this.#onChange({ threads: this.#threads.count, heldUpMs: performance.now() - fromMs, error })
  }

  /** Ends a waiting for the time when the second session is given up; it goes with the model. */
  close(): void {
    if (this.#dropping !== null) clearTimeout(this.#dropping)
    this.#dropping = null
  }
}
