/**
 * Single-letter shortcuts of one page, off where those of `keys.tsx` are off.
 */
import { useEffect, useRef } from 'preact/hooks'
import { go } from '../data/address.js'
import { isForPage } from './keys.js'

/** @param places where a key goes; null: nowhere. Asked when one is pressed: the address may be ahead of what is drawn. */
export function usePlaces(places: () => Readonly<Record<string, string | null>>): void {
  const latest = useRef(places)
  latest.current = places
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      const place = isForPage(event) ? (latest.current()[event.key] ?? null) : null
      if (place === null) return
      event.preventDefault()
      go(place)
    }
    document.addEventListener('keydown', onKey)
    return () => document.removeEventListener('keydown', onKey)
  }, [])
}
