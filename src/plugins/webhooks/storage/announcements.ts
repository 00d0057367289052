/**
 * What plugins announce becomes deliveries at once, in the transaction in which it ended: nothing more is to be looked up, and what
 * happened before somebody asked to be told is not told. The body is that of OpenAI's webhooks.
 */
import { systemIds, timeOfId } from '#base/util/ids.js'
import type { Database } from '#service/storage/database.js'
import type { Announcement } from '#service/storage/schema-part.js'
import { insertDelivery, listListeners } from './webhooks.js'

export async function tellAnnouncement(db: Database, announcement: Announcement): Promise<void> {
  const { type, id } = announcement
  const listeners = await listListeners(db, announcement, type)
  if (listeners.length === 0) return
  const eventId = `evt_${announcement.eventId}_${type.replaceAll('.', '_')}`
  const createdAt = Math.floor((timeOfId(announcement.eventId) ?? 0) / 1000)
  const body = JSON.stringify({ id: eventId, object: 'event', type, created_at: createdAt, data: { id } })
  for (const webhook of listeners) {
    await insertDelivery(db, { id: systemIds.uuid(), webhookId: webhook.id, eventId, eventType: type, body })
  }
}
