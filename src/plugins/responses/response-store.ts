/**
 * Responses that were asked to be stored, for `previous_response_id` and for references to items: rows, which every server of the
 * database finds, also after a restart.
 *
 * No request writes before its answer, and each is told its last word when the row is there, so that whoever goes on finds it.
 * Where the database does not take it soon, the answer is not kept waiting: the response stays in memory until it does.
 */
import { AppError } from '#base/errors/errors.js'
import type { Logger } from '#base/logging/logger.js'
import type { IdSource } from '#base/util/ids.js'
import type { Tenant } from '#service/operations/access/principal.js'
import { ownerOf } from '#service/operations/access/tenant.js'
import type { PluginStart } from '#service/plugin.js'
import { type DatabaseHandle, toStorageError } from '#service/storage/database.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import {
  deleteOldResponses,
  deleteResponse,
  findResponse,
  putResponse,
  type ResponseLimits,
  type StoredResponseRecord,
  sizeOf,
  trimResponses,
} from './storage/stored-responses.js'
import { createWaitingResponses, type StoredResponse, type WaitingResponse } from './waiting-responses.js'
import type { InputItem, Response } from './wire.js'

export interface ResponseStore {
  /** Resolves when others find it, or when that takes too long. */
  put(tenant: Tenant, stored: StoredResponse): Promise<void>
  /** Null for what is unknown, forgotten or another's. */
  find(tenant: Tenant, id: string): Promise<StoredResponse | null>
  /** Without its conversation, which is many times as large. */
  get(tenant: Tenant, id: string): Promise<Response | null>
  findItem(tenant: Tenant, itemId: string): Promise<InputItem | null>
  delete(tenant: Tenant, id: string): Promise<boolean>
  /** Writes what is still in memory; what cannot be written is logged and lost. */
  stop(): Promise<void>
}

interface ResponseStoreParts {
  readonly db: DatabaseHandle
  readonly ids: IdSource
  readonly logger: Logger
}

export interface ResponseStoreTuning {
  /** Of an entity. */
  readonly limits: ResponseLimits
  /** How long an answer waits for its row. */
  readonly patienceMs: number
  /** From a write that failed to the next one. */
  readonly retryMs: number
  /** Of all that wait for the database. */
  readonly mostWaitingBytes: number
}

const DEFAULTS: ResponseStoreTuning = {
  limits: { count: 10_000, sizeBytes: 64 * 1024 ** 2 },
  patienceMs: 1000,
  retryMs: 1000,
  mostWaitingBytes: 64 * 1024 ** 2,
}
const MOST_MS = 30 * 24 * 3_600_000
/** Written in one transaction. */
const TOGETHER = 32
const SWEEP_MS = 3_600_000
/** An entity's rows are counted when this part of a limit came since they were. */
const TRIM_PART = 1 / 16

/** Starts it for a service; it ends with the service. */
export async function startResponseStore({ context, lifetimes, tuning }: PluginStart): Promise<ResponseStore> {
  const store = createResponseStore(context, tuning)
  lifetimes.add('responses', () => store.stop())
  return store
}

export function createResponseStore(
  parts: ResponseStoreParts,
  tuning: Partial<ResponseStoreTuning> = {},
): ResponseStore {
  return new StoredResponses(parts, tuning)
}

class StoredResponses implements ResponseStore {
  readonly #parts: ResponseStoreParts
  readonly #tuned: ResponseStoreTuning
  readonly #waiting: ReturnType<typeof createWaitingResponses>
  readonly #sinceTrim = new Map<string, { count: number; sizeBytes: number }>()
  /** Entities whose rows have to be counted. */
  readonly #dueForTrim = new Set<string>()
  #isWriting = false
  #retry: NodeJS.Timeout | null = null
  #written: Promise<void> = Promise.resolve()
  #isStopped = false
  readonly #sweep: NodeJS.Timeout

