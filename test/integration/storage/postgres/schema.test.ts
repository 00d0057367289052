/**
 * A PostgreSQL database has the tables that SQLite's migrations make: columns with their types, nulls and defaults, keys, foreign keys,
 * indexes and triggers. Whoever adds a migration that PostgreSQL cannot run, or that leaves another schema there, fails here.
 */
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { SQUASHED } from '#plugins/postgres/storage/open-postgres.js'
import type { DatabaseHandle, OpenDatabase } from '#service/storage/database.js'
import { hasPostgres, type LocalPostgres, NO_POSTGRES, startPostgres } from '../../../support/local-postgres.js'
import { MIGRATIONS, openDatabase, openPostgres, POSTGRES_MIGRATIONS } from '../../../support/service/with-plugins.js'

type Facts = Readonly<Record<'columns' | 'indexes' | 'foreignKeys' | 'triggers', readonly string[]>>

const TYPES: Readonly<Record<string, string>> = {
  text: 'text C',
  integer: 'bigint',
  bigint: 'bigint',
  blob: 'bytea',
  real: 'double precision',
}

async function textsOf(db: DatabaseHandle, statement: string): Promise<string[]> {
  const { rows } = await sql.raw<{ fact: string }>(statement).execute(db)
  return rows.map(({ fact }) => fact).sort()
}

async function factsOfSqlite(db: DatabaseHandle): Promise<Facts> {
  const tables = `(select name from sqlite_master where type = 'table'
    and name not like 'sqlite!_%' escape '!' and name not like 'kysely!_%' escape '!') as t`
  const { rows } = await sql
    .raw<{ at: string; type: string; isNull: number; value: string | null }>(
      `select t.name || '.' || c.name as at, lower(c.type) as type, c."notnull" = 0 and c.pk = 0 as "isNull", c.dflt_value as value
        from ${tables}, pragma_table_info(t.name) as c`,
    )
    .execute(db)
  const columns = rows.map((row) => factOf(row.at, TYPES[row.type] ?? row.type, row.isNull === 1, row.value))
  const indexed = `(select group_concat(name, ', ') from (select name from pragma_index_info(i.name) order by seqno))`
  return {
    columns: columns.sort(),
    indexes: await textsOf(
      db,
      `select t.name || ' (' || ${indexed} || ')' || case i."unique" when 1 then ' unique' else '' end
        || case i.partial when 1 then ' partial' else '' end || case i.origin when 'c' then ' ' || i.name else '' end as fact
        from ${tables}, pragma_index_list(t.name) as i
        union all select t.name || ' (' || c.name || ') unique' from ${tables}, pragma_table_info(t.name) as c
        where t.name = 'server_runs' and c.pk = 1`,
    ),
    foreignKeys: await textsOf(
      db,
      `select t.name || '.' || f."from" || ' → ' || f."table" || case f.on_delete when 'CASCADE' then ' cascade' else '' end as fact
        from ${tables}, pragma_foreign_key_list(t.name) as f`,
    ),
    triggers: await textsOf(db, "select name as fact from sqlite_master where type = 'trigger'"),
  }
}

async function factsOfPostgres(db: DatabaseHandle): Promise<Facts> {
  const own = "table_schema = current_schema() and table_name not like 'kysely\\_%'"
  const { rows } = await sql
    .raw<{ at: string; type: string; isNull: boolean; value: string | null }>(
      `select table_name || '.' || column_name as at, data_type || coalesce(' ' || collation_name, '') as type,
        is_nullable = 'YES' as "isNull", column_default as value from information_schema.columns where ${own}`,
    )
    .execute(db)
  const columns = rows.map((row) => factOf(row.at, row.type, row.isNull, row.value))
  const indexed = `(select string_agg(pg_get_indexdef(x.indexrelid, n, true), ', ' order by n)
    from generate_series(1, x.indnkeyatts) as n)`
  // an index that belongs to a key has a name that nobody chose
  const isOfKey = 'exists (select 1 from pg_constraint where conindid = x.indexrelid)'
  const relations =
    "pg_class as t on t.relnamespace = current_schema()::regnamespace and t.relname not like 'kysely\\_%'"
  return {
    columns: columns.sort(),
    indexes: await textsOf(
      db,
      `select t.relname || ' (' || ${indexed} || ')' || case when x.indisunique then ' unique' else '' end
        || case when x.indpred is not null then ' partial' else '' end
        || case when ${isOfKey} then '' else ' ' || i.relname end as fact
        from pg_index as x join ${relations} and t.oid = x.indrelid join pg_class as i on i.oid = x.indexrelid`,
    ),
    foreignKeys: await textsOf(
      db,
      `select t.relname || '.' || a.attname || ' → ' || f.relname || case c.confdeltype when 'c' then ' cascade' else '' end as fact
        from pg_constraint as c join ${relations} and t.oid = c.conrelid join pg_class as f on f.oid = c.confrelid
        join pg_attribute as a on a.attrelid = t.oid and a.attnum = c.conkey[1] where c.contype = 'f'`,
    ),
    triggers: await textsOf(db, 'select tgname::text as fact from pg_trigger where not tgisinternal'),
  }
}

/** One column in words that both databases have. */
function factOf(at: string, type: string, isNull: boolean, value: string | null): string {
  const text = /unixepoch|clock_timestamp/.test(value ?? '') ? 'now' : value?.replace(/::[a-z ]+$/, '')
  return `${at} ${type}${isNull ? '' : ' not null'}${text === undefined ? '' : ` = ${text}`}`
}

describe.skipIf(!hasPostgres())(hasPostgres() ? 'the tables of PostgreSQL' : NO_POSTGRES, () => {
  let postgres: LocalPostgres
  let opened: OpenDatabase
  let sqlite: OpenDatabase
  let own: Facts
  let given: Facts

  beforeAll(async () => {
    postgres = await startPostgres()
    opened = await openPostgres(await postgres.createDatabase(), { maxConnections: 2 })
    sqlite = await openDatabase(':memory:')
    own = await factsOfPostgres(opened.db)
    // it quotes names that are words of SQL
    own = { ...own, indexes: own.indexes.map((fact) => fact.replaceAll('"', '')).sort() }
    given = await factsOfSqlite(sqlite.db)
  })
  afterAll(async () => {
    await opened?.close()
    await sqlite?.close()
    await postgres?.stop()
  })

  test.each(['columns', 'indexes', 'foreignKeys', 'triggers'] as const)('have the %s of SQLite', (kind) => {
    expect(given[kind].length).toBeGreaterThan(10)
    expect(own[kind]).toEqual(given[kind])
  })

  test('go through every migration that came after those they begin with', () => {
    const later = Object.keys(MIGRATIONS).filter((name) => name > SQUASHED)
    expect(Object.keys(POSTGRES_MIGRATIONS).sort()).toEqual([SQUASHED, ...later].sort())
  })

  test('sort texts by their bytes, and hold 64-bit numbers that come back as numbers', async () => {
    const names = ['b', 'Z', 'a', 'É', '~']
    const big = 2 ** 52 + 1
    for (const name of names) {
      const value = { entity: 'e', day: '2026-11-28', project: name, model: 'm', training_ms: big }
      await opened.db.insertInto('usage_days').values(value).execute()
    }
    const rows = await opened.db
      .selectFrom('usage_days')
      .select((e) => ['project', e.fn.sum<number>('training_ms').as('total')])
      .groupBy('project')
      .orderBy('project')
      .execute()
    expect(rows.map(({ project }) => project)).toEqual(['Z', 'a', 'b', '~', 'É'])
    expect(rows[0]?.total).toBe(big)
  })
})
