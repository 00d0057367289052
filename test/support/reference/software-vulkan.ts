/**
 * WebGPU without a graphics card: the software Vulkan of Debian's chromium. Its files are found, and named to child processes; the
 * loader reads where libraries lie when a process starts, so only those can use it.
 */
import { existsSync } from 'node:fs'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { readEnvironment } from '#base/environment.js'

const CHROMIUM = '/usr/lib/chromium'
const DRIVER = join(CHROMIUM, 'libvk_swiftshader.so')
const LOADER = join(CHROMIUM, 'libvulkan.so.1')

export const hasSoftwareVulkan =
  process.platform === 'linux' && process.arch === 'x64' && existsSync(DRIVER) && existsSync(LOADER)
export const NO_SOFTWARE_VULKAN = `no software Vulkan: ${DRIVER} of Debian's chromium is missing`

/** An environment in which children have it. @param folder of the test, where the driver is described */
export async function softwareVulkan(folder: string): Promise<Readonly<Record<string, string | undefined>>> {
  await mkdir(join(folder, 'vulkan'), { recursive: true })
  const description = join(folder, 'vulkan', 'icd.json')
  // alone in a folder: chromium's other libraries are nobody's business
  await symlink(LOADER, join(folder, 'vulkan', 'libvulkan.so.1'))
  const icd = { file_format_version: '1.0.0', ICD: { library_path: DRIVER, api_version: '1.0.5' } }
  await writeFile(description, JSON.stringify(icd))
  return {
    ...readEnvironment(),
    LD_LIBRARY_PATH: join(folder, 'vulkan'),
    VK_ICD_FILENAMES: description,
    XDG_RUNTIME_DIR: folder,
  }
}

/** An environment in which no driver is found. */
export function noVulkan(): Readonly<Record<string, string | undefined>> {
  return { ...readEnvironment(), VK_ICD_FILENAMES: '/nonexistent.json', VK_DRIVER_FILES: '/nonexistent.json' }
}
