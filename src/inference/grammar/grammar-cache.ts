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

interface GrammarCacheOptions {
  readonly compile: (spec: GrammarSpec) => Promise<Grammar>
  /** Threads at most, each with up to its limit of memory. */
  readonly maxGrammars: number
  /** Of those that nobody uses, together. */
  readonly maxIdleBytes?: number
  /** A grammar that nobody used for so long is given back. */
  readonly idleMs?: number
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

export function createGrammarCache(options: GrammarCacheOptions): GrammarCache {
  return new SharedGrammars(options)
}

class SharedGrammars implements GrammarCache {
  readonly #options: GrammarCacheOptions
  // in order of last use
  readonly #entries = new Map<string, Entry>()
  readonly #mostOfOneKey: number
  readonly #compiling = createTurns({
    what: 'grammars',
    // no more than there are places
    mostWaiting: Number.POSITIVE_INFINITY,
    mostOfOneKey: Number.POSITIVE_INFINITY,
    atOnce: MAX_COMPILING,
    spare: SPARE_COMPILING,
  })
  readonly #never = new AbortController().signal
  /** Those for which there is no place, in the order of their turns. */
  #waiting: Waiting[] = []
  /** In use, and nobody joins them any more: their places are waited for. */
  readonly #leaving = new Map<Entry, string>()

  constructor(options: GrammarCacheOptions) {
    this.#options = options
    this.#mostOfOneKey = options.maxGrammars - Math.floor(options.maxGrammars * SPARE_SHARE)
  }

  async lease(spec: GrammarSpec, { isWanted = () => true, keyId = '' }: GrammarRequest = {}): Promise<GrammarLease> {
    const key = grammarKey(spec)
    const request = { isWanted, keyId }
    const entry = await this.#entryFor(spec, request)
    let grammar: Grammar
    try {
      grammar = await entry.grammar
    } catch (error) {
      entry.leases--
      // the request that brought it has gone, this one has not
      if (error instanceof AppError && error.code === 'cancelled' && isWanted()) return this.lease(spec, request)
      throw error
    }
    if (grammar.isDead) {
      this.#forget(key, entry)
      this.#serveWaiting()
      return this.lease(spec, request)
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
        if (this.#leaving.has(entry)) this.#end(key, entry)
        else this.#rest(key, entry)
        this.#serveWaiting()
      },
    }
  }

  async dispose(): Promise<void> {
    const all = [...this.#entries.values(), ...this.#leaving.keys()]
    this.#entries.clear()
    this.#leaving.clear()
    for (const { refuse } of this.#waiting.splice(0))
      refuse(new AppError('cancelled', 'cancelled', 'the model is closed'))
    for (const { idle } of all) if (idle !== null) clearTimeout(idle)
    await Promise.allSettled(all.map(async (entry) => (await entry.grammar).dispose()))
  }

  #forget(key: string, entry: Entry): void {
    if (this.#entries.get(key) === entry) this.#entries.delete(key)
    this.#leaving.delete(entry)
  }

  #end(key: string, entry: Entry): void {
    if (entry.idle !== null) clearTimeout(entry.idle)
    this.#forget(key, entry)
    void entry.grammar.then((grammar) => grammar.dispose()).catch(() => undefined)
  }

  /** Whether a key has as many grammars in use as one may have. */
  #hasItsShare(keyId: string): boolean {
    const all = [...this.#entries.values(), ...this.#leaving.keys()]
    return all.filter((entry) => entry.leases > 0 && entry.keyId === keyId).length >= this.#mostOfOneKey
  }

  /** Ends what nobody uses for a new grammar. @returns whether there is a place for one of this key */
  #hasRoom(keyId: string): boolean {
    if (this.#hasItsShare(keyId)) return false
    if (this.#entries.size + this.#leaving.size < this.#options.maxGrammars) return true
    const [key, idle] = [...this.#entries].find(([, entry]) => entry.leases === 0) ?? []
    if (key === undefined || idle === undefined) return false
    this.#end(key, idle)
    return true
  }

  /** Gives those who wait what they wait for, as far as there are places. */
  #serveWaiting(): void {
    const mayGoOn = ({ spec, isWanted, keyId }: Waiting): boolean =>
      this.#entries.has(grammarKey(spec)) || !isWanted() || this.#hasRoom(keyId)
    // of each key the one that came first
    const findNext = (): Waiting | undefined =>
      this.#waiting
        .filter((one, at) => this.#waiting.findIndex(({ keyId }) => keyId === one.keyId) === at)
        .find(mayGoOn)
    for (let first = findNext(); first !== undefined; first = findNext()) {
      const served = first
      const { spec, isWanted, keyId, give, refuse } = served
      const others = this.#waiting.filter((other) => other !== served)
      // behind the other keys
      this.#waiting = [
        ...others.filter((other) => other.keyId !== keyId),
        ...others.filter((other) => other.keyId === keyId),
      ]
      const known = this.#entries.get(grammarKey(spec))
      if (isWanted()) give(known === undefined ? this.#create(spec, served) : this.#join(known, spec, isWanted))
      else refuse(new AppError('cancelled', 'cancelled', 'the request was aborted before its grammar had a place'))
    }
    // whoever has its share waits for what is its own
    const isWaitedFor = (entry: Entry): boolean =>
      entry.leases > 0 && this.#waiting.some(({ keyId }) => keyId === entry.keyId || !this.#hasItsShare(keyId))
    for (const [key, entry] of this.#entries) {
      if (this.#leaving.size >= this.#waiting.length) return
      if (!isWaitedFor(entry)) continue
      this.#entries.delete(key)
      this.#leaving.set(entry, key)
    }
  }

  /** Nobody uses it any more: it is kept for a while, and others go if together they hold too much. */
  #rest(key: string, entry: Entry): void {
    if (this.#entries.get(key) !== entry) return
    this.#entries.delete(key)
    this.#entries.set(key, entry)
    entry.idle = setTimeout(() => this.#end(key, entry), this.#options.idleMs ?? IDLE_MS)
    entry.idle.unref()
    const mostIdle = this.#options.maxIdleBytes ?? MAX_IDLE_BYTES
    const idle = [...this.#entries].filter(([, { leases }]) => leases === 0)
    const bytesOf = ({ compiled }: Entry): number => compiled?.bytes ?? 0
    let sum = idle.reduce((bytes, [, other]) => bytes + bytesOf(other), 0)
    for (const [oldest, other] of idle) {
      if (sum <= mostIdle) return
      sum -= bytesOf(other)
      this.#end(oldest, other)
    }
  }

  #compileInTurn(spec: GrammarSpec, keyId: string, wanted: readonly (() => boolean)[]): Promise<Grammar> {
    return this.#compiling.take(keyId, this.#never, async () => {
      if (wanted.some((isWanted) => isWanted())) return await this.#options.compile(spec)
      throw new AppError('cancelled', 'cancelled', 'the request was aborted before its grammar was compiled')
    })
  }

  /** Whoever joins keeps it from being ended. */
  #join(entry: Entry, spec: GrammarSpec, isWanted: () => boolean): Entry {
    const key = grammarKey(spec)
    this.#entries.delete(key)
    this.#entries.set(key, entry)
    entry.leases++
    if (entry.idle !== null) clearTimeout(entry.idle)
    if (entry.compiled === null) entry.wanted.push(isWanted)
    return entry
  }

  #create(spec: GrammarSpec, { isWanted, keyId }: Required<GrammarRequest>): Entry {
    const key = grammarKey(spec)
    const wanted = [isWanted]
    const grammar = this.#compileInTurn(spec, keyId, wanted)
    const entry: Entry = { keyId, grammar, leases: 1, compiled: null, wanted, idle: null }
    this.#entries.set(key, entry)
    entry.grammar.then(
      (grammar) => {
        entry.compiled = grammar
        wanted.length = 0
      },
      () => {
        this.#forget(key, entry)
        this.#serveWaiting()
      },
    )
    return entry
  }

  async #entryFor(spec: GrammarSpec, request: Required<GrammarRequest>): Promise<Entry> {
    const known = this.#entries.get(grammarKey(spec))
    if (known !== undefined) return this.#join(known, spec, request.isWanted)
    // whoever waits could not be given one
    if (this.#hasRoom(request.keyId)) return this.#create(spec, request)
    const own = this.#waiting.filter(({ keyId }) => keyId === request.keyId).length
    if (own >= MOST_WAITING_OF_ONE_KEY) throw tooManyWaiting(`${own} grammars of this key wait already`)
    return new Promise((give, refuse) => {
      this.#waiting.push({ spec, ...request, give, refuse })
      this.#serveWaiting()
    })
  }
}
