/**
 * What was started and must end, in one list: each part is added with the way it ends, and the last one that began ends first.
 *
 * The same list serves a start that fails halfway and an orderly end, so that neither forgets what the other knows. Does not know what
 * the parts are.
 */

/** Hears of the parts of a list, as they come and go. */
export interface LifetimeWatch {
  /** A part runs from now on, and is in the list. What this throws fails the start. */
  readonly started?: ((part: string) => void) | undefined
  /** A part has ended, or could not be ended. */
  readonly ended?: ((part: string) => void) | undefined
  /** Why it could not. */
  readonly failed?: ((part: string, error: unknown) => void) | undefined
}

export interface Lifetimes {
  /**
   * Adds a part that has just begun.
   *
   * @param end ends it; gets the time that work of it may still take, milliseconds
   */
  add(part: string, end: (deadlineMs: number) => unknown): void
  /**
   * Ends all parts, one after the other; one that cannot be ended is in the way of no other. The end of the last part is called before
   * this returns. Called again, it is the same end.
   *
   * @param deadlineMs time that work of the parts may still take; default none
   * @throws what the first part threw that could not be ended, when all others have
   */
  end(deadlineMs?: number): Promise<void>
}

export function createLifetimes(watch: LifetimeWatch = {}): Lifetimes {
  const parts: { readonly name: string; readonly end: (deadlineMs: number) => unknown }[] = []
  let ending: Promise<void> | null = null

  async function endAll(deadlineMs: number): Promise<void> {
    const errors: unknown[] = []
    for (let part = parts.pop(); part !== undefined; part = parts.pop()) {
      try {
        await part.end(deadlineMs)
      } catch (error) {
        errors.push(error)
        watch.failed?.(part.name, error)
      }
      watch.ended?.(part.name)
    }
    if (errors.length > 0) throw errors[0]
  }

  return {
    add: (name, end) => {
      parts.push({ name, end })
      watch.started?.(name)
    },
    end: (deadlineMs = 0) => {
      ending ??= endAll(deadlineMs)
      return ending
    },
  }
}

/**
 * Runs a start that adds its parts to `lifetimes`. When it fails, what had begun is ended, without time for work.
 *
 * @throws what the start threw; what goes wrong while it is undone is told to the watch alone
 */
export async function startOrEnd<T>(lifetimes: Lifetimes, start: () => Promise<T>): Promise<T> {
  try {
    return await start()
  } catch (error) {
    await lifetimes.end().catch(() => undefined)
    throw error
  }
}
