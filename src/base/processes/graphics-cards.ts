/**
 * Graphics cards of this machine, as far as the system tells of them without a library: by NVIDIA's own program, or by Linux.
 */
import { readdir, readFile, readlink } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { readEnvironment } from '#base/environment.js'
import { readProgram } from './start-process.js'

export interface Card {
  readonly name: string
  /** Version or name of its driver. */
  readonly driver: string | null
  readonly memoryBytes: number | null
}

/** A driver that hangs must not hang whoever asks. */
const ANSWER_MS = 10_000
const MIB = 1024 ** 2

/** Names of makers by PCI id. */
const MAKERS: Readonly<Record<string, string>> = { '0x1002': 'AMD', '0x10de': 'NVIDIA', '0x8086': 'Intel' }

/** Cards in the system's order; empty where none is known of. Never rejects. */
export async function listCards(): Promise<readonly Card[]> {
  const nvidia = await nvidiaCards()
  const others = await systemCards()
  return nvidia.length === 0 ? others : [...nvidia, ...others.filter(({ name }) => !name.startsWith('NVIDIA'))]
}

/** What a card of NVIDIA's has to do. */
interface CardLoad {
  readonly index: string
  readonly name: string
  readonly usedBytes: number
  readonly memoryBytes: number
  /** 1: always at work. */
  readonly utilization: number
}

/** Cards that say all of it; empty where none is known of. Never rejects. */
export async function readCardLoads(): Promise<readonly CardLoad[]> {
  return parseCardLoads(await askNvidia('index,name,memory.used,memory.total,utilization.gpu'))
}

/** @param text a line for each card: index, name, MiB in use, MiB in all, percent */
export function parseCardLoads(text: string): readonly CardLoad[] {
  return text.split('\n').flatMap((line) => {
    const [index = '', name = '', ...numbers] = line.split(',').map((field) => field.trim())
    const [used = Number.NaN, memory = Number.NaN, percent = Number.NaN] = numbers.map((each) =>
      Number.parseInt(each, 10),
    )
    if (![used, memory, percent].every(Number.isFinite)) return []
    return [{ index, name, usedBytes: used * MIB, memoryBytes: memory * MIB, utilization: percent / 100 }]
  })
}

const nvidiaCards = async (): Promise<readonly Card[]> =>
  parseNvidiaCards(await askNvidia('name,driver_version,memory.total'))

/** @returns a line for each card; nothing where its program is not here or does not answer */
async function askNvidia(fields: string): Promise<string> {
  try {
    const options = { environment: readEnvironment(), needs: ['computing'] as const, timeoutMs: ANSWER_MS }
    return await readProgram('nvidia-smi', [`--query-gpu=${fields}`, '--format=csv,noheader,nounits'], options)
  } catch {
    return ''
  }
}

/** @param text a line for each card: name, driver, MiB */
export function parseNvidiaCards(text: string): readonly Card[] {
  return text.split('\n').flatMap((line) => {
    const [name = '', driver = '', mebibytes = ''] = line.split(',').map((field) => field.trim())
    if (name === '') return []
    const size = Number.parseInt(mebibytes, 10)
    return [{ name, driver: driver || null, memoryBytes: Number.isFinite(size) ? size * MIB : null }]
  })
}

/** What Linux shows of cards that have a driver. */
async function systemCards(folder = '/sys/class/drm'): Promise<readonly Card[]> {
  const entries = await readdir(folder).catch(() => [])
  const cards: Card[] = []
  for (const entry of entries.filter((name) => /^card\d+$/.test(name))) {
    const device = join(folder, entry, 'device')
    const read = (name: string): Promise<string | null> =>
      readFile(join(device, name), 'utf8').then(
        (text) => text.trim(),
        () => null,
      )
    const vendor = await read('vendor')
    if (vendor === null) continue
    const memory = Number(await read('mem_info_vram_total'))
    const driver = await readlink(join(device, 'driver')).catch(() => null)
    cards.push({
      name: `${MAKERS[vendor] ?? `maker ${vendor}`} card ${(await read('device')) ?? ''}`.trim(),
      driver: driver === null ? null : basename(driver),
      memoryBytes: memory > 0 ? memory : null,
    })
  }
  return cards
}
