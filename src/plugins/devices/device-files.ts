/**
 * Files that an accelerator needs on this machine, each looked up where the system's loader would: ONNX Runtime names none of those that
 * it cannot load. Loads nothing itself.
 *
 * CUDA's list is what `libonnxruntime_providers_cuda.so` 1.30 links (`readelf -d`) and opens later.
 */
import { closeSync, openSync, readSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, isAbsolute, join } from 'node:path'
import type { Environment } from '#base/environment.js'
import { append } from '#base/util/lists.js'

export interface NeededFile {
  readonly file: string
  /** What it is, or which part of what to install it comes with. */
  readonly purpose: string
  /** Where it lies; null: it is missing. */
  readonly path: string | null
}

export interface DeviceFiles {
  readonly name: 'webgpu' | 'cuda'
  /** Why this platform cannot have it at all; null where it can. */
  readonly unsupported: string | null
  readonly files: readonly NeededFile[]
  /** What to type for what is missing; nothing of it is done here. */
  readonly steps: readonly string[]
}

export interface Machine {
  readonly platform: string
  readonly arch: string
  readonly environment: Environment
  /** Folder of ONNX Runtime's own libraries. */
  readonly runtimeFolder: string
  readonly runtimeVersion: string
  /** Whether a library is there; a note that was left in its place is none. */
  readonly exists: (path: string) => boolean
  /** Folders in which the loader looks, the first one first. */
  readonly libraryFolders: readonly string[]
  /** Descriptions of Vulkan drivers. */
  readonly vulkanManifests: readonly string[]
}

/** What is known of this machine. */
export async function readMachine(environment: Environment): Promise<Machine> {
  const manifest = createRequire(import.meta.url).resolve('trainyard-onnxruntime/package.json')
  const { version } = JSON.parse(await readFile(manifest, 'utf8')) as { readonly version: string }
  const { platform, arch } = process
  return {
    platform,
    arch,
    environment,
    runtimeFolder: join(dirname(manifest), 'bin/napi-v6', platform, arch),
    runtimeVersion: version,
    exists: isLibrary,
    libraryFolders: await libraryFolders(environment),
    vulkanManifests: await vulkanManifests(environment),
  }
}

/** What WebGPU and CUDA need of it. */
export async function deviceFiles(machine: Machine): Promise<readonly DeviceFiles[]> {
  return [await webgpuFiles(machine), cudaFiles(machine)]
}

async function webgpuFiles(machine: Machine): Promise<DeviceFiles> {
  const { platform, arch } = machine
  const isBundled = platform === 'win32' || platform === 'darwin' || (platform === 'linux' && arch === 'x64')
  if (!isBundled) {
    const unsupported = `onnxruntime-node ${machine.runtimeVersion} has no WebGPU on ${platform} ${arch}`
    return { name: 'webgpu', unsupported, files: [], steps: [] }
  }
  // Metal and Direct3D 12 are parts of the system
  if (platform !== 'linux') return { name: 'webgpu', unsupported: null, files: [], steps: [] }
  const drivers: NeededFile[] = []
  for (const manifest of machine.vulkanManifests) {
    const driver = await driverOf(manifest)
    if (driver === null) continue
    const isPath = driver.includes('/')
    const path = isAbsolute(driver) ? driver : join(dirname(manifest), driver)
    const found = isPath ? { file: path, path: machine.exists(path) ? path : null } : library(machine, driver, '')
    drivers.push({ ...found, purpose: `a Vulkan driver, named by ${manifest}` })
  }
  if (drivers.length === 0) {
    drivers.push({ file: 'a Vulkan driver', purpose: 'comes with the driver of the card', path: null })
  }
  // the loader passes over a description of what is not there any more, and one driver is enough
  const there = drivers.filter(({ path }) => path !== null)
  const loader = library(machine, 'libvulkan.so.1', 'the loader of Vulkan drivers')
  const files = [loader, ...(there.length > 0 ? there : drivers)]
  const steps = files.every(({ path }) => path !== null)
    ? []
    : ['apt-get install libvulkan1 mesa-vulkan-drivers   # NVIDIA: its own driver package instead of Mesa']
  return { name: 'webgpu', unsupported: null, files, steps }
}

