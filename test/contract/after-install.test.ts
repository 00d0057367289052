/**
 * What an install leaves on the disk: ONNX Runtime's libraries of this platform, and a note in the place of the others'; and that it
 * compiles the SQLite of Node.js 20 there alone.
 *
 * Both scripts run in a copy of their folder beside small packages laid out as ONNX Runtime's is: our own, and one that others use.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../support/temporary-directory.js'

const ROOT = join(import.meta.dirname, '../..')
const { platforms } = JSON.parse(readFileSync(join(ROOT, 'bin/platforms.json'), 'utf8')) as {
  readonly platforms: readonly string[]
}
const OWN = `${process.platform}/${process.arch}`
const isPlatform = platforms.includes(OWN.replace('/', ' '))
const OTHERS = platforms.map((each) => each.replace(' ', '/')).filter((each) => each !== OWN)

interface Circumstances {
  readonly env?: Readonly<Record<string, string>>
  /** A platform that has no library. */
  readonly without?: string
  /** Where the runtime lies, with a link to it in the project. */
  readonly store?: string
}

/** Puts a package laid out as ONNX Runtime's is into a folder. */
function layOut(runtime: string, without?: string): void {
  for (const name of [OWN, ...OTHERS]) {
    const binaries = join(runtime, 'bin/napi-v6', name)
    mkdirSync(binaries, { recursive: true })
    for (const file of ['onnxruntime_binding.node', 'library']) {
      if (name !== without) writeFileSync(join(binaries, file), file)
    }
  }
  mkdirSync(join(runtime, 'script'), { recursive: true })
  writeFileSync(join(runtime, 'package.json'), '{}')
  const files = { './libcuda.so': {} }
  const metadata = { requirements: { [OWN]: ['cuda12'] }, manifests: { [`${OWN}:cuda12`]: files } }
  writeFileSync(join(runtime, 'script/install-metadata.js'), `module.exports = ${JSON.stringify(metadata)}`)
}

const filesOf = (runtime: string): Files =>
  Object.fromEntries([OWN, ...OTHERS].map((name) => [name, readdirSync(join(runtime, 'bin/napi-v6', name)).sort()]))

type Files = Readonly<Record<string, readonly string[]>>

/** Installs beside a package that uses ONNX Runtime too, and tells the files of each platform in both copies, and what was said. */
async function install({ env = {}, without, store }: Circumstances = {}): Promise<{
  readonly own: Files
  readonly theirs: Files
  readonly said: string
}> {
  const folder = await temporaryDirectory()
  const bin = join(folder, 'node_modules/trainyard/bin')
  const own = join(folder, 'node_modules/trainyard-onnxruntime')
  const theirs = join(folder, 'node_modules/onnxruntime-node')
  cpSync(join(ROOT, 'bin'), bin, { recursive: true })
  if (store !== undefined) symlinkSync(store, own, 'dir')
  writeFileSync(join(folder, 'node_modules/trainyard/package.json'), JSON.stringify({ type: 'module' }))
  layOut(own, without)
  layOut(theirs)
  let said = ''
  // twice, as an update does it
  for (let time = 0; time < 2; time++) {
    for (const script of ['before-install.js', 'after-install.js']) {
      said += execFileSync(process.execPath, [join(bin, script)], {
        env: { PATH: process.env['PATH'], npm_config_local_prefix: folder, ...env },
        encoding: 'utf8',
      })
    }
  }
  return { own: filesOf(own), theirs: filesOf(theirs), said }
}

const WHOLE = ['library', 'onnxruntime_binding.node']
const isWhole = Object.fromEntries([OWN, ...OTHERS].map((name) => [name, WHOLE]))
const trimmed = {
  [OWN]: ['libcuda.so', ...WHOLE],
  ...Object.fromEntries(OTHERS.map((name) => [name, ['removed.txt']])),
}

test.runIf(isPlatform)(
  'libraries of other platforms are removed from the copy of our own, and nothing is written where others read',
  async () => {
    expect(await install()).toEqual({ own: trimmed, theirs: isWhole, said: '' })
  },
)

test.runIf(isPlatform).each(['npm_config_os', 'npm_config_cpu', 'npm_config_arch', 'TRAINYARD_KEEP_PLATFORMS'])(
  '%s keeps them all',
  async (name) => {
    const { own } = await install({ env: { [name]: '1' } })
    expect(own).toEqual({ ...isWhole, [OWN]: trimmed[OWN] })
  },
)

test.runIf(isPlatform)(
  'a folder that several projects read behind links is left as it is, and that is said',
  async () => {
    const store = await temporaryDirectory()
    const { own, said } = await install({ store })
    expect(own).toEqual(isWhole)
    expect(said).toContain(`${store}: the libraries of other platforms, 0.2 GB, were kept`)
  },
)

test.runIf(isPlatform)('a platform without a library keeps them all', async () => {
  const { own } = await install({ without: OWN })
  expect(own).toEqual({ ...isWhole, [OWN]: ['libcuda.so'] })
})

test('better-sqlite3 12 is compiled on Node.js 20 alone, also by who comes back to it', async () => {
  const folder = await temporaryDirectory()
  const bin = join(folder, 'node_modules/trainyard/bin')
  const sqlite = join(folder, 'node_modules/better-sqlite3-12')
  cpSync(join(ROOT, 'bin'), bin, { recursive: true })
  mkdirSync(sqlite)
  writeFileSync(join(folder, 'node_modules/trainyard/package.json'), JSON.stringify({ type: 'module' }))
  writeFileSync(join(sqlite, 'package.json'), '{}')
  const told = readFileSync(join(ROOT, 'node_modules/better-sqlite3-12/binding.gyp'), 'utf8')
  writeFileSync(join(sqlite, 'binding.gyp'), told)
  const installOn = (node: string): string => {
    const pretence = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '${node}' } })`
    const argv = ['--import', `data:text/javascript,${encodeURIComponent(pretence)}`, join(bin, 'before-install.js')]
    execFileSync(process.execPath, argv)
    return readFileSync(join(sqlite, 'binding.gyp'), 'utf8')
  }
  expect(installOn('20.20.2')).toBe(told)
  for (const node of ['22.1.0', '24.21.0', '24.21.0']) expect(installOn(node)).toContain("{ 'targets': [] }")
  expect(installOn('20.20.2')).toBe(told)
})

test('the layout is that of the package which is installed', () => {
  const binaries = join(ROOT, 'node_modules/trainyard-onnxruntime/bin/napi-v6')
  for (const name of [OWN, ...OTHERS]) expect(existsSync(join(binaries, name)), name).toBe(true)
  if (isPlatform) {
    expect(existsSync(join(binaries, OWN, 'onnxruntime_binding.node'))).toBe(true)
  }
})
