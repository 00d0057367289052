/**
 * A list that grows by "More": how many rows are shown is in the address, so that the way back leads to the same place.
 */
import type { List } from '#contract/wire/list.js'
import { query, setQuery } from './address.js'
import { ask } from './client.js'
import { type Following, type Loaded, useLoad } from './load.js'

/** Rows at first, and of each "More". */
const STEP = 50
const MOST = 2000
/** Most of one request. */
const PAGE = 100

export interface Rows<T> {
  readonly data: readonly T[]
  readonly has_more: boolean
}

/** @param path of the list, with its filters; null: not yet */
export function useRows<T extends { readonly id: string }>(
  path: string | null,
  following: Following<Rows<T>>,
): Loaded<Rows<T>> & { readonly more: (() => void) | null } {
  const asked = Number(query.value.get('rows') ?? STEP)
  const count = Number.isInteger(asked) ? Math.min(MOST, Math.max(STEP, asked)) : STEP
  const loaded = useLoad<Rows<T>>(
    path === null ? null : `${count} of ${path}`,
    (signal) => readRows<T>(path ?? '', count, signal),
    following,
  )
  const hasMore = loaded.data?.has_more === true && count < MOST
  return { ...loaded, more: hasMore ? () => setQuery({ rows: String(count + STEP) }) : null }
}

async function readRows<T extends { readonly id: string }>(
  path: string,
  count: number,
  signal: AbortSignal,
): Promise<Rows<T>> {
  const data: T[] = []
  for (;;) {
    const last = data.at(-1)
    const limit = Math.min(PAGE, count - data.length)
    const after = last === undefined ? '' : `&after=${encodeURIComponent(last.id)}`
    const page = await ask<List<T>>(`${path}${path.includes('?') ? '&' : '?'}limit=${limit}${after}`, { signal })
    for (const row of page.data) data.push(row)
    if (!page.has_more || page.data.length === 0 || data.length >= count) return { data, has_more: page.has_more }
  }
}
