/**
 * Samples of Tinker clients, waiting, running or done: whose they are, whose turn it is, and how much is held for whom.
 *
 * Entities take turns, however many keys each makes: a few samples of each are in the engine at once, so that it decides between them
 * and their keys as between chats, and the others wait here. One that nobody asks for goes; so does a result, later. Memory is bounded by key and by entity:
 * prompts that wait and results that nobody has fetched are counted, fetched ones make room. Held by this server alone: a client sends
 * again what is gone. Knows nothing of prompts and engines.
 */
import { AppError } from '#base/errors/errors.js'
import type { Clock } from '#base/util/clock.js'
import { createDeferred, type Deferred } from '#base/util/deferred.js'
import { createTurns } from '#base/util/turns.js'
import { isOwn } from '#service/operations/access/tenant.js'
import type { Tenant } from '#service/operations/context.js'

/** How a sample stands. */
export type SampleState =
  | { readonly kind: 'running'; readonly changed: Promise<void> }
  | { readonly kind: 'done'; readonly output: Uint8Array }
  | { readonly kind: 'failed'; readonly error: string; readonly isUserError: boolean }
  /** Nobody knows it, or the server was too busy: the client sends it again. */
  | { readonly kind: 'gone' }

export interface NewSample {
  readonly id: string
  readonly owner: Tenant
  readonly keyId: string
  /** Of the client; empty: of none. */
  readonly clientSessionId: string
  readonly sequenceIds: readonly string[]
  /** Memory that it takes until it is done. */
  readonly promptBytes: number
}

export interface SampleLimits {
  /** Samples of one key that may wait or run; of an entity four times as many. */
  readonly mostWaiting: number
  /** Memory of the samples of one key; of an entity four times as much. */
  readonly mostBytes: number
}

export interface SampleTiming {
  /** One that waits or runs goes when nobody has asked for it for so long. */
  readonly unaskedMs: number
  /** A result that was not asked for is forgotten. */
  readonly forgetMs: number
  /** How often that is looked at. */
  readonly lookMs: number
}

export interface Samples {
  /** The ids of a sample's sequences; null: it is not known. */
  sequencesOf(id: string): readonly string[] | null
  /**
   * Takes a sample; `run` begins when it is its turn, and is aborted when nobody wants it any more.
   *
   * @param toFailure what an error of `run` means
   * @throws {AppError} `queue_full`
   */
  start(
    sample: NewSample,
    run: (signal: AbortSignal) => Promise<Uint8Array>,
    toFailure: (error: unknown) => SampleState,
  ): void
  /** How it stands, for who may know; asked for from now on. */
  stateOf(tenant: Tenant, id: string): SampleState
  /** The client has ended: nobody will ask. */
  dropOf(clientSessionId: string): void
  /** Ends all. */
  stop(): void
}

interface Sample extends NewSample {
  state: SampleState
  readonly controller: AbortController
  readonly done: Deferred<void>
  askedAtMs: number
  bytes: number
  isFetched: boolean
}

const TIMING: SampleTiming = { unaskedMs: 120_000, forgetMs: 1_800_000, lookMs: 1000 }
/** Samples in an engine at once: of entities that have some there already, and further ones of entities that have none. */
const AT_ONCE = 64
const SPARE = 64
/** An entity may have so many times what one key may. */
const KEYS_OF_ENTITY = 4
/** What a sample takes besides, and each of its sequences. */
const OWN_BYTES = 1024
const SEQUENCE_BYTES = 128
const GONE: SampleState = { kind: 'gone' }

