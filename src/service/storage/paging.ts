/**
 * Cursor pages: one extra row tells whether more exist. Knows nothing of which table is paged.
 */
import { InvalidRequestError } from '#base/errors/errors.js'

/** What to read: rows strictly after the row `after`. */
export interface PageOptions {
  readonly after?: string | undefined
  readonly limit: number
}

/** One page of records in order. */
export interface Page<T> {
  readonly items: readonly T[]
  readonly hasMore: boolean
}

/** Cuts the extra row off. @param rows at most `limit + 1` rows */
export function toPage<Row, T>(rows: readonly Row[], limit: number, toRecord: (row: Row) => T): Page<T> {
  return { items: rows.slice(0, limit).map(toRecord), hasMore: rows.length > limit }
}

/** The error for a cursor that names no row of the list being paged. */
export function unknownCursor(after: string): InvalidRequestError {
  return new InvalidRequestError('invalid_cursor', `after must be the id of an item of this list, got "${after}"`, {
    param: 'after',
  })
}
