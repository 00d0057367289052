/**
 * The step graph's session, and a second one with fewer threads for as long as something else computes on the same machine.
 *
 * A session keeps its number of threads for life, and its threads wait for each other by spinning: where another process takes the
 * core of one, the others burn time until it returns. Beside a job that uses all cores, half the threads make as many tokens and
 * leave the job twice the time. Both sessions run one graph, which gives the same bits on any number of threads. The second is
 * loaded when it is first needed.
 */
import { AppError } from '#base/errors/errors.js'
import { availableMemoryBytes, inMegabytes, memoryBytes } from '#base/machine/memory.js'
import type { Session } from '#numerics/runtime/runtime.js'
import type { RunnerThreads } from '../model-runner.js'

export interface StepSessionsOptions {
  /** Loads the graph. @param threads null: as many as the runtime takes */
  readonly load: (threads: number | null) => Promise<Session>
  readonly threads: number | null
  /** Threads of the second session; null: there is none. */
  readonly fewThreads: number | null
  /** Memory that a session takes for its copy of the weights. */
  readonly weightBytes: number
}

/** As much of the machine's memory stays free beside the second session. */
const MIN_AVAILABLE_SHARE = 0.1

export class StepSessions implements RunnerThreads {
  readonly #options: StepSessionsOptions
  #wide: Session
  #narrow: Session | null = null
  #current: Session
  /** How long the first session took to load. */
  readonly loadMs: number

  private constructor(options: StepSessionsOptions, wide: Session, loadMs: number) {
    this.#options = options
    this.#wide = wide
    this.#current = wide
    this.loadMs = loadMs
  }

  static async open(options: StepSessionsOptions): Promise<StepSessions> {
    const fromMs = performance.now()
    const wide = await options.load(options.threads)
    return new StepSessions(options, wide, performance.now() - fromMs)
  }

  /** What runs the next step. */
  get current(): Session {
    return this.#current
  }

  /** Threads of the next step; null: as many as the runtime takes. */
  get count(): number | null {
    return this.isNarrow ? this.#options.fewThreads : this.#options.threads
  }

  get canNarrow(): boolean {
    return this.#options.fewThreads !== null
  }

  get isNarrow(): boolean {
    return this.#current !== this.#wide
  }

  get isNarrowLoaded(): boolean {
    return this.#narrow !== null
  }

  /**
   * Steps run on few threads from the next one on. Blocks for as long as the session takes to load, the first time.
   *
   * @throws {AppError} `out_of_memory`; {RuntimeError} if it cannot be loaded
   */
  async narrow(): Promise<void> {
    if (this.#narrow === null) {
      this.#requireMemory()
      this.#narrow = await this.#options.load(this.#options.fewThreads)
    }
    this.#current = this.#narrow
  }

  /** Steps run on all threads from the next one on; the other session stays loaded. */
  widen(): void {
    this.#current = this.#wide
  }

  /** Gives the memory of the second session back, unless it is in use. */
  async dropNarrow(): Promise<void> {
    const dropped = this.#narrow
    if (dropped === null || this.isNarrow) return
    this.#narrow = null
    await dropped.release()
  }

  async release(): Promise<void> {
    this.widen()
    await this.dropNarrow()
    await this.#wide.release()
  }

  #requireMemory(): void {
    const needed = this.#options.weightBytes + MIN_AVAILABLE_SHARE * memoryBytes()
    const available = availableMemoryBytes()
    if (available === null || available >= needed) return
    throw new AppError(
      'unavailable',
      'out_of_memory',
      `a second session for chats beside a job needs ${inMegabytes(needed)} of free memory, there are ${inMegabytes(available)}`,
    )
  }
}
