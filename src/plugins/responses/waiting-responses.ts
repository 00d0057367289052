/**
 * Responses that are not rows yet: in the order in which they are to be written, with a limit that the entity which holds most
 * meets first.
 */
import type { Logger } from '#base/logging/logger.js'
import { createDeferred } from '#base/util/deferred.js'
import type { Tenant } from '#service/operations/access/principal.js'
import { isOwn } from '#service/operations/access/tenant.js'
import type { StoredResponseRecord } from './storage/stored-responses.js'
import type { InputItem, Response } from './wire.js'

export interface StoredResponse {
  readonly response: Response
  /** Items of the whole conversation up to this response, without its output. */
  readonly items: readonly InputItem[]
}

export interface WaitingResponse {
  readonly stored: StoredResponse
  readonly record: StoredResponseRecord
  readonly sizeBytes: number
  /** Resolves when it waits no more. */
  readonly isOver: Promise<void>
}

export interface WaitingResponses {
  readonly count: () => number
  /** Drops the oldest ones of whoever holds most where all are too large together. */
  add(one: Omit<WaitingResponse, 'isOver'>): WaitingResponse
  /** The first ones. */
  next(most: number): readonly WaitingResponse[]
  has(one: WaitingResponse): boolean
  /** It is written, or given up. */
  end(one: WaitingResponse): void
  /** Lets the others go first; one that a later one of the same id replaces is given up. */
  putBehind(one: WaitingResponse): void
  /** The newest that the tenant may see. */
  find(tenant: Tenant, isIt: (stored: StoredResponse) => boolean): StoredResponse | null
  /** Gives up those under an id that the tenant may see. @returns whether there was one */
  drop(tenant: Tenant, id: string): boolean
}

interface Held extends WaitingResponse {
  resolve(): void
}

/** @param mostBytes of all together */
export function createWaitingResponses(mostBytes: number, logger: Logger): WaitingResponses {
  const waiting = new Set<Held>()
  /** By entity. */
  const heldBytes = new Map<string, number>()

  function count(entity: string, bytes: number): void {
    const held = (heldBytes.get(entity) ?? 0) + bytes
    if (held === 0) heldBytes.delete(entity)
    else heldBytes.set(entity, held)
  }

  function end(one: WaitingResponse): void {
    const held = one as Held
    if (!waiting.delete(held)) return
    count(held.record.owner.entity, -held.sizeBytes)
    held.resolve()
  }

  function dropTooMany(): void {
    const dropped = new Map<string, number>()
    while ([...heldBytes.values()].reduce((sum, bytes) => sum + bytes, 0) > mostBytes) {
      const [entity] = [...heldBytes].reduce((most, each) => (each[1] > most[1] ? each : most))
      for (const one of waiting) {
        if (one.record.owner.entity !== entity) continue
        end(one)
        break
      }
      dropped.set(entity, (dropped.get(entity) ?? 0) + 1)
    }
    for (const [entity, responses] of dropped) {
      logger.warn({ entity, responses, limit_bytes: mostBytes }, 'responses.dropped')
    }
  }

  return {
    count: () => waiting.size,
    add: (given) => {
      const { promise: isOver, resolve } = createDeferred<void>()
      const one: Held = { ...given, isOver, resolve }
      waiting.add(one)
      count(one.record.owner.entity, one.sizeBytes)
      dropTooMany()
      return one
    },
    next: (most) => [...waiting].slice(0, most),
    has: (one) => waiting.has(one as Held),
    end,
    putBehind: (one) => {
      if (!waiting.delete(one as Held)) return
      waiting.add(one as Held)
      if ([...waiting].some((other) => other !== one && isSame(other.record, one.record))) end(one)
    },
    find: (tenant, isIt) =>
      [...waiting].findLast(({ record, stored }) => isOwn(tenant, record.owner) && isIt(stored))?.stored ?? null,
    drop: (tenant, id) => {
      const held = [...waiting].filter(({ record }) => isOwn(tenant, record.owner) && record.responseId === id)
      for (const one of held) end(one)
      return held.length > 0
    },
  }
}

function isSame(one: StoredResponseRecord, other: StoredResponseRecord): boolean {
  const isOwners = one.owner.entity === other.owner.entity && one.owner.project === other.owner.project
  return isOwners && one.responseId === other.responseId
}
