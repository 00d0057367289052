/**
 * Who used how much: counted in memory while answers run, written about once a second in one transaction, and reported by day.
 *
 * No request writes by itself. What a killed server loses is what was counted since the last write: about a second. These writes do
 * not wait for the disk, for all streams would wait with them: the next write of anything else makes them durable.
 * Training time is counted where leases are renewed, in their transaction.
 */

import { setImmediate as othersTurn } from 'node:timers/promises'
import { InvalidRequestError } from '#base/errors/errors.js'
import type { Logger } from '#base/logging/logger.js'
import type { KeyUsageQuery, KeyUsageResponse, UsageQuery, UsageResponse } from '#contract/wire/access/usage.js'
import type { GenerationEvent } from '#service/processes/engine-process.js'
import {
  addUsage,
  DEFAULT_USAGE_PROJECT,
  defaultUsageDays,
  findUsageRow,
  readUsage,
  type UsageCounters,
  type UsageFilter,
  type UsageKey,
  type UsageRowKey,
} from '#service/storage/access/usage-days.js'
import { addKeyUsage, readKeyUsage } from '#service/storage/access/usage-keys.js'
import { touchApiKeys } from '#service/storage/api-keys.js'
import type { DatabaseHandle } from '#service/storage/database.js'
import { inTransaction, readTransactionId, wasCommitted } from '#service/storage/in-transaction.js'
import type { ModelRecord } from '#service/storage/models.js'
import type { Principal } from './principal.js'
import { checkProject } from './tenant.js'

/** Longest time between a use and its write, beside the write itself. */
export const USAGE_FLUSH_MS = 1000
/** Most rows of one report. */
const MAX_ROWS = 10_000
/** Most keys of one report. */
const MAX_KEYS = 1000
/** Rows read before others have their turn. */
const PART = 1000

/** Whom an answer is counted for. */
export interface CountedFor extends UsageKey {
  /** The API key that asked; absent for what the server asks itself. */
  readonly keyId?: string | undefined
}

export interface UsageService {
  /**
   * Passes an answer's events on and counts them, also when it is left early.
   *
   * @param requests 0 for what belongs to a request that was counted with another prompt. Default 1
   */
  count(
    events: AsyncIterable<GenerationEvent>,
    key: CountedFor,
    requests?: 0 | 1,
  ): AsyncIterableIterator<GenerationEvent>
  /** A key was used. */
  noteKey(keyId: string): void
  /** @returns a `UsageResponse` as JSON */
  report(principal: Principal, query: UsageQuery): Promise<string>
  /** What keys asked for; of a key of one project those of that project. */
  reportKeys(principal: Principal, query: KeyUsageQuery): Promise<KeyUsageResponse>
  /** Writes what was counted; keeps it when that fails. */
  flush(): Promise<void>
  /** Writes the last of it and stops; what cannot be written is logged, and in the way of nothing else that ends. */
  stop(): Promise<void>
}

/** Whom an answer is counted for: the project that the request names, else the key's, else the model's. */
export function usageKeyOf(principal: Principal, model: ModelRecord | null, baseModel: string): CountedFor {
  return {
    entity: principal.entity,
    keyId: principal.keyId,
    project: principal.usageProject ?? principal.project ?? model?.project ?? DEFAULT_USAGE_PROJECT,
    model: model === null ? baseModel : `${model.entity}/${model.project}/${model.name}`,
  }
}

const byText = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number =>
  a < b ? -1 : a > b ? 1 : 0

export function createUsageService(db: DatabaseHandle, logger: Logger): UsageService {
  return new UsageCounts(db, logger)
}

class UsageCounts implements UsageService {
  readonly #db: DatabaseHandle
  readonly #logger: Logger
  #counted = new Map<string, { readonly key: CountedFor; counters: UsageCounters }>()
  #usedKeys = new Set<string>()
  #flushing: Promise<void> = Promise.resolve()
  /** A write that failed and may be done all the same: counting it again before that is known would count it twice. */
  #doubtful: { readonly id: string; readonly giveBack: () => void } | null = null
  readonly #timer = setInterval(() => this.#flushOrSay(), USAGE_FLUSH_MS).unref()

  constructor(db: DatabaseHandle, logger: Logger) {
    this.#db = db
    this.#logger = logger
  }

  flush(): Promise<void> {
    const next = this.#flushing.then(() => this.#write())
    this.#flushing = next.catch(() => undefined)
    return next
  }

  noteKey(keyId: string): void {
    this.#usedKeys.add(keyId)
  }

  count(
    events: AsyncIterable<GenerationEvent>,
    key: CountedFor,
    requests: 0 | 1 = 1,
  ): AsyncIterableIterator<GenerationEvent> {
    const source = events[Symbol.asyncIterator]()
    return {
      [Symbol.asyncIterator]() {
        return this
      },
      next: async () => {
        const result = await source.next()
        if (result.done !== true) this.#note(key, result.value, requests)
        return result
      },
      return: async () => (await source.return?.()) ?? { done: true, value: undefined },
    }
  }

  async report(principal: Principal, query: UsageQuery): Promise<string> {
    const project = checkProject(principal, query.project)
    const { from, to } = await this.#readDays(query)
    const found = await this.#readRows({ entity: principal.entity, from, to, project, model: query.model })
    const { data, ...rest } = found
    const answer: Omit<UsageResponse, 'data'> = { object: 'usage', entity: principal.entity, from, to, ...rest }
    return `${JSON.stringify(answer).slice(0, -1)},"data":[${data}]}`
  }

