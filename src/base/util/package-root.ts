/**
 * Finds this package's folder on disk, whether it runs from the sources or from `dist/`.
 */
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** The folder of our package.json. */
export function packageRoot(): string {
  let folder = import.meta.dirname
  while (!existsSync(join(folder, 'package.json'))) folder = dirname(folder)
  return folder
}

/** The version in our package.json; read once at start, never on a request path. */
export function packageVersion(): string {
  const document: unknown = JSON.parse(readFileSync(join(packageRoot(), 'package.json'), 'utf8'))
  const version: unknown =
    typeof document === 'object' && document !== null && 'version' in document ? document.version : null
  return typeof version === 'string' ? version : 'unknown'
}
