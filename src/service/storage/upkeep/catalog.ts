/**
 * Which tables and columns a database has: one of an earlier version lacks some.
 */
import { sql } from 'kysely'
import type { Database } from '../database.js'
import { spelled } from '../sql-words.js'

export async function hasTable(db: Database, table: string): Promise<boolean> {
  return (await listColumns(db)).some((column) => column.table === table)
}

export async function hasColumn(db: Database, table: string, name: string): Promise<boolean> {
  return (await listColumns(db)).some((column) => column.table === table && column.name === name)
}

export async function listColumns(db: Database): Promise<readonly { readonly table: string; readonly name: string }[]> {
  const { rows } = await spelled<{ table: string; name: string }>({
    sqlite: sql`select m.name as "table", c.name as "name"
      from sqlite_master as m, pragma_table_info(m.name) as c where m.type = 'table'`,
    postgres: sql`select table_name::text as "table", column_name::text as "name"
      from information_schema.columns where table_schema = current_schema()`,
  }).execute(db)
  return rows
}
