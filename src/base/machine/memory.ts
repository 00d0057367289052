/**
 * How much memory there is for this process and its children, and how much of it is still available.
 *
 * The total is the container's limit where there is one, else the machine's. The system's file cache counts as available, because it
 * is given up when memory is needed; Node counts it as used in a container and on a Mac, so both are read here. A figure that is
 * known to be too small is not given at all: no request may be refused because of it.
 * Source: cgroups(7), the kernel's cgroup-v1/memory.rst and cgroup-v2.rst; vm_stat(1).
 */
import { totalmem } from 'node:os'
import { join } from 'node:path'
import { readEnvironment } from '#base/environment.js'
import { readProgramNow } from '#base/processes/start-process.js'
import { minOf } from '../util/lists.js'
import { type Cgroup, cgroupsOf, textOf } from './cgroups.js'

// Runs vm_stat(1), a Mac's own count of its pages. Knows nothing of what it prints.

/** What it prints, within milliseconds; null where it cannot be run. */
function runVmStat(): string | null {
  try {
    return readProgramNow('/usr/bin/vm_stat', [], { environment: readEnvironment(), timeoutMs: 1000 })
  } catch {
    return null
  }
}

export interface MemoryOptions {
  /** Where `proc` and `sys` are looked for; default the machine's. */
  readonly root?: string
  readonly machineBytes?: number
}

export interface AvailableMemoryOptions {
  readonly root?: string
  readonly platform?: NodeJS.Platform
  /** What Node says, bytes; 0 where it does not know. */
  readonly availableBytes?: () => number
  /** Version of the library that tells Node. */
  readonly libuv?: string
  /** What vm_stat(1) prints; null where it cannot be run. */
  readonly vmStat?: () => string | null
}

/** @returns bytes */
export function memoryBytes({ root = '/', machineBytes = totalmem() }: MemoryOptions = {}): number {
  return minOf(cgroupsOf('memory', root).map(limitOf), machineBytes)
}

/** What this process can still get, in bytes; null where the system does not say, or says too little. */
export function availableMemoryBytes({
  root = '/',
  platform = process.platform,
  availableBytes = () => process.availableMemory(),
  libuv = process.versions.uv,
  vmStat = runVmStat,
}: AvailableMemoryOptions = {}): number | null {
  if (platform === 'linux') return leastOf([machineAvailable(root), ...cgroupsOf('memory', root).map(groupAvailable)])
  if (platform === 'darwin' && countsFreePagesAlone(libuv)) return reclaimableOf(vmStat())
  return known(availableBytes())
}

function leastOf(bytes: readonly (number | null)[]): number | null {
  const told = bytes.filter((figure) => figure !== null)
  return told.length === 0 ? null : minOf(told)
}

/** The kernel's own estimate, which counts what it keeps of files. */
function machineAvailable(root: string): number | null {
  const kilobytes = /^MemAvailable:\s+(\d+) kB/m.exec(textOf(join(root, 'proc/meminfo')) ?? '')?.[1]
  return known(Number(kilobytes) * 1024)
}

/** What a group's limit leaves, its files given back; null where it has none, or does not tell what it keeps of files. */
function groupAvailable(group: Cgroup): number | null {
  const limit = limitOf(group)
  const used = numberOf(group.read(group.version === 2 ? 'memory.current' : 'memory.usage_in_bytes'))
  const stat = group.read('memory.stat')
  if (!Number.isFinite(limit) || used === null || stat === null) return null
  return Math.max(0, limit - Math.max(0, used - fileBytes(stat, group.version)))
}

/** @returns bytes; infinity where there is no limit */
function limitOf({ version, read }: Cgroup): number {
  // beyond `high` a group is slowed down until it gives memory back
  const names = version === 2 ? ['memory.max', 'memory.high'] : ['memory.limit_in_bytes']
  return minOf(names.map((name) => numberOf(read(name)) ?? Number.POSITIVE_INFINITY))
}

/** What a group keeps of files. Version 1 has the sum with the groups below under names of its own. */
function fileBytes(stat: string, version: Cgroup['version']): number {
  const prefix = version === 1 ? 'total_' : ''
  const sizeOf = (name: string): number => Number(new RegExp(`^${prefix}${name} (\\d+)$`, 'm').exec(stat)?.[1] ?? 0)
  return sizeOf('inactive_file') + sizeOf('active_file')
}

/** @returns null for `max`, and where there is nothing */
function numberOf(text: string | null): number | null {
  const digits = /^\d+$/.exec(text?.trim() ?? '')?.[0]
  return digits === undefined ? null : Number(digits)
}

/** Before 1.52 libuv tells a Mac's free pages, of which a Mac that has run for a while has hardly any. */
function countsFreePagesAlone(libuv: string): boolean {
  const [major = 0, minor = 0] = libuv.split('.').map(Number)
  return major < 1 || (major === 1 && minor < 52)
}

/** Free pages, and those that are given away without being written anywhere first. */
function reclaimableOf(vmStat: string | null): number | null {
  const pageBytes = Number(/page size of (\d+) bytes/.exec(vmStat ?? '')?.[1])
  const pages = ['free', 'speculative', 'inactive'].map((name) =>
    Number(new RegExp(`^Pages ${name}:\\s+(\\d+)`, 'm').exec(vmStat ?? '')?.[1]),
  )
  return known(pageBytes * pages.reduce((sum, count) => sum + count, 0))
}

/** 0 and what is no number are no figures. */
function known(bytes: number): number | null {
  return bytes > 0 ? bytes : null
}

/** `12 MB`, `0.3 MB`: one decimal where two figures would look alike without. */
export function inMegabytes(bytes: number): string {
  const megabytes = bytes / 1e6
  return `${megabytes < 10 ? megabytes.toFixed(1) : Math.round(megabytes)} MB`
}
