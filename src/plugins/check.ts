/**
 * Loads what all plugins of this process are made of, so that a fault is found before somebody needs them.
 */
import { loadPlugins } from '#service/assembly/plugins.js'
import { pluginInvalid } from '#service/check-plugin.js'
import { installed } from './others.js'

/** @returns their names @throws {AppError} `plugin_invalid`; what their modules throw */
export async function checkPlugins(): Promise<readonly string[]> {
  const all = installed()
  await loadPlugins(all)
  for (const { name, commands, jobOptions, databases = [], blobStores = [] } of all.plugins) {
    // reading an address loads what opens it
    for (const { read, example } of [...databases, ...blobStores]) await read(example, {})
    if (jobOptions !== undefined && typeof (await jobOptions.rl.rewards()).shape !== 'function') {
      throw pluginInvalid(name, 'what jobOptions.rl.rewards() loads has no function "shape"')
    }
    for (const { path, load } of commands?.rows ?? []) {
      if (typeof Reflect.get(await load(), 'invoke') === 'function') continue
      throw pluginInvalid(name, `command "${path}" is not made by defineCommand`)
    }
  }
  return all.plugins.map(({ name }) => name)
}
