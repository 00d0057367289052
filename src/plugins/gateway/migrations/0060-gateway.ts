/**
 * Routes to other services, and the calls that were recorded on them.
 */
import type { Kysely } from 'kysely'

/** Adds the tables. */
export async function up({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .createTable('gateway_routes')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('entity', 'text', (c) => c.notNull())
    .addColumn('project', 'text')
    .addColumn('name', 'text', (c) => c.notNull())
    .addColumn('local_name', 'text')
    .addColumn('spec', 'text', (c) => c.notNull())
    .addColumn('calls', 'bigint', (c) => c.notNull())
    .addColumn('lost_calls', 'bigint', (c) => c.notNull())
    .addColumn('created_at_ms', 'bigint', (c) => c.notNull())
    .execute()
  const unique = (name: string) => schema.createIndex(`gateway_routes_${name}`).on('gateway_routes').unique()
  await unique('by_name').columns(['entity', 'name']).execute()
  await unique('by_local_name').column('local_name').execute()
  await schema
    .createTable('gateway_calls')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('route_id', 'text', (c) => c.notNull().references('gateway_routes.id').onDelete('cascade'))
    .addColumn('form', 'text', (c) => c.notNull())
    .addColumn('model', 'text')
    .addColumn('status', 'integer', (c) => c.notNull())
    .addColumn('outcome', 'text', (c) => c.notNull())
    .addColumn('is_stream', 'integer', (c) => c.notNull())
    .addColumn('first_byte_ms', 'double precision')
    .addColumn('duration_ms', 'double precision', (c) => c.notNull())
    .addColumn('input_tokens', 'bigint')
    .addColumn('cached_tokens', 'bigint')
    .addColumn('output_tokens', 'bigint')
    .addColumn('content', 'text', (c) => c.notNull())
    .addColumn('shape_digest', 'text')
    .addColumn('prompt_digest', 'text')
    .addColumn('answer_digest', 'text')
    .addColumn('request', 'text')
    .addColumn('answer', 'text')
    .addColumn('size_bytes', 'bigint', (c) => c.notNull())
    .addColumn('started_at_ms', 'bigint', (c) => c.notNull())
    .execute()
  const index = (name: string) => schema.createIndex(`gateway_calls_${name}`).on('gateway_calls')
  await index('of_route').columns(['route_id', 'id']).execute()
  await index('by_start').columns(['route_id', 'started_at_ms']).execute()
}
