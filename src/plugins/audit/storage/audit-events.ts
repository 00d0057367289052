/**
 * Rows of the audit log.
 */
import type { Selectable } from 'kysely'
import type { Tenant } from '#service/operations/access/principal.js'
import { type Database, databaseNowMs } from '#service/storage/database.js'
import { type Page, type PageOptions, toPage, unknownCursor } from '#service/storage/paging.js'
import { storableText } from '#service/storage/row-values.js'
import type { AuditEvent } from '../wire.js'
import { type AuditEventsTable, auditTables } from './tables.js'

/** @returns it as it stands now, with the database's time */
export async function insertAuditEvent(
  db: Database,
  event: Omit<AuditEvent, 'object' | 'created_at'>,
): Promise<AuditEvent> {
  const row = await auditTables(db)
    .insertInto('audit_events')
    .values({
      ...event,
      target: JSON.stringify(event.target),
      made_id: storableText(event.made_id),
      error: storableText(event.error),
      created_at_ms: databaseNowMs,
    })
    .returningAll()
    .executeTakeFirstOrThrow()
  return toEvent(row)
}

/** Newest first. */
export async function listAuditEvents(
  db: Database,
  of: { readonly tenant: Tenant; readonly action: string | undefined; readonly keyId: string | undefined },
  { limit, after }: PageOptions,
): Promise<Page<AuditEvent>> {
  let query = auditTables(db).selectFrom('audit_events').selectAll().where('entity', '=', of.tenant.entity)
  if (of.tenant.project !== null) query = query.where('project', '=', of.tenant.project)
  if (after !== undefined) {
    if ((await query.where('id', '=', after).executeTakeFirst()) === undefined) throw unknownCursor(after)
    query = query.where('id', '<', after)
  }
  if (of.action !== undefined) query = query.where('action', '=', of.action)
  if (of.keyId !== undefined) query = query.where('key_id', '=', of.keyId)
  const rows = await query
    .orderBy('id', 'desc')
    .limit(limit + 1)
    .execute()
  return toPage(rows, limit, toEvent)
}

/** Deletes what is older. */
export async function deleteOldAuditEvents(db: Database, ageMs: number): Promise<void> {
  await auditTables(db)
    .deleteFrom('audit_events')
    .where((where) => where('created_at_ms', '<', where(databaseNowMs, '-', ageMs)))
    .execute()
}

function toEvent({ created_at_ms: createdAtMs, target, ...row }: Selectable<AuditEventsTable>): AuditEvent {
  return {
    ...{ ...row, object: 'audit.event' },
    target: JSON.parse(target) as Record<string, string>,
    created_at: new Date(createdAtMs).toISOString(),
  }
}
