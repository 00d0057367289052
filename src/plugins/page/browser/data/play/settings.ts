/**
 * The settings of Play, in the address. A text that is too long for one, which servers and proxies cut, is kept by the page alone.
 */
import { signal } from '@preact/signals'
import { query, setQuery } from '../address.js'
import { type PlaySettings, readSettings } from './request.js'

/** Characters of one setting, encoded: three of them stay far below the 16 KB that a request line may have. */
const LONGEST = 3000

/** Settings that are not in the address, by name. */
const unsaved = signal<Readonly<Record<string, string>>>({})

export function playSettings(): PlaySettings {
  return readSettings((name) => unsaved.value[name] ?? query.value.get(name))
}

/** Names of the settings that a reload forgets. */
export function unsavedSettings(): readonly string[] {
  return Object.keys(unsaved.value)
}

/** @param text empty: as if it was never set */
export function setSetting(name: string, text: string): void {
  const { [name]: _, ...others } = unsaved.value
  const isLong = encodeURIComponent(text).length > LONGEST
  unsaved.value = isLong ? { ...others, [name]: text } : others
  setQuery({ [name]: text === '' || isLong ? null : text })
}
