/**
 * Expressions that SQLite and PostgreSQL spell differently. A statement is written once: where it needs one of these, it holds both
 * spellings, and the compiler of the open database takes its own.
 */
import { type OperationNode, type RawBuilder, type RawNode, sql } from 'kysely'

const IN_POSTGRES = Symbol('spelling of PostgreSQL')

interface SpelledNode extends RawNode {
  readonly [IN_POSTGRES]?: OperationNode
}

/** An expression, or a whole statement, in the words of either database. */
export function spelled<T>(words: { readonly sqlite: RawBuilder<T>; readonly postgres: RawBuilder<T> }): RawBuilder<T> {
  const node = { ...words.sqlite.toOperationNode(), [IN_POSTGRES]: words.postgres.toOperationNode() }
  return sql<T>`${{ toOperationNode: () => node }}`
}

/** Null for what both spell the same. */
export function postgresSpelling(node: SpelledNode): OperationNode | null {
  return node[IN_POSTGRES] ?? null
}

/** The greatest of values that are not null. */
export function greatest(...values: readonly RawBuilder<number>[]): RawBuilder<number> {
  const list = sql.join(values)
  return spelled({ sqlite: sql<number>`max(${list})`, postgres: sql<number>`greatest(${list})` })
}

/** The least of values that are not null. */
export function least(...values: readonly RawBuilder<number>[]): RawBuilder<number> {
  const list = sql.join(values)
  return spelled({ sqlite: sql<number>`min(${list})`, postgres: sql<number>`least(${list})` })
}

/** The day of UTC by the database's clock: `2026-11-22`. */
export const today = spelled({
  sqlite: sql<string>`strftime('%Y-%m-%d', 'now')`,
  postgres: sql<string>`to_char(timezone('utc', clock_timestamp()), 'YYYY-MM-DD')`,
})

/** `day` (`now` is today, of UTC), or the day so many days before it. */
export function dayBefore(day: string, days: number): RawBuilder<string> {
  const back = -Math.trunc(days)
  return spelled({
    sqlite: sql<string>`strftime('%Y-%m-%d', ${day}, ${`${back} days`})`,
    postgres: sql<string>`to_char(${day}::date + ${back}::integer, 'YYYY-MM-DD')`,
  })
}

/** Whether a text holds another, in upper or lower case of ASCII. */
export function containsText(column: RawBuilder<string>, text: string): RawBuilder<boolean> {
  return spelled({
    sqlite: sql<boolean>`instr(lower(${column}), lower(${text})) > 0`,
    postgres: sql<boolean>`strpos(lower(${column}), lower(${text}::text collate "C")) > 0`,
  })
}
