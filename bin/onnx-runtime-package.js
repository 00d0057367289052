/** Where an install put ONNX Runtime's package, and whether it is there for this package alone. For the scripts that npm runs. */
import { existsSync, readdirSync, readFileSync, realpathSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const NAME = 'onnxruntime-node'
const OWN_FOLDER = dirname(dirname(realpathSync(fileURLToPath(import.meta.url))))

/** @returns {string | undefined} its folder */
export function findOnnxRuntime() {
  return (createRequire(import.meta.url).resolve.paths(NAME) ?? [])
    .map((folder) => join(folder, NAME))
    .find((folder) => existsSync(join(folder, 'package.json')))
}

/** Whether the project that is installed into depends on it by itself. @param {NodeJS.ProcessEnv} env */
export function isWantedByProject(env) {
  const folder = projectOf(env)
  return folder !== null && needsIt(folder)
}

/**
 * Whether somebody else may need it: the project, one of several packages in it, another package that was installed beside this one, or other
 * projects, where the installer keeps one copy for all of them.
 *
 * @param {string} root as found @param {NodeJS.ProcessEnv} env
 */
export function isSharedWithOthers(root, env) {
  const project = projectOf(env)
  if (project !== null) {
    const { workspaces } = manifestOf(project)
    if (workspaces !== undefined || existsSync(join(project, 'pnpm-workspace.yaml')) || needsIt(project)) return true
  }
  const folder = dirname(root)
  if (realpathSync(root) !== join(realpathSync(folder), NAME)) return true
  return packagesIn(folder).some((each) => realpathSync(each) !== OWN_FOLDER && needsIt(each))
}

/** @returns {string | null} null where this package itself is the project */
function projectOf(env) {
  const folder = env.npm_config_local_prefix ?? env.INIT_CWD ?? '.'
  return existsSync(join(folder, 'package.json')) && realpathSync(folder) !== OWN_FOLDER ? folder : null
}

function packagesIn(folder) {
  return readdirSync(folder)
    .flatMap((name) =>
      name.startsWith('@') ? readdirSync(join(folder, name)).map((each) => join(name, each)) : [name],
    )
    .map((name) => join(folder, name))
    .filter((each) => existsSync(join(each, 'package.json')))
}

function needsIt(folder) {
  const { dependencies, optionalDependencies, devDependencies, peerDependencies } = manifestOf(folder)
  return (
    NAME in
    { ...dependencies, ...optionalDependencies, ...peerDependencies, ...(isInstalled(folder) ? {} : devDependencies) }
  )
}

/** What a package that was installed needs for its own tests is not. */
const isInstalled = (folder) => /[\\/]node_modules[\\/]/.test(realpathSync(folder))

const manifestOf = (folder) => JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
