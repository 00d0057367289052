/**
 * Walks a paged list by cursor.
 *
 * Stops when `has_more` is false, a page is empty, or a server repeats its cursor (which would otherwise never end).
 */
import type { List } from '#contract/wire/list.js'

/** Paging of any list; the server's default limit is 20, its ceiling 100. */
export interface PageQuery {
  readonly limit?: number | undefined
  readonly after?: string | undefined
}

/** The id-bearing part of every item: it is the cursor. */
export interface Identified {
  readonly id: string
}

/** Yields every item from `after` on, asking for the next page only when the last one is used up. */
export async function* eachItem<T extends Identified>(
  fetchPage: (query: PageQuery) => Promise<List<T>>,
  start: PageQuery = {},
): AsyncGenerator<T> {
  let after = start.after
  for (;;) {
    const page = await fetchPage({ limit: start.limit ?? 100, after })
    yield* page.data
    const last = page.data.at(-1)?.id
    if (!page.has_more || last === undefined || last === after) return
    after = last
  }
}

/** All items from `after` on as one finished page. */
export async function collectPages<T extends Identified>(
  fetchPage: (query: PageQuery) => Promise<List<T>>,
  start: PageQuery = {},
): Promise<List<T>> {
  const data: T[] = []
  for await (const item of eachItem(fetchPage, start)) data.push(item)
  return { object: 'list', data, first_id: data[0]?.id ?? '', last_id: data.at(-1)?.id ?? '', has_more: false }
}
