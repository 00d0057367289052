/**
 * The flags of `serve` and the options of the service that they, the environment and the config file set, both from the rows of
 * `contract/settings/service.ts`. Knows no single setting.
 */
import { resolve } from 'node:path'
import type { Config } from '#cli/config/load.js'
import { addedKeys, type SettingKey, settingKeys, settings } from '#cli/config/schema.js'
import { SERVICE_SETTINGS, type ServiceSettingName, type ServiceSettingValues } from '#contract/settings/service.js'
import { type Flag, flag } from './flags.js'

const names = Object.keys(SERVICE_SETTINGS) as ServiceSettingName[]

/** A flag a setting of the service and of the plugins that were loaded, those that few need as advanced ones. */
export function serviceFlags(): Readonly<Record<string, Flag<undefined>>> {
  const keys = settingKeys.filter((key) => settings[key].usedBy === 'service')
  return Object.fromEntries(keys.map((key) => [key, flag.setting(key, { isAdvanced: !settings[key].isCommon })]))
}

/** Every setting of the service by its name in the library; paths are seen from the working directory. */
export function serviceSettings(config: Config): ServiceSettingValues {
  return Object.fromEntries(
    names.map((name) => [name, pathOrValue(config, SERVICE_SETTINGS[name].key)]),
  ) as ServiceSettingValues
}

/** What is set for the plugins that were loaded, by their keys. */
export function pluginSettings(config: Config): Readonly<Record<string, unknown>> {
  return Object.fromEntries(addedKeys.map((key) => [key, pathOrValue(config, key)]))
}

function pathOrValue(config: Config, key: SettingKey): unknown {
  const value = config.get(key)
  return settings[key].type === 'path' && typeof value === 'string' ? resolve(value) : value
}
