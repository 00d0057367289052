/**
 * The packed package, made once of a build: every test that installs it, or lays it out, takes the same tarball.
 *
 * It lies in `.cache/packed`, under a digest of what the package is made of: another build has another. Two that make it at once make the
 * same, and the first to put it there is taken. Tarballs that nobody asked for in a day are deleted.
 */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'

const ROOT = path.resolve(import.meta.dirname, '../..')
const PACKED = path.join(ROOT, '.cache/packed')
const DAY_MS = 24 * 60 * 60_000

/**
 * @returns {Promise<{ file: string, size: number, unpackedSize: number, files: { path: string }[] }>} the tarball, its bytes packed and
 *   unpacked, and what is in it, as `npm pack` tells it
 */
export async function packedPackage() {
  const folder = path.join(PACKED, digestOfBuild())
  const read = () => {
    const told = JSON.parse(readFileSync(path.join(folder, 'pack.json'), 'utf8'))
    utimesSync(folder, new Date(), new Date())
    return { ...told, file: path.join(folder, told.filename) }
  }
  try {
    return read()
  } catch (error) {
    if (error.code !== 'ENOENT') throw error
  }
  mkdirSync(PACKED, { recursive: true })
  const making = mkdtempSync(path.join(PACKED, 'making-'))
  try {
    await pack(making)
    removeOld()
    renameSync(making, folder)
  } catch (error) {
    rmSync(making, { recursive: true, force: true, maxRetries: 20 })
    // another was first
    if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST' && error.code !== 'EPERM') throw error
  }
  return read()
}

async function pack(folder) {
  const env = { ...process.env, npm_config_cache: path.join(folder, 'npm'), npm_config_update_notifier: 'false' }
  // the build is there already, and its tests may be running: no script may write it again
  const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', folder]
  const { stdout } = await promisify(execFile)('npm', args, { cwd: ROOT, env, maxBuffer: 2 ** 26 })
  rmSync(env.npm_config_cache, { recursive: true, force: true, maxRetries: 20 })
  writeFileSync(path.join(folder, 'pack.json'), JSON.stringify(JSON.parse(stdout)[0]))
}

/** By names, sizes and times of what `package.json` lists. */
function digestOfBuild() {
  const { files } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8'))
  const hash = createHash('sha256')
  for (const listed of ['package.json', ...files.filter((file) => !file.startsWith('!'))]) {
    // of a pattern the folder that it is looked for in
    const whole = path.join(ROOT, listed.replace(/\/[^/]*[*{].*$/, ''))
    const isFolder = statSync(whole).isDirectory()
    const names = isFolder ? readdirSync(whole, { recursive: true, encoding: 'utf8' }).sort() : ['']
    for (const name of names) {
      const stats = statSync(path.join(whole, name))
      if (stats.isFile()) hash.update(`${listed}/${name} ${stats.size} ${stats.mtimeMs}\n`)
    }
  }
  return hash.digest('hex')
}

function removeOld() {
  for (const name of readdirSync(PACKED)) {
    const old = path.join(PACKED, name)
    const isOld = (statSync(old, { throwIfNoEntry: false })?.mtimeMs ?? Infinity) < Date.now() - DAY_MS
    if (isOld) rmSync(old, { recursive: true, force: true, maxRetries: 20 })
  }
}
