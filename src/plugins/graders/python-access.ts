/**
 * Whether Python graders run on this server, by its settings, and what runs them. Nothing of it is loaded before one is asked
 * for, but for a trial of the walls at the start of a server that allows them: an operator hears then that there are none.
 */
import { dirname } from 'node:path'
import { readEnvironment } from '#base/environment.js'
import { AppError } from '#base/errors/errors.js'
import { resolvePaths } from '#cli/config/paths.js'
import type { PluginStart } from '#service/plugin.js'
import type { PythonGraders } from './grading/python/python-graders.js'
import type { PythonLimits } from './grading/python/python-process.js'

export interface PythonAccess {
  /** @throws {AppError} `python_graders_disabled`, also where walls are needed and there are none */
  open(param: string): Promise<PythonGraders>
  /** What whoever writes a grader should know of how it runs here; null: nothing. */
  readonly warning: string | null
}

type Core = Pick<PluginStart, 'context' | 'lifetimes' | 'onListening' | 'tuning'>

export function createPythonAccess(
  { context, lifetimes, onListening, tuning }: Core,
  { allowed, python }: { readonly allowed: 'false' | 'true' | 'unconfined'; readonly python: string },
): PythonAccess {
  const environment = readEnvironment()
  let opening: Promise<PythonGraders> | null = null

  async function load(): Promise<PythonGraders> {
    const { createPythonGraders } = await import('./grading/python/python-graders.js')
    const graders = createPythonGraders({
      ...{ python, environment, walls: allowed === 'unconfined' ? 'none' : 'needed' },
      hidden: [dirname(context.preparedDir), dirname(resolvePaths(environment).configFile)],
      limits: tuning as Partial<PythonLimits> | undefined,
    })
    await graders.tryWalls()
    return graders
  }
  /** What failed is tried again: an interpreter may be installed meanwhile. */
  function openOnce(): Promise<PythonGraders> {
    opening ??= load().catch((error: unknown) => {
      opening = null
      throw error
    })
    return opening
  }
  if (allowed !== 'false') {
    lifetimes.add('python graders', async () => await (await opening?.catch(() => null))?.stop())
    onListening(() => {
      openOnce().catch((error: unknown) => context.logger.warn({ err: error }, 'graders.no_python'))
    })
  }

  return {
    warning:
      allowed === 'unconfined' ? 'Python graders run without walls on this server: they can read and send' : null,
    async open(param) {
      if (allowed === 'false') {
        throw new AppError('permission', 'python_graders_disabled', 'Python graders are not allowed on this server', {
          param,
          hint: 'the administrator may allow them: trainyard serve --allow-python-graders',
        })
      }
      try {
        return await openOnce()
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error)
        throw new AppError(
          'permission',
          'python_graders_disabled',
          `Python graders cannot run on this server: ${why}`,
          {
            param,
            hint: 'they need an interpreter (--python) and namespaces of Linux or the sandbox of macOS; --allow-python-graders=unconfined runs them without walls',
            cause: error,
          },
        )
      }
    },
  }
}
