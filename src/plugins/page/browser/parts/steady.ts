/**
 * Holds the row of a table that is read where it is while rows come above it. Browsers do so by themselves (`overflow-anchor`),
 * but not inside of what scrolls sideways.
 */
import type { RefObject } from 'preact'
import { useLayoutEffect } from 'preact/hooks'

/** @param box what contains the table */
export function useSteadyRows(box: RefObject<HTMLElement | null>): void {
  // what is drawn now is still as it was
  const row = firstSeenRow(box.current)
  const top = row?.getBoundingClientRect().top ?? 0
  useLayoutEffect(() => {
    if (row === null || !row.isConnected) return
    const moved = row.getBoundingClientRect().top - top
    if (moved !== 0) scrollBy({ top: moved, behavior: 'instant' })
  })
}

/** Null where the first row is seen: new ones may come there. */
function firstSeenRow(box: HTMLElement | null): HTMLElement | null {
  const rows = [...(box?.querySelectorAll<HTMLElement>('tbody > tr') ?? [])]
  const seen = rows.findIndex((row) => row.getBoundingClientRect().bottom > 0)
  return seen > 0 ? (rows[seen] ?? null) : null
}
