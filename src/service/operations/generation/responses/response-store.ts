/**
 * Responses that were asked to be stored, for `previous_response_id` and for references to items: rows, which every server of the
 * database finds, also after a restart.
 *
 * No request writes before its answer, and each is told its last word when the row is there, so that whoever goes on finds it.
 * Where the database does not take it soon, the answer is not kept waiting: the response stays in memory until it does.
 */
import { AppError } from '#base/errors/errors.js'
import type { Logger } from '#base/logging/logger.js'
import { createDeferred } from '#base/util/deferred.js'
import type { IdSource } from '#base/util/ids.js'
import type { InputItem, Response } from '#contract/wire/inference/responses.js'
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
} from '#service/storage/responses/stored-responses.js'
import type { Tenant } from '../../access/principal.js'
import { isOwn, ownerOf } from '../../access/tenant.js'

export interface StoredResponse {
  readonly response: Response
  /** Items of the whole conversation up to this response, without its output. */
  readonly items: readonly InputItem[]
}

export interface ResponseStore {
  /** Resolves when others find it, or when that takes too long. */
  put(tenant: Tenant, stored: StoredResponse): Promise<void>
  /** Null for what is unknown, forgotten or another's. */
  find(tenant: Tenant, id: string): Promise<StoredResponse | null>
  findItem(tenant: Tenant, itemId: string): Promise<InputItem | null>
  delete(tenant: Tenant, id: string): Promise<boolean>
  /** Writes what is still in memory; what cannot be written is logged and lost. */
  stop(): Promise<void>
}

/** Of an entity. */
const LIMITS: ResponseLimits = { count: 10_000, sizeBytes: 64 * 1024 ** 2 }
const MOST_MS = 30 * 24 * 3_600_000
/** Of those of all that wait for the database, the newest ones. */
const MOST_WAITING_BYTES = 64 * 1024 ** 2
/** Written in one transaction. */
const TOGETHER = 32
/** How long an answer waits for its row. */
const PATIENCE_MS = 1000
const RETRY_MS = 1000
const SWEEP_MS = 3_600_000
/** An entity's rows are counted when this part of a limit came since they were. */
const TRIM_PART = 1 / 16

interface Waiting {
  readonly tenant: Tenant
  readonly stored: StoredResponse
  readonly record: StoredResponseRecord
  readonly sizeBytes: number
  /** Resolves when it waits no more. */
  readonly isOver: Promise<void>
  end(): void
}

