/**
 * Runs after an install. ONNX Runtime's package has the libraries of five platforms, 290 MB of which a machine loads 25 to 87: the files of
 * the others are removed, and a note in their place says so.
 *
 * Nothing is done when somebody has chosen another platform (npm's --os, --cpu), wants them all (TRAINYARD_KEEP_PLATFORMS=1), when the
 * project itself depends on onnxruntime-node, or where this platform's own library is not there. Whatever goes wrong here costs disk only.
 */
import { existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { findOnnxRuntime, isWantedByProject } from './onnx-runtime-package.js'

const CHOICES = ['npm_config_os', 'npm_config_cpu', 'TRAINYARD_KEEP_PLATFORMS']
const NOTE_FILE = 'removed.txt'

try {
  const { env } = process
  if (!CHOICES.some((name) => env[name]) && !isWantedByProject(env)) removeOthers()
} catch {
  // another layout, or files that are not ours to remove
}

function removeOthers() {
  const root = findOnnxRuntime()
  if (root === undefined) return
  const binaries = join(root, 'bin/napi-v6')
  const own = join(process.platform, process.arch)
  if (!existsSync(join(binaries, own, 'onnxruntime_binding.node'))) return
  const note = `Trainyard's install on ${process.platform} ${process.arch} removed the libraries of this platform. An install there has them; so has one with TRAINYARD_KEEP_PLATFORMS=1.\n`
  for (const platform of readdirSync(binaries)) {
    for (const arch of readdirSync(join(binaries, platform))) {
      if (join(platform, arch) === own) continue
      const folder = join(binaries, platform, arch)
      for (const name of readdirSync(folder)) {
        if (name !== NOTE_FILE) rmSync(join(folder, name), { recursive: true, force: true })
      }
      writeFileSync(join(folder, NOTE_FILE), note)
    }
  }
}
