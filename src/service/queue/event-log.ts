/**
 * Appending to a job's events so that each is stored exactly once.
 *
 * A worker numbers its events from 0 in every attempt. Training is deterministic, so event k of a second attempt is event
 * k of the first: positions already stored are skipped, and a client that polls across a crash sees no step twice.
 */

import { InvalidRequestError } from '#base/errors/errors.js'
import type { IdSource } from '#base/util/ids.js'
import type { JsonObject } from '#base/util/json.js'
import type { EventType } from '#contract/wire/job-words.js'
import type { Database } from '#service/storage/database.js'
import { countEvents, insertEvents } from '#service/storage/events.js'

export interface EventBody {
  readonly type: EventType
  readonly data: JsonObject
}

/**
 * Stores events `offset`, `offset + 1`, … of a job; those stored before are left as they are.
 *
 * @returns how many were new
 * @throws {InvalidRequestError} `event_gap` if events before `offset` are missing
 */
export async function appendEvents(
  db: Database,
  ids: IdSource,
  jobId: string,
  batch: { readonly offset: number; readonly events: readonly EventBody[] },
): Promise<number> {
  const stored = await countEvents(db, jobId)
  if (batch.offset > stored) {
    throw new InvalidRequestError('event_gap', `offset must be at most ${stored}, got ${batch.offset}`, {
      param: 'offset',
    })
  }
  const added = batch.events.slice(stored - batch.offset)
  await insertEvents(
    db,
    jobId,
    stored,
    added.map((event) => ({ id: ids.uuid(), ...event })),
  )
  return added.length
}

/** Stores the terminal event behind all others; a unique index refuses a second one. */
export async function appendTerminalEvent(db: Database, ids: IdSource, jobId: string, event: EventBody): Promise<void> {
  await insertEvents(db, jobId, await countEvents(db, jobId), [{ id: ids.uuid(), ...event }])
}
