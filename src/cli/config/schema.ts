/**
 * Every setting of the command line and the service in one table, made from their rows (`client-settings.ts`,
 * `contract/settings/service.ts`): what help texts, `trainyard config list`, validation and did-you-mean read.
 *
 * Where a value came from is `load.ts`.
 */
import { SERVICE_SETTINGS } from '#contract/settings/service.js'
import type { SettingRow, SettingValue } from '#contract/settings/setting.js'
import { CLIENT_SETTINGS } from './client-settings.js'
import { type Setting, toSetting } from './setting.js'

type RowsOf<T> = T[keyof T]
type Row = RowsOf<typeof CLIENT_SETTINGS> | RowsOf<typeof SERVICE_SETTINGS>

export type SettingKey = Row['key']

/** What a setting's text is parsed to. */
export type SettingValues = { readonly [R in Row as R['key']]: SettingValue<R> }

const table: Record<string, Setting<unknown>> = Object.fromEntries([
  ...entriesOf(CLIENT_SETTINGS, 'client'),
  ...entriesOf(SERVICE_SETTINGS, 'service'),
])

export const settings = table as { readonly [K in SettingKey]: Setting<SettingValues[K]> }

/** Keys in table order, for help and `config list`. */
export const settingKeys: SettingKey[] = Object.keys(settings).filter(isSettingKey)

/** Keys of the settings of plugins. */
export const addedKeys: SettingKey[] = []

/** Adds the settings of a plugin, for as long as this process runs. */
export function addSettings(rows: Readonly<Record<string, SettingRow>>): void {
  for (const row of Object.values(rows)) {
    if (isSettingKey(row.key)) continue
    table[row.key] = toSetting(row, 'service')
    // it is one from here on; no code names it
    const key = row.key as SettingKey
    const before = row.after === undefined ? -1 : settingKeys.indexOf(row.after as SettingKey)
    settingKeys.splice(before === -1 ? settingKeys.length : before + 1, 0, key)
    addedKeys.push(key)
  }
}

/** Whether `key` is a row of the table. */
export function isSettingKey(key: string): key is SettingKey {
  return Object.hasOwn(settings, key)
}

function entriesOf(
  rows: Readonly<Record<string, SettingRow>>,
  usedBy: 'client' | 'service',
): readonly (readonly [string, Setting<unknown>])[] {
  return Object.values(rows).map((row) => [row.key, toSetting(row, usedBy)])
}
