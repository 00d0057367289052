/**
 * Compiled grammars of one base model, kept by content: the same schema is compiled once, however many requests bring it.
 *
 * Bounded: a grammar is a thread with memory of its own. The one that was not used for longest goes first. Where all are in use a new
 * one waits, and so that it does not wait for ever, nobody else joins the one that was asked for least lately. Few compile at once;
 * what nobody uses for some time is given back. Keys take turns, at places and at compiling, and none has all of either.
 */
import { AppError } from '#base/errors/errors.js'
import { createTurns, tooManyWaiting } from '#base/util/turns.js'
import type { TokenMask } from '../engine/sampling/token-mask.js'
import type { Grammar } from './grammar.js'
import { type GrammarSpec, grammarKey } from './grammar-spec.js'

/** A grammar lent to one request. */
export interface GrammarLease {
  /** Keywords that answers are not held to, as `Grammar`. */
  readonly unheld: readonly string[]
  /** A mask for one choice; released with the lease. */
  createMask(): TokenMask
  /** All masks end. */
  release(): void
}

export interface GrammarCache {
  /** @throws as `compileGrammar`; {AppError} `cancelled` when nobody wants it; `queue_full` when too many of its key wait */
  lease(spec: GrammarSpec, request?: GrammarRequest): Promise<GrammarLease>
  /** Ends all threads. */
  dispose(): Promise<void>
}

/** Who asks for a grammar. */
export interface GrammarRequest {
  /** Asked when it is this grammar's turn to have a place, or to be compiled: a request may have ended meanwhile. */
  readonly isWanted?: () => boolean
  readonly keyId?: string
}

interface Entry {
  /** Of the request that brought it. */
  readonly keyId: string
  readonly grammar: Promise<Grammar>
  leases: number
  compiled: Grammar | null
  /** Of the requests that came before it was compiled. */
  readonly wanted: (() => boolean)[]
  /** Runs while nobody uses it. */
  idle: NodeJS.Timeout | null
}

/** A request whose grammar has no place yet. */
interface Waiting extends Required<GrammarRequest> {
  readonly spec: GrammarSpec
  readonly give: (entry: Entry) => void
  readonly refuse: (error: AppError) => void
}

