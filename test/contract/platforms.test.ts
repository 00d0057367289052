/**
 * Where the service runs is written once (`bin/platforms.json`); the install refuses other platforms by name, and the README says the same.
 */
import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '../..')
const { platforms, said } = JSON.parse(readFileSync(join(ROOT, 'bin/platforms.json'), 'utf8')) as {
  readonly platforms: readonly string[]
  readonly said: string
}

/** The install script on a machine that says of itself what is given. */
function install(
  machine: { readonly platform: string; readonly arch: string; readonly glibc?: string },
  env: Readonly<Record<string, string>> = {},
): Promise<{ readonly exitCode: number; readonly stderr: string }> {
  const set = (target: string, name: string, value: string) =>
    `Object.defineProperty(${target}, '${name}', { value: ${value} });`
  const header = JSON.stringify({ header: machine.glibc === undefined ? {} : { glibcVersionRuntime: machine.glibc } })
  const pretence = [
    set('process', 'platform', JSON.stringify(machine.platform)),
    set('process', 'arch', JSON.stringify(machine.arch)),
    set('process', 'report', `{ getReport: () => (${header}) }`),
  ].join('')
  const argv = ['--import', `data:text/javascript,${encodeURIComponent(pretence)}`, join(ROOT, 'bin/before-install.js')]
  const options = { env: { PATH: process.env['PATH'], ONNXRUNTIME_NODE_INSTALL: 'skip', ...env } }
  return new Promise((done) => {
    execFile(process.execPath, argv, options, (error, _, stderr) => {
      done({ exitCode: error === null ? 0 : Number(error.code), stderr })
    })
  })
}

test.each([
  [{ platform: 'darwin', arch: 'x64' }, 'darwin x64'],
  [{ platform: 'linux', arch: 'x64' }, 'linux x64 with musl'],
  [{ platform: 'freebsd', arch: 'x64' }, 'freebsd x64'],
])('an install on %j is refused by name; the command line alone installs', async (machine, name) => {
  const refused = await install(machine)
  expect(refused.exitCode).toBe(1)
  expect(refused.stderr).toContain(
    `trainyard cannot run on ${name}: ONNX Runtime has no binary for it. It runs on ${said}`,
  )
  expect(await install(machine, { TRAINYARD_CLIENT_ONLY: '1' })).toEqual({ exitCode: 0, stderr: '' })
})

test('in a checkout npm is not told that ONNX Runtime has a script, which would fetch libraries of graphics cards', () => {
  // npm 10 and the first 11 know no "allowScripts" (package.json), and run in a checkout our `preinstall` behind the scripts of dependencies;
  // `npm install` may write the line again
  const lock = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { version: string; hasInstallScript?: boolean }>
  }
  const runtime = lock.packages['node_modules/trainyard-onnxruntime']
  expect(runtime?.version).toMatch(/^\d/)
  expect(runtime?.hasInstallScript, 'take "hasInstallScript" of trainyard-onnxruntime out of package-lock.json').toBe(
    undefined,
  )
})

test.each(platforms)('an install on %s goes on', async (each) => {
  const [platform = '', arch = ''] = each.split(' ')
  expect(await install({ platform, arch, glibc: '2.31' })).toEqual({ exitCode: 0, stderr: '' })
})

test('the platforms are those of the binaries that ONNX Runtime brings, and the README names them', () => {
  const binaries = join(ROOT, 'node_modules/trainyard-onnxruntime/bin/napi-v6')
  const found = readdirSync(binaries).flatMap((name) =>
    readdirSync(join(binaries, name)).map((arch) => `${name} ${arch}`),
  )
  expect([...platforms].sort()).toEqual(found.sort())
  expect(readFileSync(join(ROOT, 'README.md'), 'utf8')).toContain(said)
  expect(existsSync(join(ROOT, '.gitattributes'))).toBe(true)
})

test('text is checked out with the same line ends everywhere', () => {
  expect(readFileSync(join(ROOT, '.gitattributes'), 'utf8')).toMatch(/^\* text=auto eol=lf$/m)
})
