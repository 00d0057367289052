/**
 * What happened lately, in order, for whoever follows it. It lies in memory and is bounded: a reader holds a place in it and nothing else,
 * so that a slow one costs nothing, and one that fell behind is told to read everything again.
 */
import type { Clock } from '#base/util/clock.js'
import type { IdSource } from '#base/util/ids.js'
import type { JsonObject } from '#base/util/json.js'
import type { Activity, ActivityQuery, ActivityType } from '#contract/wire/activity.js'
import { DEFAULT_PAGE_LIMIT, type List, toList } from '#contract/wire/list.js'
import { unknownCursor } from '#service/storage/paging.js'
import type { Tenant } from '../access/principal.js'
import { isOwn } from '../access/tenant.js'

/** Something that happened. */
export interface Happening {
  readonly type: ActivityType
  /** Whose it is; null: everybody's, as base models are. */
  readonly owner: (Pick<Tenant, 'entity'> & { readonly project: string }) | null
  readonly modelId: string | null
  readonly data: JsonObject
}

export type ActivityFilter = Pick<ActivityQuery, 'topics' | 'model_id'>

export interface ActivityFeed {
  publish(happening: Happening): void
  /** What lies in memory of it, oldest first. @throws {InvalidRequestError} `invalid_cursor` for a place that is not known any more */
  list(tenant: Tenant, query: ActivityQuery): List<Activity>
  /**
   * What happens, from a place on, or from now on: `ready` then comes first. Ends when `signal` aborts.
   *
   * @param after place of the last event that was seen; one that is not known any more gives `reset`
   */
  follow(
    tenant: Tenant,
    filter: ActivityFilter,
    after: string | undefined,
    signal: AbortSignal,
  ): AsyncGenerator<Activity>
}

interface Entry extends Happening {
  readonly at: number
  readonly createdAtMs: number
}

/** Events that are remembered: some minutes of ten jobs, about 1 MB. */
const MOST = 1000

export function createActivityFeed(
  { clock, ids }: { readonly clock: Pick<Clock, 'nowMs'>; readonly ids: Pick<IdSource, 'secret'> },
  most = MOST,
): ActivityFeed {
  // places of an earlier process mean other events
  const epoch = ids.secret(6)
  const entries: Entry[] = []
  let last = 0
  const waiting = new Set<() => void>()

  const idOf = (at: number): string => `${epoch}.${at}`
  const oldest = (): number => last - entries.length + 1

  /** Null for a place whose next event is not known any more. */
  function placeOf(id: string): number | null {
    const at = id.startsWith(`${epoch}.`) ? Number(id.slice(epoch.length + 1)) : Number.NaN
    return Number.isSafeInteger(at) && at >= oldest() - 1 && at <= last ? at : null
  }

  const sign = (type: 'ready' | 'reset'): Activity => ({
    id: idOf(last),
    type,
    created_at: new Date(clock.nowMs()).toISOString(),
    project: null,
    model_id: null,
    data: {},
  })

  const toWire = ({ at, type, createdAtMs, owner, modelId, data }: Entry): Activity => ({
    id: idOf(at),
    type,
    created_at: new Date(createdAtMs).toISOString(),
    project: owner?.project ?? null,
    model_id: modelId,
    data: { ...data } as Activity['data'],
  })

  const isFor = (tenant: Tenant, { topics, model_id: modelId }: ActivityFilter, entry: Entry): boolean =>
    (entry.owner === null || isOwn(tenant, entry.owner)) &&
    (topics === undefined || topics.some((topic) => entry.type.startsWith(`${topic}.`))) &&
    (modelId === undefined || entry.modelId === null || entry.modelId === modelId)

  function nextNotice(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const settle = (): void => {
        waiting.delete(settle)
        signal.removeEventListener('abort', settle)
        resolve()
      }
      waiting.add(settle)
      signal.addEventListener('abort', settle, { once: true })
      if (signal.aborted) settle()
    })
  }

  return {
    publish: (happening) => {
      last += 1
      entries.push({ ...happening, at: last, createdAtMs: clock.nowMs() })
      if (entries.length > most) entries.shift()
      for (const wake of [...waiting]) wake()
    },
    list: (tenant, { after, limit = DEFAULT_PAGE_LIMIT, ...filter }) => {
      const place = after === undefined ? oldest() - 1 : placeOf(after)
      if (place === null) throw unknownCursor(after ?? '')
      const found = entries.filter((entry) => entry.at > place && isFor(tenant, filter, entry))
      return toList(found.slice(0, limit).map(toWire), found.length > limit)
    },
    async *follow(tenant, filter, after, signal) {
      let seen = after === undefined ? last : (placeOf(after) ?? -1)
      if (after === undefined) yield sign('ready')
      while (!signal.aborted) {
        if (seen < oldest() - 1) {
          seen = last
          yield sign('reset')
          continue
        }
        const entry = entries[seen + 1 - oldest()]
        if (entry === undefined) {
          await nextNotice(signal)
          continue
        }
        seen = entry.at
        if (isFor(tenant, filter, entry)) yield toWire(entry)
      }
    },
  }
}
