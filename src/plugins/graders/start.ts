/**
 * What graders of a server work with, by its settings.
 */
import type { PluginStart } from '#service/plugin.js'
import { type Outside, readOutside } from './outside.js'
import { createPythonAccess, type PythonAccess } from './python-access.js'

export interface StartedGraders {
  readonly outside: Outside
  readonly python: PythonAccess
}

export function startGraders(
  core: Omit<PluginStart, 'settings'>,
  settings: Parameters<typeof readOutside>[0] & { readonly allowPython: 'false' | 'true' | 'unconfined' },
): StartedGraders {
  const options = { allowed: settings.allowPython, python: core.serviceSettings.python }
  return { outside: readOutside(settings), python: createPythonAccess(core, options) }
}
