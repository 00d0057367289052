/** Where an install put ONNX Runtime's package, and whether it is there for this package alone. For the scripts that npm runs. */
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'

/** @returns {string | undefined} its folder */
export function findOnnxRuntime() {
  return (createRequire(import.meta.url).resolve.paths('onnxruntime-node') ?? [])
    .map((folder) => join(folder, 'onnxruntime-node'))
    .find((folder) => existsSync(join(folder, 'package.json')))
}

/** Whether the project that is installed into depends on it by itself. @param {NodeJS.ProcessEnv} env */
export function isWantedByProject(env) {
  const path = join(env.npm_config_local_prefix ?? env.INIT_CWD ?? '.', 'package.json')
  if (!existsSync(path)) return false
  const {
    name,
    dependencies = {},
    optionalDependencies = {},
    devDependencies = {},
  } = JSON.parse(readFileSync(path, 'utf8'))
  return name !== 'trainyard' && 'onnxruntime-node' in { ...dependencies, ...optionalDependencies, ...devDependencies }
}
