/**
 * The flags of `serve` and the options of the service that they, the environment and the config file set, both from the rows of
 * `contract/settings/service.ts`. Knows no single setting.
 */
import { resolve } from 'node:path'
import type { Config } from '#cli/config/load.js'
import { addedKeys } from '#cli/config/schema.js'
import { SERVICE_SETTINGS, type ServiceSettingName, type ServiceSettingValues } from '#contract/settings/service.js'
import type { SettingRow } from '#contract/settings/setting.js'
import { type Flag, flag } from './flags.js'

const names = Object.keys(SERVICE_SETTINGS) as ServiceSettingName[]

/** A flag a row, those that few need as advanced ones. */
export const serviceFlags = Object.fromEntries(
  names.map((name) => {
    const row: SettingRow = SERVICE_SETTINGS[name]
    return [name, flag.setting(SERVICE_SETTINGS[name].key, { isAdvanced: row.isCommon !== true })]
  }),
) as { readonly [Name in ServiceSettingName]: Flag<undefined> }

/** Every setting of the service by its name in the library; paths are seen from the working directory. */
export function serviceSettings(config: Config): ServiceSettingValues {
  return Object.fromEntries(
    names.map((name) => {
      const value = config.get(SERVICE_SETTINGS[name].key)
      const isPath = SERVICE_SETTINGS[name].type === 'path'
      return [name, isPath && typeof value === 'string' ? resolve(value) : value]
    }),
  ) as ServiceSettingValues
}

/** Flags of the settings of plugins that were loaded. */
export function pluginFlags(): Readonly<Record<string, Flag<undefined>>> {
  return Object.fromEntries(addedKeys.map((key) => [key, flag.setting(key, { isAdvanced: true })]))
}

/** What is set of them, by their keys. */
export function pluginSettings(config: Config): Readonly<Record<string, unknown>> {
  return Object.fromEntries(addedKeys.map((key) => [key, config.get(key)]))
}