export function createSamples(
  clock: Pick<Clock, 'monotonicMs'>,
  limits: SampleLimits,
  tuning: Partial<SampleTiming> = {},
): Samples {
  const timing = { ...TIMING, ...tuning }
  /** In the order they came. */
  const samples = new Map<string, Sample>()
  const turns = createTurns({
    what: 'samples',
    mostWaiting: Number.POSITIVE_INFINITY,
    mostOfOneKey: Number.POSITIVE_INFINITY,
    atOnce: AT_ONCE,
    spare: SPARE,
  })
  const held = createTally()
  let timer: NodeJS.Timeout | null = null

  function forget(sample: Sample): void {
    if (!samples.delete(sample.id)) return
    held.note(sample, { count: sample.state.kind === 'running' ? -1 : 0, bytes: -sample.bytes })
    sample.state = GONE
    sample.done.resolve()
    sample.controller.abort(new AppError('cancelled', 'cancelled', 'nobody asks for the sample any more'))
  }

  function look(): void {
    const nowMs = clock.monotonicMs()
    for (const sample of [...samples.values()]) {
      const mostMs = sample.state.kind === 'running' ? timing.unaskedMs : timing.forgetMs
      if (nowMs - sample.askedAtMs > mostMs) forget(sample)
    }
    if (samples.size > 0 || timer === null) return
    clearInterval(timer)
    timer = null
  }

  /** Fetched results go, oldest first, until there is room for more of the key and its entity. */
  function makeRoom(sample: NewSample): boolean {
    for (const other of samples.values()) {
      if (!held.isOver(sample, limits.mostBytes)) return true
      if (other.isFetched && isBeside(sample, other)) forget(other)
    }
    return !held.isOver(sample, limits.mostBytes)
  }

  function settle(sample: Sample, state: SampleState): void {
    if (sample.state.kind !== 'running') return
    if (state.kind === 'gone') {
      forget(sample)
      return
    }
    const bytes = sizeOf(sample) + (state.kind === 'done' ? state.output.length : 0)
    held.note(sample, { count: -1, bytes: bytes - sample.bytes })
    sample.bytes = bytes
    sample.state = state
    sample.askedAtMs = clock.monotonicMs()
    sample.done.resolve()
  }

  return {
    sequencesOf: (id) => samples.get(id)?.sequenceIds ?? null,
    start: (wanted, run, toFailure) => {
      assertFew(held.countOf(wanted), limits.mostWaiting)
      if (!makeRoom(wanted))
        throw busy('results of samples that nobody has fetched take all the memory there is for them')
      const sample = toSample(wanted, clock.monotonicMs())
      samples.set(sample.id, sample)
      held.note(sample, { count: 1, bytes: sample.bytes })
      timer ??= setInterval(look, timing.lookMs).unref()
      const { signal } = sample.controller
      turns
        .take(sample.owner.entity, signal, async () => {
          // those before it may have left no room for its answer; it is noted before the next one begins
          settle(sample, makeRoom(sample) ? { kind: 'done', output: await run(signal) } : GONE)
        })
        .catch((error: unknown) => settle(sample, toFailure(error)))
    },
    stateOf: (tenant, id) => {
      const sample = samples.get(id)
      if (sample === undefined || !isOwn(tenant, sample.owner)) return GONE
      sample.askedAtMs = clock.monotonicMs()
      sample.isFetched ||= sample.state.kind !== 'running'
      return sample.state
    },
    dropOf: (clientSessionId) => {
      for (const sample of [...samples.values()]) if (sample.clientSessionId === clientSessionId) forget(sample)
    },
    stop: () => {
      for (const sample of [...samples.values()]) forget(sample)
      look()
    },
  }
}

/** @throws {AppError} `queue_full` */
function assertFew(count: { readonly ofKey: number; readonly ofEntity: number }, most: number): void {
  if (count.ofKey < most && count.ofEntity < KEYS_OF_ENTITY * most) return
  throw busy(`${count.ofKey} samples of this key wait or run already, ${count.ofEntity} of its entity`)
}

function toSample(wanted: NewSample, askedAtMs: number): Sample {
  const done = createDeferred<void>()
  return {
    ...wanted,
    state: { kind: 'running', changed: done.promise },
    controller: new AbortController(),
    done,
    askedAtMs,
    bytes: sizeOf(wanted) + wanted.promptBytes,
    isFetched: false,
  }
}

function sizeOf({ sequenceIds }: NewSample): number {
  return OWN_BYTES + sequenceIds.length * SEQUENCE_BYTES
}

function isBeside(a: NewSample, b: NewSample): boolean {
  return a.keyId === b.keyId || a.owner.entity === b.owner.entity
}

function busy(message: string): AppError {
  return new AppError('rate_limited', 'queue_full', message, {
    hint: 'fetch results, or ask again later',
    details: { retry_after_seconds: 5 },
  })
}

/** What is held, by key and by entity. */
function createTally() {
  const counts = new Map<string, number>()
  const bytes = new Map<string, number>()
  const namesOf = ({ keyId, owner }: NewSample): readonly [string, string] => [`key ${keyId}`, `entity ${owner.entity}`]
  const add = (map: Map<string, number>, name: string, more: number): void => {
    const sum = (map.get(name) ?? 0) + more
    if (sum === 0) map.delete(name)
    else map.set(name, sum)
  }
  return {
    note: (sample: NewSample, more: { readonly count: number; readonly bytes: number }): void => {
      for (const name of namesOf(sample)) {
        add(counts, name, more.count)
        add(bytes, name, more.bytes)
      }
    },
    countOf: (sample: NewSample) => {
      const [key, entity] = namesOf(sample)
      return { ofKey: counts.get(key) ?? 0, ofEntity: counts.get(entity) ?? 0 }
    },
    isOver: (sample: NewSample, mostBytes: number): boolean => {
      const [key, entity] = namesOf(sample)
      return (bytes.get(key) ?? 0) >= mostBytes || (bytes.get(entity) ?? 0) >= KEYS_OF_ENTITY * mostBytes
    },
  }
}