export function createResponseStore(
  { db, ids, logger }: { readonly db: DatabaseHandle; readonly ids: IdSource; readonly logger: Logger },
  { limits = LIMITS }: { readonly limits?: ResponseLimits | undefined } = {},
): ResponseStore {
  const waiting = new Set<Waiting>()
  const sinceTrim = new Map<string, { count: number; sizeBytes: number }>()
  let isWriting = false
  let written: Promise<void> = Promise.resolve()
  let isStopped = false

  /** Writes all that waits, those that come meanwhile too. */
  async function writeAll(): Promise<void> {
    isWriting = true
    try {
      while (waiting.size > 0) {
        const together = [...waiting].slice(0, TOGETHER)
        await writeTogether(together)
        for (const one of together) leave(one)
        for (const entity of noteWritten(together)) await trimResponses(db, entity, limits)
      }
    } catch (error) {
      logger.error({ err: error, responses: waiting.size }, 'responses.write_failed')
      if (waiting.size > 0 && !isStopped) setTimeout(write, RETRY_MS).unref()
    } finally {
      isWriting = false
    }
  }

  /** Those that no try would store are logged. @throws {AppError} for what may be better later */
  async function writeTogether(together: readonly Waiting[]): Promise<void> {
    try {
      await inTransaction(db, async (transaction) => {
        for (const { record } of together) await putResponse(transaction, ids.uuid(), record)
      })
    } catch (error) {
      const known = error instanceof AppError ? error : toStorageError(error)
      if (known?.category === 'unavailable') throw known
      // it is one of them: the others are stored without it
      if (together.length > 1) for (const one of together) await writeTogether([one])
      else logger.error({ err: error, response: together[0]?.record.responseId }, 'responses.not_stored')
    }
  }

  /** @returns entities whose rows have to be counted */
  function noteWritten(stored: readonly Waiting[]): ReadonlySet<string> {
    const due = new Set<string>()
    for (const { record, sizeBytes } of stored) {
      const { entity } = record.owner
      const since = sinceTrim.get(entity)
      // of a server that has just started nobody knows what the one before had stored
      if (since === undefined) due.add(entity)
      const next = { count: (since?.count ?? 0) + 1, sizeBytes: (since?.sizeBytes ?? 0) + sizeBytes }
      if (next.count > limits.count * TRIM_PART || next.sizeBytes > limits.sizeBytes * TRIM_PART) due.add(entity)
      sinceTrim.set(entity, next)
    }
    for (const entity of due) sinceTrim.set(entity, { count: 0, sizeBytes: 0 })
    return due
  }

  const write = (): void => {
    if (!isWriting) written = writeAll()
  }

  function leave(one: Waiting): boolean {
    one.end()
    return waiting.delete(one)
  }

  function forgetTooMany(): void {
    let bytes = 0
    for (const one of [...waiting].reverse()) {
      bytes += one.sizeBytes
      if (bytes > MOST_WAITING_BYTES) leave(one)
    }
  }

  function findWaiting(tenant: Tenant, isIt: (stored: StoredResponse) => boolean): StoredResponse | null {
    const found = [...waiting].findLast(({ tenant: owner, stored }) => isOwn(tenant, owner) && isIt(stored))
    return found?.stored ?? null
  }

  const sweep = setInterval(() => {
    deleteOldResponses(db, MOST_MS).catch((error: unknown) => logger.warn({ err: error }, 'responses.sweep_failed'))
  }, SWEEP_MS).unref()

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
      const { promise: isOver, resolve: end } = createDeferred<void>()
      const one = { tenant: record.owner, stored, record, sizeBytes: sizeOf(record), isOver, end }
      waiting.add(one)
      forgetTooMany()
      write()
      await atMost(PATIENCE_MS, isOver)
    },
    find: async (tenant, id) =>
      findWaiting(tenant, ({ response }) => response.id === id) ??
      toStored(await findResponse(db, tenant, { responseId: id }, MOST_MS)),
    findItem: async (tenant, itemId) => {
      const has = ({ response }: StoredResponse): boolean => response.output.some(({ id }) => id === itemId)
      const owner = findWaiting(tenant, has) ?? toStored(await findResponse(db, tenant, { itemId }, MOST_MS))
      return owner?.response.output.find(({ id }) => id === itemId) ?? null
    },
    delete: async (tenant, id) => {
      const isIt = (one: Waiting): boolean => isOwn(tenant, one.tenant) && one.stored.response.id === id
      const held = [...waiting].filter(isIt)
      // a row that is on its way would come behind its deletion
      await atMost(PATIENCE_MS, Promise.all(held.map(({ isOver }) => isOver)))
      const isDropped = held.map(leave).includes(true)
      return (await inTransaction(db, (transaction) => deleteResponse(transaction, tenant, id))) || isDropped
    },
    stop: async () => {
      isStopped = true
      clearInterval(sweep)
      // one that has failed meanwhile is tried once more
      await written
      write()
      await written
    },
  }
}

async function atMost(mostMs: number, awaited: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const isLate = new Promise((resolve) => {
    timer = setTimeout(resolve, mostMs)
  })
  await Promise.race([awaited, isLate])
  clearTimeout(timer)
}

function toStored(row: { readonly response: string; readonly items: string } | null): StoredResponse | null {
  return row === null
    ? null
    : { response: JSON.parse(row.response) as Response, items: JSON.parse(row.items) as InputItem[] }
}
