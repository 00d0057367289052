/**
 * Compiled grammars of one base model, kept by content: the same schema is compiled once, however many requests bring it.
 *
 * Bounded: a grammar is a thread with memory of its own. The one that was not used for longest goes first. Where all are in use a new
 * one waits, and so that it does not wait for ever, nobody else joins the one that was asked for least lately. Few compile at once;
 * what nobody uses for some time is given back.
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
   * @param isWanted asked when it is this grammar's turn to have a place, or to be compiled: a request may have ended meanwhile
   * @throws as `compileGrammar`; {AppError} `cancelled` when nobody wants it
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

/** A request whose grammar has no place yet. */
interface Waiting {
  readonly spec: GrammarSpec
  readonly isWanted: () => boolean
  readonly give: (entry: Entry) => void
  readonly refuse: (error: AppError) => void
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
  /** Those for which there is no place, as they came. */
  const waiting: Waiting[] = []
  /** In use, and nobody joins them any more: their places are waited for. */
  const leaving = new Map<Entry, string>()

  function forget(key: string, entry: Entry): void {
    if (entries.get(key) === entry) entries.delete(key)
    leaving.delete(entry)
  }

  function end(key: string, entry: Entry): void {
    if (entry.idle !== null) clearTimeout(entry.idle)
    forget(key, entry)
    void entry.grammar.then((grammar) => grammar.dispose()).catch(() => undefined)
  }

  /** Ends what nobody uses for a new grammar. @returns whether there is a place for one */
  function hasRoom(): boolean {
    if (entries.size + leaving.size < options.maxGrammars) return true
    const idle = [...entries].find(([, entry]) => entry.leases === 0)
    if (idle !== undefined) end(...idle)
    return idle !== undefined
  }

  /** Gives those who wait what they wait for, as far as there are places. */
  function serveWaiting(): void {
    for (let first = waiting[0]; first !== undefined; first = waiting[0]) {
      const { spec, isWanted, give, refuse } = first
      const known = entries.get(grammarKey(spec))
      if (known === undefined && isWanted() && !hasRoom()) break
      waiting.shift()
      if (isWanted()) give(known === undefined ? create(spec, isWanted) : join(known, spec, isWanted))
      else refuse(new AppError('cancelled', 'cancelled', 'the request was aborted before its grammar had a place'))
    }
    for (const [key, entry] of entries) {
      if (leaving.size >= waiting.length) return
      entries.delete(key)
      leaving.set(entry, key)
    }
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

  /** Whoever joins keeps it from being ended. */
  function join(entry: Entry, spec: GrammarSpec, isWanted: () => boolean): Entry {
    const key = grammarKey(spec)
    entries.delete(key)
    entries.set(key, entry)
    entry.leases++
    if (entry.idle !== null) clearTimeout(entry.idle)
    if (entry.compiled === null) entry.wanted.push(isWanted)
    return entry
  }

  function create(spec: GrammarSpec, isWanted: () => boolean): Entry {
    const key = grammarKey(spec)
    const wanted = [isWanted]
    const entry: Entry = { grammar: compileInTurn(spec, wanted), leases: 1, compiled: null, wanted, idle: null }
    entries.set(key, entry)
    entry.grammar.then(
      (grammar) => {
        entry.compiled = grammar
        wanted.length = 0
      },
      () => {
        forget(key, entry)
        serveWaiting()
      },
    )
    return entry
  }

  async function entryFor(spec: GrammarSpec, isWanted: () => boolean): Promise<Entry> {
    const known = entries.get(grammarKey(spec))
    if (known !== undefined) return join(known, spec, isWanted)
    if (waiting.length === 0 && hasRoom()) return create(spec, isWanted)
    return new Promise((give, refuse) => {
      waiting.push({ spec, isWanted, give, refuse })
      serveWaiting()
    })
  }

  async function lease(spec: GrammarSpec, isWanted: () => boolean = () => true): Promise<GrammarLease> {
    const key = grammarKey(spec)
    const entry = await entryFor(spec, isWanted)
    let grammar: Grammar
    try {
      grammar = await entry.grammar
    } catch (error) {
      entry.leases--
      // the request that brought it has gone, this one has not
      if (error instanceof AppError && error.code === 'cancelled' && isWanted()) return lease(spec, isWanted)
      throw error
    }
    if (grammar.isDead) {
      forget(key, entry)
      serveWaiting()
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
        if (entry.leases > 0) return
        if (leaving.has(entry)) end(key, entry)
        else rest(key, entry)
        serveWaiting()
      },
    }
  }

  return {
    lease,
    dispose: async () => {
      const all = [...entries.values(), ...leaving.keys()]
      entries.clear()
      leaving.clear()
      for (const { refuse } of waiting.splice(0)) refuse(new AppError('cancelled', 'cancelled', 'the model is closed'))
      for (const { idle } of all) if (idle !== null) clearTimeout(idle)
      await Promise.allSettled(all.map(async (entry) => (await entry.grammar).dispose()))
    },
  }
}
