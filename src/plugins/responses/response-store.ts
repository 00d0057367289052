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
  { db, ids, logger }: { readonly db: DatabaseHandle; readonly ids: IdSource; readonly logger: Logger },
  tuning: Partial<ResponseStoreTuning> = {},
): ResponseStore {
  const { limits, patienceMs, retryMs, mostWaitingBytes } = { ...DEFAULTS, ...tuning }
  const waiting = createWaitingResponses(mostWaitingBytes, logger)
  const sinceTrim = new Map<string, { count: number; sizeBytes: number }>()
  /** Entities whose rows have to be counted. */
  const dueForTrim = new Set<string>()
  let isWriting = false
  let retry: NodeJS.Timeout | null = null
  let written: Promise<void> = Promise.resolve()
  let isStopped = false

  /** Writes all that waits, those that come meanwhile too. */
  async function writeAll(): Promise<void> {
    isWriting = true
    try {
      while (waiting.count() > 0) {
        await writeTogether(waiting.next(TOGETHER))
        await trimDue()
      }
    } catch (error) {
      logger.error({ err: error, responses: waiting.count() }, 'responses.write_failed')
      if (waiting.count() > 0 && !isStopped) retry ??= setTimeout(writeAgain, retryMs).unref()
    } finally {
      isWriting = false
    }
  }

  /** @throws {AppError} for what may be better later; some may be written all the same */
  async function writeTogether(together: readonly WaitingResponse[]): Promise<void> {
    try {
      await writeRows(together)
    } catch (error) {
      const known = toKnown(error)
      // it may be one of them, the others are stored without it: what is too large for the disk, or what no try would store
      if (together.length > 1 && (known?.category !== 'unavailable' || known.code === 'disk_full')) {
        await writeOneByOne(together)
      } else if (known?.category === 'unavailable') throw known
      else for (const one of together) giveUp(one, error)
    }
  }

  /** Those that do not fit go behind all others. @throws {AppError} as above, where none was written */
  async function writeOneByOne(together: readonly WaitingResponse[]): Promise<void> {
    let full: AppError | null = null
    let isSomeDone = false
    for (const one of together) {
      // deleted meanwhile
      if (!waiting.has(one)) continue
      try {
        await writeRows([one])
        isSomeDone = true
      } catch (error) {
        const known = toKnown(error)
        if (known?.code === 'disk_full') {
          full = known
          waiting.putBehind(one)
        } else if (known?.category === 'unavailable') throw known
        else giveUp(one, error)
      }
    }
    if (full !== null && !isSomeDone) throw full
  }

  async function writeRows(together: readonly WaitingResponse[]): Promise<void> {
    await inTransaction(db, async (transaction) => {
      for (const one of together) {
        // its deletion may be done already
        if (waiting.has(one)) await putResponse(transaction, ids.uuid(), one.record)
      }
    })
    for (const one of together) {
      noteWritten(one)
      waiting.end(one)
    }
  }

  function giveUp(one: WaitingResponse, error: unknown): void {
    logger.error({ err: error, response: one.record.responseId }, 'responses.not_stored')
    waiting.end(one)
  }

  function noteWritten({ record, sizeBytes }: WaitingResponse): void {
    const { entity } = record.owner
    const since = sinceTrim.get(entity)
    const next = { count: (since?.count ?? 0) + 1, sizeBytes: (since?.sizeBytes ?? 0) + sizeBytes }
    const isMuch = next.count > limits.count * TRIM_PART || next.sizeBytes > limits.sizeBytes * TRIM_PART
    // of a server that has just started nobody knows what the one before had stored
    if (since === undefined || isMuch) dueForTrim.add(entity)
    sinceTrim.set(entity, isMuch ? { count: 0, sizeBytes: 0 } : next)
  }

  /** What fails is tried again behind the next write. */
  async function trimDue(): Promise<void> {
    for (const entity of [...dueForTrim]) {
      try {
        await trimResponses(db, entity, limits)
        dueForTrim.delete(entity)
      } catch (error) {
        logger.warn({ err: error, entity }, 'responses.trim_failed')
        return
      }
    }
  }

  const write = (): void => {
    if (!isWriting && retry === null) written = writeAll()
  }

  function writeAgain(): void {
    retry = null
    write()
  }

  const sweep = setInterval(() => {
    deleteOldResponses(db, MOST_MS).catch((error: unknown) => logger.warn({ err: error }, 'responses.sweep_failed'))
  }, SWEEP_MS).unref()

  async function get(tenant: Tenant, reference: Parameters<typeof findResponse>[2]): Promise<Response | null> {
    const row = await findResponse(db, tenant, reference, { mostMs: MOST_MS, columns: ['response'] })
    return row === null ? null : (JSON.parse(row.response) as Response)
  }

  return {
    put: async (tenant, stored) => {
      const { response, items } = stored
      const record: StoredResponseRecord = {
        owner: ownerOf(tenant),
        responseId: response.id,
        response: JSON.stringify(response),
        items: JSON.stringify(items),
        itemIds: response.output.map(({ id }) => id),
      }
      const sizeBytes = sizeOf(record)
      if (sizeBytes > limits.sizeBytes) {
        // none of its entity would be left beside it
        const facts = { response: response.id, size_bytes: sizeBytes, limit_bytes: limits.sizeBytes }
        logger.warn(facts, 'responses.not_stored')
        return
      }
      const { isOver } = waiting.add({ stored, record, sizeBytes })
      write()
      await atMost(patienceMs, isOver)
    },
    find: async (tenant, id) => {
      const held = waiting.find(tenant, ({ response }) => response.id === id)
      if (held !== null) return held
      const columns = ['response', 'items'] as const
      const row = await findResponse(db, tenant, { responseId: id }, { mostMs: MOST_MS, columns })
      if (row === null) return null
      return { response: JSON.parse(row.response) as Response, items: JSON.parse(row.items) as InputItem[] }
    },
    get: async (tenant, id) =>
      waiting.find(tenant, ({ response }) => response.id === id)?.response ?? (await get(tenant, { responseId: id })),
    findItem: async (tenant, itemId) => {
      const isIt = ({ id }: { readonly id: string }): boolean => id === itemId
      const held = waiting.find(tenant, ({ response }) => response.output.some(isIt))
      const response = held?.response ?? (await get(tenant, { itemId }))
      return response?.output.find(isIt) ?? null
    },
    delete: async (tenant, id) => {
      // behind a row that is on its way, and one that is not yet comes no more
      const isDropped = waiting.drop(tenant, id)
      return (await inTransaction(db, (transaction) => deleteResponse(transaction, tenant, id))) || isDropped
    },
    stop: async () => {
      isStopped = true
      clearInterval(sweep)
      await written
      if (retry !== null) clearTimeout(retry)
      retry = null
      // what has failed meanwhile is tried once more
      write()
      await written
    },
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
