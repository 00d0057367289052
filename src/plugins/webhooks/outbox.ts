/**
 * Turns events of jobs into deliveries, and delivers them: beside everything else, never in a job's way.
 *
 * Which webhooks an event is for is written with the event, so nothing is lost when the server stops; deliveries are made in the
 * transaction that takes that note away, so nothing is made twice. Of several servers one sends a delivery: who claims it, for as long as an
 * attempt may take. A delivery may arrive twice (the server was killed after the answer): receivers tell by `webhook-id`.
 */

import type { Logger } from '#base/logging/logger.js'
import type { Clock } from '#base/util/clock.js'
import type { IdSource } from '#base/util/ids.js'
import type { WebhookEvent } from '#contract/wire/webhooks/webhook-words.js'
import type { AddressRules } from '#service/operations/address-rules.js'
import { toWireCheckpoint, toWireJob } from '#service/operations/to-wire.js'
import { findCheckpoint } from '#service/storage/checkpoints.js'
import type { Database, DatabaseHandle } from '#service/storage/database.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import { findJob, type JobRecord } from '#service/storage/training-jobs.js'
import { sendWebhook } from './send.js'
import {
  countWebhooks,
  forgetLostWebhookEvents,
  forgetWebhookEvent,
  hasWebhookEvents,
  listWebhookEvents,
  type TailEvent,
} from './storage/webhook-events.js'
import {
  claimDelivery,
  type DeliveryRecord,
  deleteOldDeliveries,
  findWebhook,
  freeDeliveries,
  insertDelivery,
  listDue,
  listDueWebhooks,
  listListeners,
  setAttempt,
} from './storage/webhooks.js'
import type { OutboxTiming } from './timing.js'

const EVENTS_PER_LOOK = 1000
const SENDS_AT_ONCE = 16
/** Receivers of one entity that are slow or gone hold no more than these, each for as long as an attempt may take. */
const SENDS_OF_ONE_ENTITY = 8
/** With those of entities of which nothing is being sent: their first ones wait for nobody. */
const MOST_SENDS = 64
/** Beside the attempt itself: to write down how it ended. */
const CLAIM_SPARE_MS = 30_000
const KEEP_MS = 30 * 24 * 3600_000

export interface Outbox {
  start(): void
  /** Looks now: something was created, or is to be sent again. */
  wake(): void
  /** Ends after the attempts that run. */
  stop(): Promise<void>
}

export interface OutboxOptions {
  readonly db: DatabaseHandle
  readonly ids: IdSource
  readonly clock: Pick<Clock, 'nowMs'>
  readonly logger: Logger
  readonly rules: AddressRules
  readonly version: string
  readonly timing: OutboxTiming
  /** Whether no other server works with the database: what was being sent when this one ended is sent anew at once. Default true */
  readonly isAlone?: boolean
}