  constructor(parts: ResponseStoreParts, tuning: Partial<ResponseStoreTuning>) {
    this.#parts = parts
    this.#tuned = { ...DEFAULTS, ...tuning }
    this.#waiting = createWaitingResponses(this.#tuned.mostWaitingBytes, parts.logger)
    this.#sweep = setInterval(() => {
      deleteOldResponses(parts.db, MOST_MS).catch((error: unknown) =>
        parts.logger.warn({ err: error }, 'responses.sweep_failed'),
      )
    }, SWEEP_MS).unref()
  }

  async put(tenant: Tenant, stored: StoredResponse): Promise<void> {
    const { response, items } = stored
    const record: StoredResponseRecord = {
      owner: ownerOf(tenant),
      responseId: response.id,
      response: JSON.stringify(response),
      items: JSON.stringify(items),
      itemIds: response.output.map(({ id }) => id),
    }
    const sizeBytes = sizeOf(record)
    if (sizeBytes > this.#tuned.limits.sizeBytes) {
      // none of its entity would be left beside it
      const facts = { response: response.id, size_bytes: sizeBytes, limit_bytes: this.#tuned.limits.sizeBytes }
      this.#parts.logger.warn(facts, 'responses.not_stored')
      return
    }
    const { isOver } = this.#waiting.add({ stored, record, sizeBytes })
    this.#write()
    await atMost(this.#tuned.patienceMs, isOver)
  }

  async find(tenant: Tenant, id: string): Promise<StoredResponse | null> {
    const held = this.#waiting.find(tenant, ({ response }) => response.id === id)
    if (held !== null) return held
    const columns = ['response', 'items'] as const
    const row = await findResponse(this.#parts.db, tenant, { responseId: id }, { mostMs: MOST_MS, columns })
    if (row === null) return null
    return { response: JSON.parse(row.response) as Response, items: JSON.parse(row.items) as InputItem[] }
  }

  async get(tenant: Tenant, id: string): Promise<Response | null> {
    return (
      this.#waiting.find(tenant, ({ response }) => response.id === id)?.response ??
      (await this.#read(tenant, { responseId: id }))
    )
  }

  async findItem(tenant: Tenant, itemId: string): Promise<InputItem | null> {
    const isIt = ({ id }: { readonly id: string }): boolean => id === itemId
    const held = this.#waiting.find(tenant, ({ response }) => response.output.some(isIt))
    const response = held?.response ?? (await this.#read(tenant, { itemId }))
    return response?.output.find(isIt) ?? null
  }

  async delete(tenant: Tenant, id: string): Promise<boolean> {
    // behind a row that is on its way, and one that is not yet comes no more
    const isDropped = this.#waiting.drop(tenant, id)
    return (await inTransaction(this.#parts.db, (transaction) => deleteResponse(transaction, tenant, id))) || isDropped
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    clearInterval(this.#sweep)
    await this.#written
    if (this.#retry !== null) clearTimeout(this.#retry)
    this.#retry = null
    // what has failed meanwhile is tried once more
    this.#write()
    await this.#written
  }

  /** Writes all that waits, those that come meanwhile too. */
  async #writeAll(): Promise<void> {
    this.#isWriting = true
    try {
      while (this.#waiting.count() > 0) {
        await this.#writeTogether(this.#waiting.next(TOGETHER))
        await this.#trimDue()
      }
    } catch (error) {
      this.#parts.logger.error({ err: error, responses: this.#waiting.count() }, 'responses.write_failed')
      if (this.#waiting.count() > 0 && !this.#isStopped)
        this.#retry ??= setTimeout(() => this.#writeAgain(), this.#tuned.retryMs).unref()
    } finally {
      this.#isWriting = false
    }
  }

  /** @throws {AppError} for what may be better later; some may be written all the same */
  async #writeTogether(together: readonly WaitingResponse[]): Promise<void> {
    try {
      await this.#writeRows(together)
    } catch (error) {
      const known = toKnown(error)
      // it may be one of them, the others are stored without it: what is too large for the disk, or what no try would store
      if (together.length > 1 && (known?.category !== 'unavailable' || known.code === 'disk_full')) {
        await this.#writeOneByOne(together)
      } else if (known?.category === 'unavailable') throw known
      else for (const one of together) this.#giveUp(one, error)
    }
  }

  /** Those that do not fit go behind all others. @throws {AppError} as above, where none was written */
  async #writeOneByOne(together: readonly WaitingResponse[]): Promise<void> {
    let full: AppError | null = null
    let isSomeDone = false
    for (const one of together) {
      // deleted meanwhile
      if (!this.#waiting.has(one)) continue
      try {
        await this.#writeRows([one])
        isSomeDone = true
      } catch (error) {
        const known = toKnown(error)
        if (known?.code === 'disk_full') {
          full = known
          this.#waiting.putBehind(one)
        } else if (known?.category === 'unavailable') throw known
        else this.#giveUp(one, error)
      }
    }
    if (full !== null && !isSomeDone) throw full
  }

  async #writeRows(together: readonly WaitingResponse[]): Promise<void> {
    await inTransaction(this.#parts.db, async (transaction) => {
      for (const one of together) {
        // its deletion may be done already
        if (this.#waiting.has(one)) await putResponse(transaction, this.#parts.ids.uuid(), one.record)
      }
    })
    for (const one of together) {
      this.#noteWritten(one)
      this.#waiting.end(one)
    }
  }

  #giveUp(one: WaitingResponse, error: unknown): void {
    this.#parts.logger.error({ err: error, response: one.record.responseId }, 'responses.not_stored')
    this.#waiting.end(one)
  }

  #noteWritten({ record, sizeBytes }: WaitingResponse): void {
    const { entity } = record.owner
    const since = this.#sinceTrim.get(entity)
    const next = { count: (since?.count ?? 0) + 1, sizeBytes: (since?.sizeBytes ?? 0) + sizeBytes }
    const isMuch =
      next.count > this.#tuned.limits.count * TRIM_PART || next.sizeBytes > this.#tuned.limits.sizeBytes * TRIM_PART
    // of a server that has just started nobody knows what the one before had stored
    if (since === undefined || isMuch) this.#dueForTrim.add(entity)
    this.#sinceTrim.set(entity, isMuch ? { count: 0, sizeBytes: 0 } : next)
  }

  /** What fails is tried again behind the next write. */
  async #trimDue(): Promise<void> {
    for (const entity of [...this.#dueForTrim]) {
      try {
        await trimResponses(this.#parts.db, entity, this.#tuned.limits)
        this.#dueForTrim.delete(entity)
      } catch (error) {
        this.#parts.logger.warn({ err: error, entity }, 'responses.trim_failed')
        return
      }
    }
  }

  #write(): void {
    if (!this.#isWriting && this.#retry === null) this.#written = this.#writeAll()
  }

  #writeAgain(): void {
    this.#retry = null
    this.#write()
  }

  async #read(tenant: Tenant, reference: Parameters<typeof findResponse>[2]): Promise<Response | null> {
    const row = await findResponse(this.#parts.db, tenant, reference, { mostMs: MOST_MS, columns: ['response'] })
    return row === null ? null : (JSON.parse(row.response) as Response)
  }
}

function toKnown(error: unknown): AppError | null {
  return error instanceof AppError ? error : toStorageError(error)
}

async function atMost(mostMs: number, awaited: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const isLate = new Promise((resolve) => {
    timer = setTimeout(resolve, mostMs)
  })
  await Promise.race([awaited, isLate])
  clearTimeout(timer)
}
