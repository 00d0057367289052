/**
 * Settings of plugins: the values of their rows, which the core does not know.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import { requireWithin, type ServiceSettings } from './options.js'
import type { Plugin } from './plugin.js'

/** What a service is started with. */
export type GivenSettings = Pick<ServiceSettings, 'pluginSettings'>
/** By plugin, values by the names of its rows and of those that it needs, with every default filled in. */
export type SettingsByPlugin = ReadonlyMap<string, Readonly<Record<string, never>>>

/**
 * @param options where values stand by the names of their rows, too
 * @throws {InvalidRequestError} `invalid_setting` for what no plugin has, and for a number outside its bounds
 */
export function resolvePluginSettings(
  plugins: readonly Plugin[],
  { pluginSettings: given = {}, ...options }: GivenSettings,
): SettingsByPlugin {
  const keys = new Set<string>()
  const own = plugins.map(({ name: plugin, settings = {} }) => {
    const values = Object.entries(settings).map(([name, row]) => {
      keys.add(row.key)
      const named: unknown = Reflect.get(options, name)
      const value = given[row.key] ?? named ?? row.default
      if ('bounds' in row && row.bounds !== undefined)
        requireWithin(named === undefined ? row.key : name, value, row.bounds)
      return [name, value]
    })
    return [plugin, Object.fromEntries(values) as Readonly<Record<string, never>>] as const
  })
  const unknown = Object.keys(given).find((key) => !keys.has(key))
  if (unknown === undefined) return withNeeded(plugins, new Map(own))
  throw new InvalidRequestError('invalid_setting', `no plugin that is loaded has a setting "${unknown}"`, {
    param: unknown,
    hint: 'name the file of its plugin, too',
  })
}

function withNeeded(plugins: readonly Plugin[], own: SettingsByPlugin): SettingsByPlugin {
  const of = (name: string): [string, never][] => Object.entries(own.get(name) ?? {})
  return new Map(
    plugins.map(({ name, needs = [] }) => [name, Object.fromEntries([...needs, name].flatMap(of))] as const),
  )
}
