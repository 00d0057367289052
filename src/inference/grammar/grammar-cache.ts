/**
 * Compiled grammars of one base model, kept by content: the same schema is compiled once, however many requests bring it.
 *
 * Bounded: a grammar is a thread with memory of its own. The one that was not used for longest goes first; those in use stay,
 * and a new one waits for nobody: beyond the bound it is refused.
 */
import { AppError } from '#base/errors.js'
import type { TokenMask } from '../engine/sampling/token-mask.js'
import type { Grammar } from './grammar.js'
import { type GrammarSpec, grammarKey } from './grammar-spec.js'

/** A grammar lent to one request. */
export interface GrammarLease {
  /** A mask for one choice; released with the lease. */
  createMask(): TokenMask
  /** All masks end. */
  release(): void
}

export interface GrammarCache {
  /** @throws as `compileGrammar`; {AppError} `grammar_queue_full` (429) when every place is taken by a running request */
  lease(spec: GrammarSpec): Promise<GrammarLease>
  /** Ends all threads. */
  dispose(): Promise<void>
}

interface Entry {
  readonly grammar: Promise<Grammar>
  leases: number
}

/** @param maxGrammars threads at most, each with up to its limit of memory */
export function createGrammarCache(options: {
  readonly compile: (spec: GrammarSpec) => Promise<Grammar>
  readonly maxGrammars: number
}): GrammarCache {
  // in order of last use
  const entries = new Map<string, Entry>()

  function makeRoom(): void {
    if (entries.size < options.maxGrammars) return
    const idle = [...entries].find(([, entry]) => entry.leases === 0)
    if (idle === undefined) {
      throw new AppError('rate_limited', 'grammar_queue_full', `${entries.size} grammars are in use already`, {
        hint: 'send fewer different schemas at once, or raise the limit',
        details: { retry_after_seconds: 1 },
      })
    }
    entries.delete(idle[0])
    void idle[1].grammar.then((grammar) => grammar.dispose()).catch(() => undefined)
  }

  function entryOf(key: string, spec: GrammarSpec): Entry {
    const known = entries.get(key)
    if (known !== undefined) {
      entries.delete(key)
      entries.set(key, known)
      return known
    }
    makeRoom()
    const entry: Entry = { grammar: options.compile(spec), leases: 0 }
    entries.set(key, entry)
    entry.grammar.catch(() => {
      if (entries.get(key) === entry) entries.delete(key)
    })
    return entry
  }

  async function lease(spec: GrammarSpec): Promise<GrammarLease> {
    const key = grammarKey(spec)
    const entry = entryOf(key, spec)
    entry.leases++
    let grammar: Grammar
    try {
      grammar = await entry.grammar
    } catch (error) {
      entry.leases--
      throw error
    }
    if (grammar.isDead && entries.get(key) === entry) {
      entries.delete(key)
      return lease(spec)
    }
    const masks: { close(): void }[] = []
    let isReleased = false
    return {
      createMask: () => {
        const mask = grammar.open()
        masks.push(mask)
        return mask
      },
      release: () => {
        if (isReleased) return
        isReleased = true
        entry.leases--
        for (const mask of masks) mask.close()
      },
    }
  }

  return {
    lease,
    dispose: async () => {
      const all = [...entries.values()]
      entries.clear()
      await Promise.allSettled(all.map(async (entry) => (await entry.grammar).dispose()))
    },
  }
}
