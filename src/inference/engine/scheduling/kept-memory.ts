/**
 * How much an engine keeps for later requests, and for how long.
 *
 * What is kept of prompts and answers is limited to a number of whole conversations, because memory beyond that is hardly ever used
 * again: with a share of the memory as the only limit, the engine of a small model on a large machine grew by gigabytes. An engine
 * without requests gives memory back in steps: first what nothing refers to, then all but the latest conversation, in the end
 * everything. What only the whole process could give back is its owner's, who is told in between (`rested`).
 */
import { collectGarbage } from '#base/machine/collect-garbage.js'

/** Conversations as long as the model's context. */
const KEPT_CONVERSATIONS = 4
/** Share of the memory for keys and values. */
const KEPT_SHARE = 0.5

/** What may be kept, bytes of keys and values. */
export interface KeptBytes {
  readonly most: number
  /** While nobody asks: the latest conversation. */
  readonly idle: number
}

/** @param kvBytes memory for all keys and values */
export function keptBytes(bytesPerToken: number, contextLength: number, kvBytes: number): KeptBytes {
  const conversation = contextLength * bytesPerToken
  const most = Math.min(KEPT_SHARE * kvBytes, KEPT_CONVERSATIONS * conversation)
  return { most, idle: Math.min(most, conversation) }
}

/** When an idle engine gives what back. */
export interface IdleSteps {
  /** Memory that running answers left. */
  readonly trimMs: number
  /** What is kept for later, but for the latest. */
  readonly shrinkMs: number
  /** The process itself, where that is little work. */
  readonly restedMs: number
  /** All of it. */
  readonly emptyMs: number
}

export const IDLE_STEPS: IdleSteps = { trimMs: 10_000, shrinkMs: 30_000, restedMs: 45_000, emptyMs: 600_000 }

/** Gives memory back step by step from `start` on, until `stop`. */
export interface IdleGiving {
  start(): void
  stop(): void
}

/** @param give what each step does; memory that nothing refers to any more is collected behind the later ones */
export function createIdleGiving(
  give: { readonly [step in 'trim' | 'shrink' | 'rested' | 'empty']: () => void },
  { trimMs, shrinkMs, restedMs, emptyMs }: IdleSteps = IDLE_STEPS,
): IdleGiving {
  let timers: readonly NodeJS.Timeout[] = []
  const collecting = (step: () => void) => (): void => {
    step()
    // a Node that cannot be asked collects when it likes
    collectGarbage().catch(() => undefined)
  }
  const stop = (): void => {
    for (const timer of timers) clearTimeout(timer)
    timers = []
  }
  return {
    start: () => {
      stop()
      timers = [
        setTimeout(give.trim, trimMs),
        setTimeout(collecting(give.shrink), shrinkMs),
        setTimeout(give.rested, restedMs),
        setTimeout(collecting(give.empty), emptyMs),
      ].map((timer) => timer.unref())
    },
    stop,
  }
}
