/**
 * Compiled grammars of one base model, kept by content: the same schema is compiled once, however many requests bring it.
 *
 * Bounded: a grammar is a thread with memory of its own. The one that was not used for longest goes first; those in use stay, and
 * beyond the bound a new one is refused. Few compile at once, the others wait; what nobody uses for some time is given back.
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
  /**
   * @param isWanted asked when it is this grammar's turn to be compiled: a request may have ended meanwhile
   * @throws as `compileGrammar`; {AppError} `grammar_queue_full` (429) when every place is taken by a running request, `cancelled` when nobody wants it
   */
  lease(spec: GrammarSpec, isWanted?: () => boolean): Promise<GrammarLease>
  /** Ends all threads. */
  dispose(): Promise<void>
}

interface Entry {
  readonly grammar: Promise<Grammar>
  leases: number
  compiled: Grammar | null
  /** Of the requests that came before it was compiled. */
  readonly wanted: (() => boolean)[]
  /** Runs while nobody uses it. */
  idle: NodeJS.Timeout | null
}

/** Each compiling grammar takes a processor from the model. */
const MAX_COMPILING = 2
const MIB = 2 ** 20
const MAX_IDLE_BYTES = 96 * MIB
const IDLE_MS = 600_000

/** @param maxGrammars threads at most, each with up to its limit of memory */
export function createGrammarCache(options: {
  readonly compile: (spec: GrammarSpec) => Promise<Grammar>
  readonly maxGrammars: number
  /** Of those that nobody uses, together. */
  readonly maxIdleBytes?: number
  /** A grammar that nobody used for so long is given back. */
  readonly idleMs?: number
}): GrammarCache {
  // in order of last use
  const entries = new Map<string, Entry>()
  const { maxIdleBytes = MAX_IDLE_BYTES, idleMs = IDLE_MS } = options
  let compiling = 0
  /** Those whose turn has not come. */
  const queue: (() => void)[] = []

  function end(key: string, entry: Entry): void {
    if (entry.idle !== null) clearTimeout(entry.idle)
    if (entries.get(key) === entry) entries.delete(key)
    void entry.grammar.then((grammar) => grammar.dispose()).catch(() => undefined)
  }

  function makeRoom(): void {
    if (entries.size < options.maxGrammars) return
    const idle = [...entries].find(([, entry]) => entry.leases === 0)
    if (idle === undefined) {
      throw new AppError('rate_limited', 'grammar_queue_full', `${entries.size} grammars are in use already`, {
        hint: 'send fewer different schemas at once, or raise the limit',
        details: { retry_after_seconds: 1 },
      })
    }
    end(...idle)
  }

  /** Nobody uses it any more: it is kept for a while, and others go if together they hold too much. */
  function rest(key: string, entry: Entry): void {
    if (entries.get(key) !== entry) return
    entries.delete(key)
    entries.set(key, entry)
    entry.idle = setTimeout(() => end(key, entry), idleMs)
    entry.idle.unref()
    const idle = [...entries].filter(([, { leases }]) => leases === 0)
    const bytesOf = ({ compiled }: Entry): number => compiled?.bytes ?? 0
    let sum = idle.reduce((bytes, [, other]) => bytes + bytesOf(other), 0)
    for (const oldest of idle) {
      if (sum <= maxIdleBytes) return
      sum -= bytesOf(oldest[1])
      end(...oldest)
    }
  }

  async function compileInTurn(spec: GrammarSpec, wanted: readonly (() => boolean)[]): Promise<Grammar> {
    if (compiling >= MAX_COMPILING) await new Promise<void>((resolve) => queue.push(resolve))
    else compiling++
    try {
      if (wanted.some((isWanted) => isWanted())) return await options.compile(spec)
      throw new AppError('cancelled', 'cancelled', 'the request was aborted before its grammar was compiled')
    } finally {
      // its place goes to the next one
      const next = queue.shift()
      if (next === undefined) compiling--
      else next()
    }
  }

  function entryOf(key: string, spec: GrammarSpec, isWanted: () => boolean): Entry {
    const known = entries.get(key)
    if (known !== undefined) {
      entries.delete(key)
      entries.set(key, known)
      if (known.compiled === null) known.wanted.push(isWanted)
      return known
    }
    makeRoom()
    const wanted = [isWanted]
    const entry: Entry = { grammar: compileInTurn(spec, wanted), leases: 0, compiled: null, wanted, idle: null }
    entries.set(key, entry)
    entry.grammar.then(
      (grammar) => {
        entry.compiled = grammar
        wanted.length = 0
      },
      () => {
        if (entries.get(key) === entry) entries.delete(key)
      },
    )
    return entry
  }

  async function lease(spec: GrammarSpec, isWanted: () => boolean = () => true): Promise<GrammarLease> {
    const key = grammarKey(spec)
    const entry = entryOf(key, spec, isWanted)
    entry.leases++
    if (entry.idle !== null) clearTimeout(entry.idle)
    let grammar: Grammar
    try {
      grammar = await entry.grammar
    } catch (error) {
      entry.leases--
      // the request that brought it has gone, this one has not
      if (error instanceof AppError && error.code === 'cancelled' && isWanted()) return lease(spec, isWanted)
      throw error
    }
    if (grammar.isDead && entries.get(key) === entry) {
      entries.delete(key)
      return lease(spec, isWanted)
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
        if (entry.leases === 0) rest(key, entry)
      },
    }
  }

  return {
    lease,
    dispose: async () => {
      const all = [...entries.values()]
      entries.clear()
      for (const { idle } of all) if (idle !== null) clearTimeout(idle)
      await Promise.allSettled(all.map(async (entry) => (await entry.grammar).dispose()))
    },
  }
}
