/**
 * The walls of macOS: what `sandbox-exec` is told. No network, nothing written outside of the grader's folder, and of homes and
 * of what is hidden only the interpreter is read. `run.py` tries whether it holds.
 */
import { realpath } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Environment } from '#base/environment.js'
import { readProgram } from '#base/processes/start-process.js'

const FOLDERS = 'import sys; print("\\n".join({*sys.path, sys.prefix, sys.base_prefix, sys.executable}))'
const ASKING_MS = 30_000

export async function sandboxProfile({
  python,
  environment,
  hidden,
  script,
  folder,
}: {
  readonly python: string
  readonly environment: Environment
  readonly hidden: readonly string[]
  readonly script: string
  readonly folder: string
}): Promise<string> {
  const seen = (await readProgram(python, ['-I', '-c', FOLDERS], { environment, timeoutMs: ASKING_MS })).split('\n')
  const real = async (path: string): Promise<string> => await realpath(path).catch(() => path)
  const all = async (paths: readonly string[]): Promise<string> =>
    (await Promise.all(paths.filter((path) => path.startsWith('/')).map(real))).map(quote).join(' ')
  const homes = ['/Users', '/Volumes', '/private/tmp', '/private/var/folders', environment['HOME'] ?? '']
  return [
    '(version 1)',
    '(allow default)',
    '(deny network*)',
    '(deny file-write*)',
    `(deny file-read-data ${await all(homes)})`,
    `(allow file-read-data ${await all([...seen, dirname(script)])})`,
    `(deny file-read* ${await all(hidden)})`,
    `(allow file-read* file-write* ${await all([folder])})`,
    '(allow file-read* file-write-data (literal "/dev/null"))',
  ].join('\n')
}

const quote = (path: string): string => `(subpath ${JSON.stringify(path)})`
