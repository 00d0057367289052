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

export const settings = Object.freeze(
  Object.fromEntries([...entriesOf(CLIENT_SETTINGS, 'client'), ...entriesOf(SERVICE_SETTINGS, 'service')]),
) as { readonly [K in SettingKey]: Setting<SettingValues[K]> }

/** Keys in table order, for help and `config list`. */
export const settingKeys: readonly SettingKey[] = Object.keys(settings).filter(isSettingKey)

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
