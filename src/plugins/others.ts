/**
 * Plugins that are no part of this package: modules that somebody named. A process that was told of one has it in all it does.
 */
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { AppError } from '#base/errors/errors.js'
import type { Installed, Plugin } from '#service/plugin.js'
import { INSTALLED } from './index.js'

const others = new Map<string, Plugin>()

/** All plugins of this process. */
export function installed(): Installed {
  return { ...INSTALLED, plugins: [...INSTALLED.plugins, ...others.values()], files: [...others.keys()] }
}

/**
 * Loads what is not loaded yet.
 *
 * @param paths seen from the working directory
 * @throws {AppError} `plugin_not_loaded`, `plugin_invalid`
 */
export async function loadOthers(paths: readonly string[]): Promise<readonly Plugin[]> {
  const loaded: Plugin[] = []
  for (const path of paths) {
    const file = resolve(path)
    const plugin = others.get(file) ?? (await loadOne(file))
    others.set(file, plugin)
    loaded.push(plugin)
  }
  return loaded
}

async function loadOne(file: string): Promise<Plugin> {
  const { checkForeign } = await import('#service/check-plugin.js')
  const module = await import(pathToFileURL(file).href).catch((cause: unknown) => {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new AppError('invalid_request', 'plugin_not_loaded', `plugin "${file}" cannot be loaded: ${reason}`, {
      hint: 'a plugin is a JavaScript module that exports what definePlugin of trainyard/plugin makes',
      cause,
    })
  })
  const { plugin, default: byDefault } = module as { readonly plugin?: unknown; readonly default?: unknown }
  return checkForeign(plugin ?? byDefault, file)
}