  async reportKeys(principal: Principal, query: KeyUsageQuery): Promise<KeyUsageResponse> {
    const { from, to } = await this.#readDays(query)
    const owner = { entity: principal.entity, project: principal.project }
    const rows = await readKeyUsage(this.#db, owner, { from, to, limit: MAX_KEYS + 1 })
    return {
      object: 'usage.keys',
      entity: principal.entity,
      from,
      to,
      data: rows.slice(0, MAX_KEYS).map((row) => ({
        key_id: row.keyId,
        name: row.name,
        key_prefix: row.keyPrefix,
        project: row.project,
        requests: row.requests,
        prompt_tokens: row.promptTokens,
        cached_tokens: row.cachedTokens,
        completion_tokens: row.completionTokens,
      })),
      is_truncated: rows.length > MAX_KEYS,
    }
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await this.#flushOrSay()
  }

  #add(key: CountedFor, more: Partial<UsageCounters>): void {
    const id = `${key.entity}\n${key.project}\n${key.model}\n${key.keyId ?? ''}`
    const before = this.#counted.get(id)?.counters
    this.#counted.set(id, {
      key,
      counters: {
        requests: (before?.requests ?? 0) + (more.requests ?? 0),
        promptTokens: (before?.promptTokens ?? 0) + (more.promptTokens ?? 0),
        cachedTokens: (before?.cachedTokens ?? 0) + (more.cachedTokens ?? 0),
        completionTokens: (before?.completionTokens ?? 0) + (more.completionTokens ?? 0),
      },
    })
  }

  #note(key: CountedFor, event: GenerationEvent, requests: number): void {
    if (event.type === 'delta') this.#add(key, { completionTokens: event.tokenIds.length })
    else if (event.type === 'started') {
      this.#add(key, { requests, promptTokens: event.promptTokenIds.length, cachedTokens: event.cachedTokens })
    }
  }

  async #write(): Promise<void> {
    if (!(await this.#settle())) return
    if (this.#counted.size === 0 && this.#usedKeys.size === 0) return
    const batch = this.#counted
    const keys = this.#usedKeys
    let id: string | null = null
    this.#counted = new Map()
    this.#usedKeys = new Set()
    try {
      await inTransaction(this.#db, async (transaction) => {
        id = null
        // in one order, or servers that count for the same would wait for each other
        for (const [, { key, counters }] of [...batch].sort(byText)) {
          const { keyId, ...counted } = key
          await addUsage(transaction, counted, counters)
          if (keyId !== undefined) await addKeyUsage(transaction, { entity: key.entity, keyId }, counters)
        }
        await touchApiKeys(transaction, [...keys])
        // behind all that may fail by itself, and be undone alone: from here on only the commit decides
        id = await readTransactionId(this.#db, transaction)
      })
    } catch (error) {
      const giveBack = (): void => {
        for (const { key, counters } of batch.values()) this.#add(key, counters)
        for (const key of keys) this.#usedKeys.add(key)
      }
      if (id === null) giveBack()
      else this.#doubtful = { id, giveBack }
      throw error
    }
  }

  /** Whether nothing is in doubt any more. */
  async #settle(): Promise<boolean> {
    if (this.#doubtful === null) return true
    const { id, giveBack } = this.#doubtful
    const isDone = await wasCommitted(this.#db, id)
    if (isDone === null) return false
    this.#doubtful = null
    if (!isDone) giveBack()
    return true
  }

  /** Rows and sums of a report, in parts between which others have their turn. */
  async #readRows(wanted: UsageFilter): Promise<Pick<UsageResponse, 'total' | 'is_truncated'> & { data: string }> {
    const parts: string[] = []
    const total = { requests: 0, prompt_tokens: 0, cached_tokens: 0, completion_tokens: 0 }
    let trainingMs = 0
    let since: UsageRowKey | undefined
    for (;;) {
      const next = await findUsageRow(this.#db, { ...wanted, since }, PART)
      const rows = await readUsage(this.#db, { ...wanted, since, before: next ?? undefined })
      if (rows.json !== '') parts.push(rows.json)
      total.requests += rows.requests
      total.prompt_tokens += rows.promptTokens
      total.cached_tokens += rows.cachedTokens
      total.completion_tokens += rows.completionTokens
      trainingMs += rows.trainingMs
      since = next ?? undefined
      if (since === undefined || parts.length * PART === MAX_ROWS) break
      await othersTurn()
    }
    return {
      data: parts.join(','),
      total: { ...total, training_seconds: trainingMs / 1000 },
      is_truncated: since !== undefined,
    }
  }

  /** The days of a report, once all that was counted is written. */
  async #readDays(query: KeyUsageQuery): Promise<{ readonly from: string; readonly to: string }> {
    // when keys were last used is no part of it: that is written in its own time
    await (this.#counted.size > 0 || this.#doubtful !== null ? this.flush() : this.#flushing)
    const { from: before, to } = await defaultUsageDays(this.#db, query.to)
    const from = query.from ?? before
    if (from <= to) return { from, to }
    throw new InvalidRequestError('invalid_request', `from ${from} is after to ${to}, expected a day before it`, {
      param: 'from',
    })
  }

  #flushOrSay(): Promise<void> {
    return this.flush().catch((error: unknown) => this.#logger.error({ err: error }, 'usage.write_failed'))
  }
}