/** Each compiling grammar takes a processor from the model. */
const MAX_COMPILING = 2
/** One more, for a key of which nothing compiles. */
const SPARE_COMPILING = 1
/** Of the places for grammars, what one key cannot have. */
const SPARE_SHARE = 1 / 4
const MOST_WAITING_OF_ONE_KEY = 128
const MIB = 2 ** 20
const MAX_IDLE_BYTES = 96 * MIB
/** Compiling one again takes a tenth of a second, a thread that waits some 20 MB. */
const IDLE_MS = 30_000

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
  const mostOfOneKey = options.maxGrammars - Math.floor(options.maxGrammars * SPARE_SHARE)
  const compiling = createTurns({
    what: 'grammars',
    // no more than there are places
    mostWaiting: Number.POSITIVE_INFINITY,
    mostOfOneKey: Number.POSITIVE_INFINITY,
    atOnce: MAX_COMPILING,
    spare: SPARE_COMPILING,
  })
  const never = new AbortController().signal
  /** Those for which there is no place, in the order of their turns. */
  let waiting: Waiting[] = []
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

  /** Whether a key has as many grammars in use as one may have. */
  function hasItsShare(keyId: string): boolean {
    const all = [...entries.values(), ...leaving.keys()]
    return all.filter((entry) => entry.leases > 0 && entry.keyId === keyId).length >= mostOfOneKey
  }

  /** Ends what nobody uses for a new grammar. @returns whether there is a place for one of this key */
  function hasRoom(keyId: string): boolean {
    if (hasItsShare(keyId)) return false
    if (entries.size + leaving.size < options.maxGrammars) return true
    const [key, idle] = [...entries].find(([, entry]) => entry.leases === 0) ?? []
    if (key === undefined || idle === undefined) return false
    end(key, idle)
    return true
  }

  /** Gives those who wait what they wait for, as far as there are places. */
  function serveWaiting(): void {
    const mayGoOn = ({ spec, isWanted, keyId }: Waiting): boolean =>
      entries.has(grammarKey(spec)) || !isWanted() || hasRoom(keyId)
    // of each key the one that came first
    const findNext = (): Waiting | undefined =>
      waiting.filter((one, at) => waiting.findIndex(({ keyId }) => keyId === one.keyId) === at).find(mayGoOn)
    for (let first = findNext(); first !== undefined; first = findNext()) {
      const served = first
      const { spec, isWanted, keyId, give, refuse } = served
      const others = waiting.filter((other) => other !== served)
      // behind the other keys
      waiting = [...others.filter((other) => other.keyId !== keyId), ...others.filter((other) => other.keyId === keyId)]
      const known = entries.get(grammarKey(spec))
      if (isWanted()) give(known === undefined ? create(spec, served) : join(known, spec, isWanted))
      else refuse(new AppError('cancelled', 'cancelled', 'the request was aborted before its grammar had a place'))
    }
    // whoever has its share waits for what is its own
    const isWaitedFor = (entry: Entry): boolean =>
      entry.leases > 0 && waiting.some(({ keyId }) => keyId === entry.keyId || !hasItsShare(keyId))
    for (const [key, entry] of entries) {
      if (leaving.size >= waiting.length) return
      if (!isWaitedFor(entry)) continue
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
    for (const [oldest, other] of idle) {
      if (sum <= maxIdleBytes) return
      sum -= bytesOf(other)
      end(oldest, other)
    }
  }

  function compileInTurn(spec: GrammarSpec, keyId: string, wanted: readonly (() => boolean)[]): Promise<Grammar> {
    return compiling.take(keyId, never, async () => {
      if (wanted.some((isWanted) => isWanted())) return await options.compile(spec)
      throw new AppError('cancelled', 'cancelled', 'the request was aborted before its grammar was compiled')
    })
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

  function create(spec: GrammarSpec, { isWanted, keyId }: Required<GrammarRequest>): Entry {
    const key = grammarKey(spec)
    const wanted = [isWanted]
    const grammar = compileInTurn(spec, keyId, wanted)
    const entry: Entry = { keyId, grammar, leases: 1, compiled: null, wanted, idle: null }
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

  async function entryFor(spec: GrammarSpec, request: Required<GrammarRequest>): Promise<Entry> {
    const known = entries.get(grammarKey(spec))
    if (known !== undefined) return join(known, spec, request.isWanted)
    // whoever waits could not be given one
    if (hasRoom(request.keyId)) return create(spec, request)
    const own = waiting.filter(({ keyId }) => keyId === request.keyId).length
    if (own >= MOST_WAITING_OF_ONE_KEY) throw tooManyWaiting(`${own} grammars of this key wait already`)
    return new Promise((give, refuse) => {
      waiting.push({ spec, ...request, give, refuse })
      serveWaiting()
    })
  }

  async function lease(
    spec: GrammarSpec,
    { isWanted = () => true, keyId = '' }: GrammarRequest = {},
  ): Promise<GrammarLease> {
    const key = grammarKey(spec)
    const request = { isWanted, keyId }
    const entry = await entryFor(spec, request)
    let grammar: Grammar
    try {
      grammar = await entry.grammar
    } catch (error) {
      entry.leases--
      // the request that brought it has gone, this one has not
      if (error instanceof AppError && error.code === 'cancelled' && isWanted()) return lease(spec, request)
      throw error
    }
    if (grammar.isDead) {
      forget(key, entry)
      serveWaiting()
      return lease(spec, request)
    }
    const masks: { close(): void }[] = []
    let isReleased = false
    return {
      unheld: grammar.unheld,
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
