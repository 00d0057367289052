/**
 * How many processor cores there are for this process and its children: those it may run on, and no more than a container's quota of
 * processor time pays for. Node itself counts a quota from version 22 on, and ONNX Runtime never: with a thread for each of 64 cores and
 * time for two, all stand still together most of the time.
 */
import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'

export interface CoreOptions {
  /** Where `proc` and `sys` are looked for; default the machine's. */
  readonly root?: string
  /** Cores this process may run on. */
  readonly parallelism?: number
}

/**
 * A quota of two and a half cores counts as two: a thread that must wait for time holds up all others of its operator.
 *
 * Source: cgroups(7), `cpu.max` of version 2 and `cpu.cfs_quota_us` of version 1. A quota holds for all groups below it, and a
 * container may see its own group as the root.
 */
export function usableCores({ root = '/', parallelism = availableParallelism() }: CoreOptions = {}): number {
  const quotas = cgroupsOf(root).map((group) => quotaOf(join(root, 'sys/fs/cgroup'), group))
  return Math.max(1, Math.min(parallelism, ...quotas.map(Math.floor)))
}

/** Groups that may have a quota: `controllers` of version 1, none in version 2. */
interface Cgroup {
  readonly controllers: string
  readonly path: string
}

/** Of this process; the roots besides, where what `proc` says is not what is mounted. */
function cgroupsOf(root: string): readonly Cgroup[] {
  const lines = textOf(join(root, 'proc/self/cgroup'))?.split('\n') ?? []
  const own = lines.flatMap((line) => {
    const [, controllers, path] = /^\d+:([^:]*):(\/.*)$/.exec(line) ?? []
    if (controllers === undefined || path === undefined) return []
    const isOfProcessors = controllers === '' || controllers.split(',').includes('cpu')
    return isOfProcessors ? [{ controllers, path }] : []
  })
  return own.flatMap(({ controllers, path }) => {
    const parts = path.split('/').filter((part) => part !== '')
    return Array.from({ length: parts.length + 1 }, (_, count) => ({
      controllers,
      path: parts.slice(0, count).join('/'),
    }))
  })
}

/** @returns cores; infinity where there is no quota */
function quotaOf(mount: string, { controllers, path }: Cgroup): number {
  const [quota, period] =
    controllers === ''
      ? (textOf(join(mount, path, 'cpu.max')) ?? 'max').trim().split(' ')
      : ['cpu.cfs_quota_us', 'cpu.cfs_period_us'].map((name) => textOf(join(mount, controllers, path, name))?.trim())
  const cores = Number(quota) / Number(period)
  return cores > 0 ? cores : Number.POSITIVE_INFINITY
}

function textOf(path: string): string | null {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    // no such group, or not Linux
    return null
  }
}
