/**
 * Where an install put this package's ONNX Runtime, and the SQLite of Node.js 20, for the scripts that npm runs.
 *
 * Each is installed under a name of our own (package.json), so that no other package, now or later, is given the same copy. An installer may
 * still keep one folder for several projects behind a link (pnpm, npm's linked strategy): that one is never touched.
 */
import { existsSync, realpathSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, join } from 'node:path'

export const NAME = 'trainyard-onnxruntime'
export const OLD_SQLITE = 'better-sqlite3-12'

/** @returns {string | undefined} the folder of a package */
export function findInstalled(name = NAME) {
  return (createRequire(import.meta.url).resolve.paths(name) ?? [])
    .map((folder) => join(folder, name))
    .find((folder) => existsSync(join(folder, 'package.json')))
}

/** Whether nobody but this package reads the folder: it lies in place, and not behind a link. @param {string} root as found */
export function isOursAlone(root) {
  return realpathSync(root) === join(realpathSync(join(root, '..')), basename(root))
}
