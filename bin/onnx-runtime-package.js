/**
 * Where an install put this package's ONNX Runtime, for the scripts that npm runs.
 *
 * It is installed under a name of our own (package.json), so that no other package, now or later, is given the same copy. An installer may
 * still keep one folder for several projects behind a link (pnpm, npm's linked strategy): that one is never touched.
 */
import { existsSync, realpathSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'

export const NAME = 'trainyard-onnxruntime'

/** @returns {string | undefined} its folder */
export function findOnnxRuntime() {
  return (createRequire(import.meta.url).resolve.paths(NAME) ?? [])
    .map((folder) => join(folder, NAME))
    .find((folder) => existsSync(join(folder, 'package.json')))
}

/** Whether nobody but this package reads the folder: it lies in place, and not behind a link. @param {string} root as found */
export function isOursAlone(root) {
  return realpathSync(root) === join(realpathSync(join(root, '..')), NAME)
}
