/**
 * Python interpreters that have PyTorch: Debian's, which each CI run installs where it can, and the package index's with `CI_HEAVY=1`
 * (`.ci/run`). Tests that need one skip with `NO_TORCH` where there is none.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { packageRoot } from '#base/util/package-root.js'

export const NO_TORCH = 'no Python with PyTorch in .cache/torch-venv or .cache/torch-pypi-venv: .ci/run installs one'

/** Paths of the interpreters that are there, the newest PyTorch first. */
export const TORCH_PYTHONS: readonly string[] = ['torch-pypi-venv', 'torch-venv']
  .map((folder) => join(packageRoot(), '.cache', folder, 'bin', 'python'))
  .filter((path) => existsSync(path))

/** Name of the environment an interpreter stands in, for titles of tests. */
export function environmentOf(python: string): string {
  return python.split('/').at(-3) ?? python
}
