/**
 * Runs before the scripts of our dependencies (npm runs every `preinstall` first). Refuses a platform that ONNX Runtime has no binary for,
 * because npm shows what a script of a dependency says only when it fails; the command line alone, which calls a server elsewhere, installs
 * with TRAINYARD_CLIENT_ONLY=1.
 *
 * It also keeps ONNX Runtime's package from fetching
 * CUDA libraries, hundreds of megabytes from a host that is not the npm registry, which this package never uses and without
 * which its install fails.
 *
 * Its script leaves out files that exist, so each missing one gets a note in its place: in the copy that is installed for this package
 * alone (onnx-runtime-package.js), never in one that others read. Nothing is done when somebody has chosen (ONNXRUNTIME_NODE_INSTALL,
 * --onnxruntime-node-install), and in a checkout, whose package-lock.json does not tell npm that there is a script. Whatever goes wrong here
 * is left to that script.
 *
 * Node.js 22 and later use better-sqlite3 13, which carries its binaries. Version 12 is installed beside it all the same, for no field of
 * package.json says "on Node.js 20 alone", and where its binary cannot be fetched it is compiled for minutes: it is told to compile nothing.
 * Who goes back to Node.js 20 (npm rebuild) has it compiled.
 */
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { findInstalled, isOursAlone, OLD_SQLITE } from './onnx-runtime-package.js'

const CHOICES = ['ONNXRUNTIME_NODE_INSTALL', 'ONNXRUNTIME_NODE_INSTALL_CUDA', 'npm_config_onnxruntime_node_install']
const NOTE =
  'Not fetched: trainyard computes on the CPU by default. `trainyard devices` tells what to install for a card.\n'

const problem = problemOf(process.platform, process.arch)
if (problem !== null && !process.env.TRAINYARD_CLIENT_ONLY) {
  process.stderr.write(`${problem}\n`)
  process.exit(1)
}
try {
  const isCheckout = existsSync(new URL('../package-lock.json', import.meta.url))
  const isChosen = isCheckout || CHOICES.some((name) => process.env[name] !== undefined)
  const root = isChosen ? undefined : findInstalled()
  if (root !== undefined && isOursAlone(root)) leaveNotes(root)
} catch {
  // a package of another layout: its own script decides
}

try {
  const root = findInstalled(OLD_SQLITE)
  if (root !== undefined && isOursAlone(root)) chooseSqlite(root, Number(process.versions.node.split('.')[0]) < 22)
} catch {
  // then it is compiled
}

/**
 * @param {string} root better-sqlite3 12
 * @param {boolean} isUsed
 */
function chooseSqlite(root, isUsed) {
  const [used, kept] = [join(root, 'binding.gyp'), join(root, 'binding.kept.gyp')]
  if (existsSync(kept)) {
    if (isUsed) renameSync(kept, used)
  } else if (!isUsed) {
    renameSync(used, kept)
    writeFileSync(used, "# Not used on Node.js 22 and later: nothing is compiled.\n{ 'targets': [] }\n")
  }
}

/** @param {string} root ONNX Runtime's package */
function leaveNotes(root) {
  const require = createRequire(import.meta.url)
  const { requirements, manifests } = require(join(root, 'script/install-metadata.js'))
  const platform = `${process.platform}/${process.arch}`
  for (const name of requirements[platform] ?? []) {
    for (const file of Object.keys(manifests[`${platform}:${name}`] ?? {})) {
      const path = join(root, 'bin/napi-v6', platform, file)
      if (existsSync(dirname(path)) && !existsSync(path)) writeFileSync(path, NOTE)
    }
  }
}

/**
 * @param {string} platform
 * @param {string} arch
 * @returns {string | null} what is wrong and what to do; null where ONNX Runtime runs
 */
function problemOf(platform, arch) {
  const { platforms, said } = JSON.parse(readFileSync(new URL('platforms.json', import.meta.url), 'utf8'))
  const isMusl = platform === 'linux' && !hasGlibc()
  if (platforms.includes(`${platform} ${arch}`) && !isMusl) return null
  const name = `${platform} ${arch}${isMusl ? ' with musl' : ''}`
  return `trainyard cannot run on ${name}: ONNX Runtime has no binary for it. It runs on ${said}.
For the command line alone, to use a server on another machine: set TRAINYARD_CLIENT_ONLY=1 and install again.`
}

/** Node.js tells the version of the glibc it runs on; on musl, as in Alpine, there is none. */
function hasGlibc() {
  process.report.excludeNetwork = true
  return process.report.getReport().header.glibcVersionRuntime !== undefined
}
