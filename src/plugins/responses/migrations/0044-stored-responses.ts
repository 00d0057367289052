/**
 * Responses that were asked to be stored, and the items they answered with: until then in a server's memory.
 */
import type { Kysely } from 'kysely'

/** Adds the tables. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('stored_responses')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('entity', 'text', (c) => c.notNull())
    .addColumn('project', 'text', (c) => c.notNull())
    .addColumn('response_id', 'text', (c) => c.notNull())
    .addColumn('size_bytes', 'bigint', (c) => c.notNull())
    .addColumn('created_at_ms', 'bigint', (c) => c.notNull())
    .addColumn('response', 'text', (c) => c.notNull())
    .addColumn('items', 'text', (c) => c.notNull())
    // keys of all of an entity look in every project
    .addUniqueConstraint('stored_responses_of', ['entity', 'response_id', 'project'])
    .execute()
  const { schema } = db
  // with the size, so that what is too much is found without reading the rows
  const byAge = schema.createIndex('stored_responses_by_age').on('stored_responses')
  await byAge.columns(['entity', 'created_at_ms', 'id', 'size_bytes'] as never[]).execute()
  const byEnd = schema.createIndex('stored_responses_by_end').on('stored_responses')
  await byEnd.column('created_at_ms').execute()
  await schema
    .createTable('stored_response_items')
    .addColumn('item_id', 'text', (c) => c.primaryKey())
    .addColumn('stored_id', 'text', (c) => c.notNull().references('stored_responses.id').onDelete('cascade'))
    .execute()
  const byResponse = schema.createIndex('stored_response_items_of').on('stored_response_items')
  await byResponse.column('stored_id').execute()
}
