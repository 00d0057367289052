/**
 * Settings with their sources: flag, else environment, else config file, else default.
 *
 * Parsed once, frozen, passed down. Only the value that is used is parsed: a malformed variable does not break a
 * command that was given the flag.
 */

import type { Environment } from '#base/environment.js'
import { type FileSettings, readConfigFile } from './config-file.js'
import { parseSetting } from './parse-setting.js'
import { type Paths, resolvePaths } from './paths.js'
import { type SettingKey, type SettingValues, settingKeys, settings } from './schema.js'

export type SettingSource = 'flag' | 'env' | 'file' | 'default'

/** A value and where it came from. */
export interface ResolvedSetting<T> {
  readonly value: T
  readonly source: SettingSource
  /** The flag, the variable's name or the file's path; empty for a default. */
  readonly origin: string
}

export interface Config {
  readonly paths: Paths
  /** The value of a setting. */
  get<K extends SettingKey>(key: K): SettingValues[K]
  /** The value with its source. */
  resolve<K extends SettingKey>(key: K): ResolvedSetting<SettingValues[K]>
}

export interface ConfigInput {
  readonly environment: Environment
  /** Raw text of flags that were given; a boolean flag is `true` or `false` as text. */
  readonly flags: Readonly<Partial<Record<SettingKey, string>>>
}

/**
 * Loads all settings.
 *
 * @throws {InvalidRequestError} `invalid_setting` or `invalid_config_file`, naming the flag, variable or file
 */
export async function loadConfig(input: ConfigInput): Promise<Config> {
  const paths = resolvePaths(input.environment)
  const file = await readConfigFile(paths.configFile)
  const resolved: Partial<Record<SettingKey, ResolvedSetting<unknown>>> = {}
  for (const key of settingKeys) resolved[key] = Object.freeze(resolveSetting(key, input, file, paths))
  const table = Object.freeze(resolved) as { readonly [K in SettingKey]: ResolvedSetting<SettingValues[K]> }
  return { paths, get: (key) => table[key].value, resolve: (key) => table[key] }
}

function resolveSetting<K extends SettingKey>(
  key: K,
  input: ConfigInput,
  file: FileSettings,
  paths: Paths,
): ResolvedSetting<SettingValues[K]> {
  const setting = settings[key]
  const flagText = input.flags[key]
  if (flagText !== undefined) {
    const origin = longFlag(setting.flag)
    return { value: parseSetting(key, flagText, origin), source: 'flag', origin }
  }
  for (const name of setting.env) {
    const text = input.environment[name]
    if (text === undefined || text === '') continue
    // CI is set to all kinds of words; any of them but an explicit "no" means a machine is running us.
    const value = name === 'CI' ? parseSetting(key, isNo(text) ? '0' : '1', name) : parseSetting(key, text, name)
    return { value, source: 'env', origin: name }
  }
  const fileText = file[key]
  if (fileText !== undefined) {
    return { value: parseSetting(key, fileText, key), source: 'file', origin: paths.configFile }
  }
  return { value: setting.default, source: 'default', origin: '' }
}

function isNo(text: string): boolean {
  return ['0', 'false', 'no', 'off'].includes(text.toLowerCase())
}

function longFlag(flag: string | null): string {
  return /--[a-z-]+/.exec(flag ?? '')?.[0] ?? 'flag'
}
