/**
 * Graders in Python of whoever runs a file of one's own: with limits, and behind walls where the system gives some. Nothing is
 * loaded or started before one is asked.
 */
import type { Environment } from '#base/environment.js'
import { sourcesOf } from '../check.js'
import type { GradePython } from '../grade.js'
import type { Grader } from '../spec.js'
import type { PythonGraders } from './python-graders.js'

interface LocalPython {
  readonly grade: GradePython
  /** Compiles its sources. @throws {InvalidRequestError} `invalid_grader` with the path of what is wrong */
  check(grader: Grader, signal?: AbortSignal): Promise<void>
}

export function createLocalPython({
  python = 'python3',
  environment,
  onNoWalls,
}: {
  readonly python?: string | undefined
  readonly environment: Environment
  readonly onNoWalls?: ((why: string) => void) | undefined
}): LocalPython {
  let opening: Promise<PythonGraders> | null = null
  const open = async (): Promise<PythonGraders> => {
    opening ??= import('./python-graders.js').then(({ createPythonGraders }) =>
      createPythonGraders({ python, environment, hidden: [], walls: 'wanted', onNoWalls }),
    )
    return await opening
  }
  return {
    grade: async (source, namespaces, options) => await (await open()).grade(source, namespaces, options),
    async check(grader, signal) {
      for (const { source, param } of sourcesOf(grader)) await (await open()).check(source, { param, signal })
    },
  }
}