const PROVIDER_FILES = ['libonnxruntime_providers_shared.so', 'libonnxruntime_providers_cuda.so'] as const
const CUDA_LIBRARIES: readonly (readonly [file: string, purpose: string])[] = [
  ['libcuda.so.1', 'the driver of the card'],
  ['libcudart.so.13', 'CUDA 13'],
  ['libcublas.so.13', 'CUDA 13'],
  ['libcublasLt.so.13', 'CUDA 13'],
  ['libcurand.so.10', 'CUDA 13'],
  ['libcufft.so.12', 'CUDA 13, opened when it is needed'],
  ['libcudnn.so.9', 'cuDNN 9, opened when it is needed'],
]

function cudaFiles(machine: Machine): DeviceFiles {
  const { platform, arch, runtimeFolder, runtimeVersion } = machine
  if (platform !== 'linux' || arch !== 'x64') {
    const unsupported = `onnxruntime-node ${runtimeVersion} takes CUDA on linux x64 only, this is ${platform} ${arch}`
    return { name: 'cuda', unsupported, files: [], steps: [] }
  }
  const own = PROVIDER_FILES.map((file): NeededFile => {
    const path = join(runtimeFolder, file)
    return {
      file,
      path: machine.exists(path) ? path : null,
      purpose: `onnxruntime-gpu ${runtimeVersion}, in ${runtimeFolder}`,
    }
  })
  const files = [...own, ...CUDA_LIBRARIES.map(([file, purpose]) => library(machine, file, purpose))]
  const isMissing = (some: readonly NeededFile[]): boolean => some.some(({ path }) => path === null)
  if (!isMissing(files)) return { name: 'cuda', unsupported: null, files, steps: [] }
  const steps = [
    `python3 -m venv cuda && cuda/bin/pip install "onnxruntime-gpu[cuda,cudnn]==${runtimeVersion}"   # the same version: another one crashes`,
    `cp cuda/lib/python3*/site-packages/onnxruntime/capi/libonnxruntime_providers_{shared,cuda}.so ${runtimeFolder}/`,
    'export LD_LIBRARY_PATH=$(ls -d $PWD/cuda/lib/python3*/site-packages/nvidia/*/lib | paste -sd:)',
  ]
  return { name: 'cuda', unsupported: null, files, steps }
}

/** The first bytes of every library of Linux. */
const ELF = Buffer.from('\x7fELF', 'latin1')

function library({ libraryFolders: folders, exists }: Machine, file: string, purpose: string): NeededFile {
  const path = folders.map((folder) => join(folder, file)).find(exists) ?? null
  return { file, purpose, path }
}

/** An install leaves notes in the places of libraries that it does not fetch (`bin/before-install.js`): a name alone is no library. */
function isLibrary(path: string): boolean {
  let file: number
  try {
    file = openSync(path, 'r')
  } catch {
    return false
  }
  try {
    const first = Buffer.alloc(ELF.length)
    return readSync(file, first) === ELF.length && first.equals(ELF)
  } catch {
    // a folder of that name
    return false
  } finally {
    closeSync(file)
  }
}

/** As `ld.so` does it, but for what programs say of themselves. */
async function libraryFolders(environment: Environment): Promise<readonly string[]> {
  const own = (environment['LD_LIBRARY_PATH'] ?? '').split(':').filter((folder) => folder !== '')
  const configured: string[] = []
  for (const name of await readdir('/etc/ld.so.conf.d').catch(() => [])) {
    const text = await readFile(join('/etc/ld.so.conf.d', name), 'utf8').catch(() => '')
    append(
      configured,
      text.split('\n').filter((line) => line.startsWith('/')),
    )
  }
  return [...own, ...configured.map((line) => line.trim()), '/lib64', '/usr/lib64', '/lib', '/usr/lib']
}

/** As Vulkan's loader looks for drivers. */
async function vulkanManifests(environment: Environment): Promise<readonly string[]> {
  const named = environment['VK_DRIVER_FILES'] ?? environment['VK_ICD_FILENAMES']
  if (named !== undefined && named !== '') return named.split(':')
  const found: string[] = []
  for (const folder of ['/etc/vulkan/icd.d', '/usr/local/share/vulkan/icd.d', '/usr/share/vulkan/icd.d']) {
    const names = await readdir(folder).catch(() => [])
    append(
      found,
      names.filter((name) => name.endsWith('.json')).map((name) => join(folder, name)),
    )
  }
  return found
}

/** The library that a description names, or null where it cannot be read. */
async function driverOf(manifest: string): Promise<string | null> {
  try {
    const { ICD: icd } = JSON.parse(await readFile(manifest, 'utf8')) as { ICD?: { library_path?: unknown } }
    return typeof icd?.library_path === 'string' ? icd.library_path : null
  } catch {
    return null
  }
}
