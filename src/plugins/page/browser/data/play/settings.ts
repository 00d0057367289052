/**
 * The settings of Play, in the address. A text that is too long for one, which servers and proxies cut, is kept by the page alone.
 */
import { signal } from '@preact/signals'
import type { BaseModel, ServedModel } from '#contract/wire/models.js'
import { TALK_SAMPLING } from '#contract/wire/talk-words.js'
import { query, setQuery } from '../address.js'
import { ask } from '../client.js'
import { type PlaySettings, readSettings, type Sampling } from './request.js'

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

/** How each model asks to be sampled: a base model not at all, one's own as its base model's files say, else as talk is. */
export async function ownSamplings(
  models: readonly string[],
  signal: AbortSignal,
): Promise<Readonly<Record<string, Sampling>>> {
  const entries = models.map(async (model): Promise<readonly [string, Sampling]> => {
    // who may chat and nothing else is refused; a name that nobody has is told when it is asked
    const { parent } = await ask<ServedModel>(`/v1/models/${model}`, { signal }).catch(() => ({ parent: null }))
    if (parent === null) return [model, {}]
    const base = await ask<BaseModel>(`/v1/preview/base-models/${parent}`, { signal }).catch(() => null)
    return [model, base?.sampling ?? TALK_SAMPLING]
  })
  return Object.fromEntries(await Promise.all(entries))
}
