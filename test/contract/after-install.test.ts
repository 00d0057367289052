/**
 * What an install leaves on the disk: ONNX Runtime's libraries of this platform, and a note in the place of the others'.
 *
 * The script runs in a copy of its folder beside a small package laid out as ONNX Runtime's is.
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
const OTHERS = platforms.map((each) => each.replace(' ', '/')).filter((each) => each !== OWN)

interface Circumstances {
  readonly env?: Readonly<Record<string, string>>
  /** A platform that has no library. */
  readonly without?: string
  /** Of another package that was installed. */
  readonly beside?: object
  /** Of this package. */
  readonly own?: object
  /** Of pnpm. */
  readonly workspaces?: string
  /** Where the runtime lies, with a link to it in the project. */
  readonly store?: string
}

const NEEDED = { 'onnxruntime-node': '1.0.0' }

/** Installs, and tells the files of each platform. */
async function install(
  project: object,
  { env = {}, without, beside = {}, own = {}, workspaces, store }: Circumstances = {},
): Promise<Readonly<Record<string, readonly string[]>>> {
  const folder = await temporaryDirectory()
  const bin = join(folder, 'node_modules/trainyard/bin')
  const runtime = join(folder, 'node_modules/onnxruntime-node')
  cpSync(join(ROOT, 'bin'), bin, { recursive: true })
  if (store !== undefined) symlinkSync(store, runtime, 'dir')
  writeFileSync(join(folder, 'node_modules/trainyard/package.json'), JSON.stringify({ type: 'module', ...own }))
  mkdirSync(join(folder, 'node_modules/@scope/other'), { recursive: true })
  writeFileSync(join(folder, 'node_modules/@scope/other/package.json'), JSON.stringify(beside))
  if (workspaces !== undefined) writeFileSync(join(folder, 'pnpm-workspace.yaml'), workspaces)
  writeFileSync(join(folder, 'package.json'), JSON.stringify(project))
  for (const name of [OWN, ...OTHERS]) {
    const binaries = join(runtime, 'bin/napi-v6', name)
    mkdirSync(binaries, { recursive: true })
    for (const file of ['onnxruntime_binding.node', 'library']) {
      if (name !== without) writeFileSync(join(binaries, file), file)
    }
  }
  writeFileSync(join(runtime, 'package.json'), '{}')
  // twice, as an update does it
  for (let time = 0; time < 2; time++) {
    execFileSync(process.execPath, [join(bin, 'after-install.js')], {
      env: { PATH: process.env['PATH'], npm_config_local_prefix: folder, ...env },
    })
  }
  const list = (name: string): readonly string[] => readdirSync(join(runtime, 'bin/napi-v6', name)).sort()
  return Object.fromEntries([OWN, ...OTHERS].map((name) => [name, list(name)]))
}

const WHOLE = ['library', 'onnxruntime_binding.node']
const isWhole = Object.fromEntries([OWN, ...OTHERS].map((name) => [name, WHOLE]))
const isOwnAlone = { [OWN]: WHOLE, ...Object.fromEntries(OTHERS.map((name) => [name, ['removed.txt']])) }

test.runIf(platforms.includes(OWN.replace('/', ' ')))(
  'libraries of other platforms are removed, and a note says so and how to have them',
  async () => {
    expect(await install({ name: 'stranger' })).toEqual(isOwnAlone)
    expect(await install({ name: 'stranger' }, { beside: { devDependencies: NEEDED } })).toEqual(isOwnAlone)
    expect(await install({ name: 'stranger' }, { own: { dependencies: NEEDED } })).toEqual(isOwnAlone)
  },
)

test.each(['npm_config_os', 'npm_config_cpu', 'npm_config_arch', 'TRAINYARD_KEEP_PLATFORMS'])(
  '%s keeps them all',
  async (name) => {
    expect(await install({ name: 'stranger' }, { env: { [name]: '1' } })).toEqual(isWhole)
  },
)

test.each([
  ['the project', { devDependencies: NEEDED }, {}],
  ['a project of this name', { name: 'trainyard', dependencies: NEEDED }, {}],
  ['another package', {}, { beside: { dependencies: NEEDED } }],
  ['one of several packages of the project, perhaps', { workspaces: ['packages/*'] }, {}],
  ['one of several packages of pnpm, perhaps', {}, { workspaces: 'packages: []' }],
])('%s that depends on the runtime keeps them all', async (_, project, circumstances) => {
  expect(await install({ name: 'theirs', ...project }, circumstances)).toEqual(isWhole)
})

test('a copy that projects share keeps them all', async () => {
  const store = await temporaryDirectory()
  expect(await install({ name: 'stranger' }, { store })).toEqual(isWhole)
})

test('so does a platform without a library', async () => {
  expect(await install({ name: 'stranger' }, { without: OWN })).toEqual({ ...isWhole, [OWN]: [] })
})

test('the layout is that of the package which is installed', () => {
  const binaries = join(ROOT, 'node_modules/onnxruntime-node/bin/napi-v6')
  for (const name of [OWN, ...OTHERS]) expect(existsSync(join(binaries, name)), name).toBe(true)
  if (platforms.includes(OWN.replace('/', ' '))) {
    expect(existsSync(join(binaries, OWN, 'onnxruntime_binding.node'))).toBe(true)
  }
})
