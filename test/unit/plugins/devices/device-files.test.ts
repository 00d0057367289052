/** Files are looked up in folders of the test: what is there is said with its place, what is not by its name. */
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { deviceFiles, type Machine, readMachine } from '#plugins/devices/device-files.js'
import { temporaryDirectory } from '../../../support/temporary-directory.js'

const LINUX: Machine = {
  platform: 'linux',
  arch: 'x64',
  environment: {},
  runtimeFolder: '/runtime',
  runtimeVersion: '1.30.0',
  exists: () => false,
  libraryFolders: ['/lib64', '/usr/lib'],
  vulkanManifests: [],
}

const missingOf = (files: Awaited<ReturnType<typeof deviceFiles>>[number]) =>
  files.files.filter(({ path }) => path === null).map(({ file }) => file)

test('a bare Linux lacks all of it, and is told what to type', async () => {
  const [webgpu, cuda] = await deviceFiles(LINUX)
  expect(missingOf(webgpu!)).toEqual(['libvulkan.so.1', 'a Vulkan driver'])
  expect(missingOf(cuda!)).toContain('libonnxruntime_providers_cuda.so')
  expect(missingOf(cuda!)).toContain('libcudnn.so.9')
  // another version of the provider would crash
  expect(cuda!.steps.join('\n')).toContain('pip install "onnxruntime-gpu[cuda,cudnn]==1.30.0"')
  expect(cuda!.steps.join('\n')).toContain(' /runtime/')
})

test('a driver is found by its description, beside it or in the folders of libraries', async () => {
  const folder = await temporaryDirectory()
  const beside = join(folder, 'beside.json')
  const named = join(folder, 'named.json')
  const broken = join(folder, 'broken.json')
  await writeFile(beside, JSON.stringify({ ICD: { library_path: './libdriver.so' } }))
  await writeFile(named, JSON.stringify({ ICD: { library_path: 'libother.so.1' } }))
  await writeFile(broken, '{')
  const there = new Set([join(folder, 'libdriver.so'), '/usr/lib/libvulkan.so.1', '/lib64/libother.so.1'])
  const exists = (path: string): boolean => there.has(path)
  const [webgpu] = await deviceFiles({ ...LINUX, exists, vulkanManifests: [beside, named, broken] })
  expect(webgpu!.files.map(({ path }) => path)).toEqual([
    '/usr/lib/libvulkan.so.1',
    join(folder, 'libdriver.so'),
    '/lib64/libother.so.1',
  ])
  expect(webgpu!.steps).toEqual([])
})

test('drivers that are gone are named only where none is there', async () => {
  const folder = await temporaryDirectory()
  const [good, stale] = [join(folder, 'good.json'), join(folder, 'stale.json')]
  await writeFile(good, JSON.stringify({ ICD: { library_path: 'libgood.so' } }))
  await writeFile(stale, JSON.stringify({ ICD: { library_path: 'libstale.so' } }))
  const there = new Set(['/usr/lib/libvulkan.so.1', '/usr/lib/libgood.so'])
  const exists = (path: string): boolean => there.has(path)
  const [both] = await deviceFiles({ ...LINUX, exists, vulkanManifests: [stale, good] })
  expect({ files: both!.files.map(({ file }) => file), steps: both!.steps }).toEqual({
    files: ['libvulkan.so.1', 'libgood.so'],
    steps: [],
  })
  const [none] = await deviceFiles({ ...LINUX, exists, vulkanManifests: [stale] })
  expect(missingOf(none!)).toEqual(['libstale.so'])
})

test('a note that an install left in the place of a library is no library', async () => {
  const folder = await temporaryDirectory()
  const names = ['libonnxruntime_providers_shared.so', 'libonnxruntime_providers_cuda.so'] as const
  const [, note] = /const NOTE =\s+'(.*)\\n'/.exec(await readFile('bin/before-install.js', 'utf8')) ?? []
  expect(note).toContain('trainyard devices')
  for (const name of names) await writeFile(join(folder, name), `${note}\n`)
  const { exists } = await readMachine({})
  const find = async () => missingOf((await deviceFiles({ ...LINUX, exists, runtimeFolder: folder }))[1]!)
  expect(await find()).toEqual(expect.arrayContaining([...names]))
  await writeFile(join(folder, names[0]), Buffer.from('\x7fELF and more', 'latin1'))
  expect(await find()).not.toContain(names[0])
})

test('with all files there nothing is to be typed', async () => {
  const [, cuda] = await deviceFiles({ ...LINUX, exists: () => true })
  expect({ missing: missingOf(cuda!), steps: cuda!.steps }).toEqual({ missing: [], steps: [] })
  expect(cuda!.files[0]?.path).toBe('/runtime/libonnxruntime_providers_shared.so')
})

test.each([
  ['linux', 'arm64', /no WebGPU on linux arm64/, /linux x64 only/],
  ['darwin', 'arm64', null, /linux x64 only/],
  ['win32', 'x64', null, /linux x64 only/],
])('on %s %s what cannot be had is said', async (platform, arch, webgpuReason, cudaReason) => {
  const [webgpu, cuda] = await deviceFiles({ ...LINUX, platform, arch })
  if (webgpuReason === null) expect(webgpu).toMatchObject({ unsupported: null, files: [] })
  else expect(webgpu!.unsupported).toMatch(webgpuReason)
  expect(cuda!.unsupported).toMatch(cudaReason)
})

test('this machine is read: folders of LD_LIBRARY_PATH come first, a named driver alone', async () => {
  const folder = await temporaryDirectory()
  await mkdir(join(folder, 'lib'))
  const environment = { LD_LIBRARY_PATH: `${join(folder, 'lib')}:`, VK_ICD_FILENAMES: '/a.json:/b.json' }
  const machine = await readMachine(environment)
  expect(machine.libraryFolders[0]).toBe(join(folder, 'lib'))
  expect(machine.vulkanManifests).toEqual(['/a.json', '/b.json'])
  expect(machine.runtimeVersion).toMatch(/^\d+\.\d+\.\d+$/)
})
