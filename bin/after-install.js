/**
 * Runs after an install. ONNX Runtime's package has the libraries of five platforms, 290 MB of which a machine loads 25 to 87: the files of
 * the others are removed, and a note in their place says so.
 *
 * Nothing is done when somebody has chosen another platform (npm's --os, --cpu), wants them all (TRAINYARD_KEEP_PLATFORMS=1), where the
 * installer keeps one folder for several projects (said in a line), or where this platform's own library is not there. Whatever goes wrong
 * here costs disk only.
 */
import { existsSync, readdirSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { findInstalled, isOursAlone, NAME } from './onnx-runtime-package.js'

const CHOICES = [
  'npm_config_os',
  'npm_config_cpu',
  'npm_config_platform',
  'npm_config_arch',
  'TRAINYARD_KEEP_PLATFORMS',
]
const NOTE_FILE = 'removed.txt'

try {
  const root = CHOICES.some((name) => process.env[name]) ? undefined : findInstalled()
  if (root !== undefined && isOursAlone(root)) removeOthers(root)
  else if (root !== undefined) {
    const kept = 'the libraries of other platforms, 0.2 GB, were kept: other projects may read the same folder'
    process.stdout.write(`trainyard: ${realpathSync(root)}: ${kept}.\n`)
  }
} catch {
  // another layout, or files that are not ours to remove
}

/** @param {string} root ONNX Runtime's package */
function removeOthers(root) {
  const binaries = join(root, 'bin/napi-v6')
  const own = join(process.platform, process.arch)
  if (!existsSync(join(binaries, own, 'onnxruntime_binding.node'))) return
  const note = `Trainyard's install on ${process.platform} ${process.arch} removed the libraries of this platform. To have them: remove node_modules/${NAME} and install again, there or with TRAINYARD_KEEP_PLATFORMS=1.\n`
  for (const platform of readdirSync(binaries)) {
    for (const arch of readdirSync(join(binaries, platform))) {
      if (join(platform, arch) === own) continue
      const folder = join(binaries, platform, arch)
      for (const name of readdirSync(folder)) {
        if (name !== NOTE_FILE) rmSync(join(folder, name), { recursive: true, force: true })
      }
      if (!existsSync(join(folder, NOTE_FILE))) writeFileSync(join(folder, NOTE_FILE), note)
    }
  }
}