export function createOutbox(options: OutboxOptions): Outbox {
  const { db, ids, clock, logger, rules, version, timing, isAlone = true } = options
  let timer: NodeJS.Timeout | null = null
  let running: Promise<void> | null = null
  let isStopped = false
  /** By delivery. */
  const sending = new Map<string, { readonly entity: string; readonly attempt: Promise<void> }>()

  async function look(): Promise<void> {
    if ((await countWebhooks(db)) === 0) return
    // other requests take their turn between transactions
    while (await hasWebhookEvents(db)) {
      if ((await inTransaction(db, (transaction) => collect(transaction, ids))) === 0) break
    }
    await sendDue()
  }

  function mayBegin(entity: string): boolean {
    const own = [...sending.values()].filter((other) => other.entity === entity).length
    if (own === 0) return sending.size < MOST_SENDS
    return own < SENDS_OF_ONE_ENTITY && sending.size < SENDS_AT_ONCE
  }

  /** Begins what is due, webhooks in turns: a round takes one delivery of each. */
  async function sendDue(): Promise<void> {
    const webhooks = (await listDueWebhooks(db)).filter(({ entity }) => mayBegin(entity))
    const queues = await Promise.all(
      webhooks.map(async ({ id, entity }) => {
        // those that are being sent are due as well
        const due = await listDue(db, id, 2 * SENDS_OF_ONE_ENTITY)
        return { entity, due: due.filter((delivery) => !sending.has(delivery.id)) }
      }),
    )
    for (let round = 0; round < SENDS_OF_ONE_ENTITY; round += 1) {
      for (const { entity, due } of queues) {
        const delivery = due[round]
        if (delivery !== undefined && !isStopped && mayBegin(entity)) begin(entity, delivery)
      }
    }
  }

  function begin(entity: string, delivery: DeliveryRecord): void {
    const attempt = send(entity, delivery)
      .catch((error: unknown) => logger.error({ err: error }, 'webhook.failed'))
      .finally(() => {
        sending.delete(delivery.id)
        wake()
      })
    sending.set(delivery.id, { entity, attempt })
  }

  async function send(entity: string, delivery: DeliveryRecord): Promise<void> {
    const webhook = await findWebhook(db, delivery.webhookId)
    if (webhook === null || !(await claimDelivery(db, delivery, timing.timeoutMs + CLAIM_SPARE_MS))) return
    const message = { id: delivery.eventId, timestamp: Math.floor(clock.nowMs() / 1000), body: delivery.body }
    const options = { userAgent: `Trainyard/${version}`, timeoutMs: timing.timeoutMs, key: entity }
    const attempt = await sendWebhook(rules, webhook, message, options)
    const retryMs = attempt.isDelivered ? null : (timing.retryMs[delivery.attempts] ?? null)
    await setAttempt(db, delivery, { ...attempt, retryMs: retryMs === null ? null : spread(retryMs, delivery.id) })
    const line = {
      webhook_id: webhook.id,
      delivery_id: delivery.id,
      status: attempt.status,
      attempt: delivery.attempts + 1,
    }
    if (attempt.isDelivered) logger.info(line, 'webhook.delivered')
    else logger.warn({ ...line, reason: attempt.error, is_last: retryMs === null }, 'webhook.not_delivered')
  }

  function wake(): void {
    if (isStopped) return
    running ??= look()
      .catch((error: unknown) => logger.error({ err: error }, 'webhook.look_failed'))
      .finally(() => {
        running = null
      })
  }

  return {
    wake,
    start: () => {
      timer = setInterval(wake, timing.pollMs).unref()
      const upkeep = async (): Promise<void> => {
        if (isAlone) await freeDeliveries(db)
        await deleteOldDeliveries(db, KEEP_MS)
      }
      upkeep().catch((error: unknown) => logger.error({ err: error }, 'webhook.upkeep_failed'))
    },
    stop: async () => {
      isStopped = true
      if (timer !== null) clearInterval(timer)
      await running
      await Promise.all([...sending.values()].map(({ attempt }) => attempt))
    },
  }
}

/** A tenth more or less, so that a receiver that comes back is not met by everybody at once. */
function spread(ms: number, id: string): number {
  return Math.round(ms * (0.9 + (Number.parseInt(id.slice(-4), 16) / 65_536) * 0.2))
}

/** Turns some events into deliveries. @returns how many; 0: what is still noted is of events that are gone, and is forgotten */
async function collect(db: Database, ids: IdSource): Promise<number> {
  const events = await listWebhookEvents(db, EVENTS_PER_LOOK)
  for (const event of events) {
    const job = await findJob(db, event.jobId)
    if (job !== null) await addDeliveries(db, ids, event, job)
    await forgetWebhookEvent(db, event)
  }
  if (events.length === 0) await forgetLostWebhookEvents(db)
  return events.length
}

async function addDeliveries(db: Database, ids: IdSource, event: TailEvent, job: JobRecord): Promise<void> {
  for (const type of typesOf(event)) {
    // what happened before somebody asked to be told is not told
    const listeners = (await listListeners(db, job, type)).filter(({ id }) => event.webhookIds.includes(id))
    if (listeners.length === 0) continue
    const data = await dataOf(db, type, job, event)
    const body = JSON.stringify({ type, timestamp: new Date(event.createdAtMs).toISOString(), data })
    for (const webhook of listeners) {
      const eventId = `msg_${event.id}_${type.replace('.', '_')}`
      await insertDelivery(db, { id: ids.uuid(), webhookId: webhook.id, eventId, eventType: type, body })
    }
  }
}

function typesOf(event: TailEvent): readonly WebhookEvent[] {
  switch (event.type) {
    case 'training_started':
      return ['training_job.started']
    case 'training_ended':
      return ['checkpoint.created', 'training_job.completed']
    default: {
      const { error_code: code } = JSON.parse(event.data) as { error_code?: string }
      return [code === 'cancelled' || code === 'model_deleted' ? 'training_job.cancelled' : 'training_job.failed']
    }
  }
}

/** The job or the checkpoint as the API shows it. */
async function dataOf(db: Database, type: WebhookEvent, job: JobRecord, event: TailEvent): Promise<object> {
  if (type !== 'checkpoint.created') return toWireJob(job)
  const { step } = JSON.parse(event.data) as { step?: number }
  const checkpoint = step === undefined ? null : await findCheckpoint(db, job.modelId, step)
  const shown = checkpoint === null ? { step } : toWireCheckpoint(checkpoint)
  return { ...shown, model_id: job.modelId, training_job_id: job.id }
}
