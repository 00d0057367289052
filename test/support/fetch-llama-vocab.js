/**
 * Unpacks llama.cpp's tokenizer test files into `.cache/llama-vocab/` (git-ignored; nothing of it enters this
 * repository): `ggml-vocab-*.gguf` with `.inp` and `.out`, and the chat templates next to them.
 *
 * They travel as a git bundle inside the npm package node-llama-cpp. Idempotent; needs npm, git and tar.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'

const PACKAGE = 'node-llama-cpp@3.22.1'
const BUNDLE = 'package/llama/gitRelease.bundle'
const cache = join(import.meta.dirname, '..', '..', '.cache')
const target = join(cache, 'llama-vocab')

function unpack() {
  mkdirSync(cache, { recursive: true })
  const scratch = mkdtempSync(join(cache, 'llama-download-'))
  const run = (command, args, cwd = scratch) =>
    execFileSync(command, args, { cwd, maxBuffer: 2 ** 28, stdio: ['ignore', 'pipe', 'inherit'] })
  try {
    run('npm', ['pack', PACKAGE, '--silent'])
    const archive = readdirSync(scratch).find((name) => name.endsWith('.tgz'))
    if (archive === undefined) throw new Error(`npm packed no archive of ${PACKAGE}`)
    run('tar', ['-xzf', archive, BUNDLE])
    run('git', ['clone', '--quiet', '--bare', BUNDLE, 'llama.git'])
    const files = run('git', ['ls-tree', '-r', '--name-only', 'HEAD', 'models/'], join(scratch, 'llama.git'))
      .toString()
      .split('\n')
      .filter((path) => /^models\/(ggml-vocab-[^/]+|templates\/[^/]+\.jinja)$/.test(path))
    const out = join(scratch, 'out')
    mkdirSync(out)
    for (const path of files) {
      writeFileSync(join(out, basename(path)), run('git', ['show', `HEAD:${path}`], join(scratch, 'llama.git')))
    }
    renameSync(out, target)
  } finally {
    rmSync(scratch, { recursive: true, force: true, maxRetries: 20 })
  }
}

if (!existsSync(target)) unpack()
process.stdout.write(`${target}\n`)
