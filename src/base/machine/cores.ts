/**
 * How many processor cores this process and its children may use: those the system lets it run on, and no more than a container's CPU
 * quota pays for.
 *
 * Node itself respects a quota from version 22 on, ONNX Runtime never does: 64 threads on a quota of two cores are throttled, all
 * together, most of the time.
 */
import { availableParallelism } from 'node:os'
import { minOf } from '../util/lists.js'
import { type Cgroup, cgroupsOf } from './cgroups.js'

export interface CoreOptions {
  /** Where `proc` and `sys` are looked for; default the machine's. */
  readonly root?: string
  /** Cores this process may run on. */
  readonly parallelism?: number
}

/**
 * A quota of two and a half cores counts as two: a thread that must wait for time holds up all others of its operator.
 *
 * Source: cgroups(7), `cpu.max` of version 2 and `cpu.cfs_quota_us` of version 1.
 */
export function usableCores({ root = '/', parallelism = availableParallelism() }: CoreOptions = {}): number {
  return Math.max(1, minOf(cgroupsOf('cpu', root).map(quotaOf).map(Math.floor), parallelism))
}

/** Training jobs that fill the cores: one of a small model takes half of them (`src/docs/internals/performance.md`). */
export const jobsAtOnce = (cores: number = usableCores()): number => Math.min(2, cores)

/** @returns cores; infinity where there is no quota */
function quotaOf({ version, read }: Cgroup): number {
  const [quota, period] =
    version === 2
      ? (read('cpu.max') ?? 'max').trim().split(' ')
      : ['cpu.cfs_quota_us', 'cpu.cfs_period_us'].map((name) => read(name)?.trim())
  const cores = Number(quota) / Number(period)
  return cores > 0 ? cores : Number.POSITIVE_INFINITY
}
