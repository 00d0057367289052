/**
 * Rows of routes.
 */
import type { Selectable } from 'kysely'
import { canonicalId } from '#base/util/ids.js'
import type { Tenant } from '#service/operations/access/principal.js'
import { type Database, databaseNowMs } from '#service/storage/database.js'
import { type Page, type PageOptions, toPage, unknownCursor } from '#service/storage/paging.js'
import type { GatewayRoute, RouteSpec } from '../route.js'
import { type GatewayRoutesTable, gatewayTables } from './tables.js'

/** @returns false: the name is taken, by a route of the entity or by another local one */
export async function insertRoute(
  db: Database,
  route: Pick<GatewayRoute, 'id' | 'entity' | 'project' | 'name' | 'isLocal' | 'spec'>,
): Promise<boolean> {
  const { id, entity, project, name, isLocal, spec } = route
  const result = await gatewayTables(db)
    .insertInto('gateway_routes')
    .values({
      ...{ id, entity, project, name, local_name: isLocal ? name : null, spec: JSON.stringify(spec) },
      ...{ calls: 0, lost_calls: 0, created_at_ms: databaseNowMs },
    })
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst()
  return (result.numInsertedOrUpdatedRows ?? 0n) > 0n
}

/** @param reference its name or id */
export async function findRoute(db: Database, tenant: Tenant, reference: string): Promise<GatewayRoute | null> {
  const row = await routesOf(db, tenant)
    .where((e) => e.or([e('name', '=', reference), e('id', '=', canonicalId(reference))]))
    .executeTakeFirst()
  return row === undefined ? null : toRoute(row)
}

/** Whoever's it is. */
export async function findLocalRoute(db: Database, name: string): Promise<GatewayRoute | null> {
  const query = gatewayTables(db).selectFrom('gateway_routes').selectAll().where('local_name', '=', name)
  const row = await query.executeTakeFirst()
  return row === undefined ? null : toRoute(row)
}

/** Newest first. */
export async function listRoutes(db: Database, tenant: Tenant, page: PageOptions): Promise<Page<GatewayRoute>> {
  let query = routesOf(db, tenant)
  if (page.after !== undefined) {
    const cursor = await query.where('id', '=', page.after).executeTakeFirst()
    if (cursor === undefined) throw unknownCursor(page.after)
    query = query.where('id', '<', page.after)
  }
  const rows = await query
    .orderBy('id', 'desc')
    .limit(page.limit + 1)
    .execute()
  return toPage(rows, page.limit, toRoute)
}

export async function countRoutes(db: Database, entity: string): Promise<number> {
  const row = await gatewayTables(db)
    .selectFrom('gateway_routes')
    .select((e) => e.fn.countAll<number>().as('count'))
    .where('entity', '=', entity)
    .executeTakeFirstOrThrow()
  return Number(row.count)
}

/** With all of its calls. */
export async function deleteRoute(db: Database, id: string): Promise<void> {
  await gatewayTables(db).deleteFrom('gateway_routes').where('id', '=', id).execute()
}

/** Whoever's they are. */
export async function listAllRoutes(db: Database): Promise<readonly GatewayRoute[]> {
  return (await gatewayTables(db).selectFrom('gateway_routes').selectAll().execute()).map(toRoute)
}

function routesOf(db: Database, { entity, project }: Tenant) {
  const query = gatewayTables(db).selectFrom('gateway_routes').selectAll().where('entity', '=', entity)
  return project === null ? query : query.where('project', '=', project)
}

function toRoute(row: Selectable<GatewayRoutesTable>): GatewayRoute {
  return {
    id: row.id,
    entity: row.entity,
    project: row.project,
    name: row.name,
    isLocal: row.local_name !== null,
    spec: JSON.parse(row.spec) as RouteSpec,
    calls: Number(row.calls),
    lostCalls: Number(row.lost_calls),
    createdAtMs: Number(row.created_at_ms),
  }
}
