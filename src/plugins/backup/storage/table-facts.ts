/**
 * The tables of an open database as its catalog has them, in an order in which rows can be written: what others refer to comes first.
 * A table of a later migration is in it without being named anywhere.
 */
import { sql } from 'kysely'
import type { Database } from '#service/storage/database.js'
import { spelled } from '#service/storage/sql-words.js'
import { listColumns } from '#service/storage/upkeep/catalog.js'

export interface TableFacts {
  readonly name: string
  /** By name, so that two databases have them in one order. */
  readonly columns: readonly string[]
  readonly primaryKey: readonly string[]
}

interface Pair {
  readonly table: string
  readonly name: string
}

/** Without those of the migrator, and SQLite's own. */
export async function listTables(db: Database): Promise<readonly TableFacts[]> {
  const columns = group(await listColumns(db))
  const keys = group(await listKeys(db))
  const references = group(await listReferences(db))
  const names = [...columns.keys()].filter((name) => !/^(kysely|sqlite)_/.test(name)).sort()
  return inOrder(names, references).map((name) => ({
    name,
    columns: [...(columns.get(name) ?? [])].sort(),
    primaryKey: keys.get(name) ?? [],
  }))
}

/** Columns that number rows by themselves, and have to go on behind what was written into them. None in SQLite, which looks. */
export async function listCounters(db: Database): Promise<readonly Pair[]> {
  const { rows } = await spelled<Pair>({
    sqlite: sql`select '' as "table", '' as "name" where false`,
    postgres: sql`select table_name::text as "table", column_name::text as "name" from information_schema.columns
      where table_schema = current_schema() and is_identity = 'YES'`,
  }).execute(db)
  return rows
}

async function listKeys(db: Database): Promise<readonly Pair[]> {
  const { rows } = await spelled<Pair>({
    sqlite: sql`select m.name as "table", c.name as "name" from sqlite_master as m, pragma_table_info(m.name) as c
      where m.type = 'table' and c.pk > 0 order by m.name, c.pk`,
    postgres: sql`select t.relname::text as "table", a.attname::text as "name" from pg_constraint as c
      join pg_class as t on t.oid = c.conrelid and t.relnamespace = current_schema()::regnamespace
      cross join lateral unnest(c.conkey) with ordinality as k(number, place)
      join pg_attribute as a on a.attrelid = t.oid and a.attnum = k.number
      where c.contype = 'p' order by t.relname, k.place`,
  }).execute(db)
  return rows
}

/** `name` is the table that a row of `table` refers to. */
async function listReferences(db: Database): Promise<readonly Pair[]> {
  const { rows } = await spelled<Pair>({
    sqlite: sql`select distinct m.name as "table", f."table" as "name"
      from sqlite_master as m, pragma_foreign_key_list(m.name) as f where m.type = 'table'`,
    postgres: sql`select distinct t.relname::text as "table", f.relname::text as "name" from pg_constraint as c
      join pg_class as t on t.oid = c.conrelid and t.relnamespace = current_schema()::regnamespace
      join pg_class as f on f.oid = c.confrelid where c.contype = 'f'`,
  }).execute(db)
  return rows
}

function group(pairs: readonly Pair[]): ReadonlyMap<string, string[]> {
  const groups = new Map<string, string[]>()
  for (const { table, name } of pairs) groups.set(table, [...(groups.get(table) ?? []), name])
  return groups
}

function inOrder(names: readonly string[], references: ReadonlyMap<string, readonly string[]>): readonly string[] {
  const ordered = new Set<string>()
  function add(name: string): void {
    if (ordered.has(name)) return
    for (const other of references.get(name) ?? []) if (other !== name) add(other)
    ordered.add(name)
  }
  for (const name of names) add(name)
  return [...ordered]
}
