/** Cores of a container, from files as Linux shows them. */
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { jobsAtOnce, usableCores } from '#base/machine/cores.js'
import { linuxRoot } from '../../../support/linux-root.js'

const V2 = { 'proc/self/cgroup': '0::/system.slice/trainyard.service\n' }
const V1 = { 'proc/self/cgroup': '3:cpuset:/a\n2:cpu,cpuacct:/docker/abc\n0::/\n' }
const at = (path: string, name: string): string => join('sys/fs/cgroup', path, name)
const v1 = (path: string, quota: number): Record<string, string> => ({
  [at(`cpu,cpuacct/${path}`, 'cpu.cfs_quota_us')]: `${quota}\n`,
  [at(`cpu,cpuacct/${path}`, 'cpu.cfs_period_us')]: '100000\n',
})

describe('usable cores', () => {
  it.each([
    ['there is nothing to read', {}, 16],
    ['no quota is set', { ...V2, [at('system.slice', 'cpu.max')]: 'max 100000\n' }, 16],
    ['the own group has one', { ...V2, [at('system.slice/trainyard.service', 'cpu.max')]: '200000 100000\n' }, 2],
    [
      'a group above has a smaller one',
      {
        ...V2,
        [at('system.slice/trainyard.service', 'cpu.max')]: '800000 100000\n',
        [at('system.slice', 'cpu.max')]: '300000 100000\n',
      },
      3,
    ],
    [
      'a container sees its own group as the root',
      { 'proc/self/cgroup': '0::/\n', [at('', 'cpu.max')]: '400000 100000\n' },
      4,
    ],
    ['it is no whole number', { ...V2, [at('system.slice', 'cpu.max')]: '250000 100000\n' }, 2],
    ['it is less than one', { ...V2, [at('system.slice', 'cpu.max')]: '50000 100000\n' }, 1],
    ['it is more than there are', { ...V2, [at('system.slice', 'cpu.max')]: '9900000 100000\n' }, 16],
    ['version 1 has no quota', { ...V1, ...v1('docker/abc', -1) }, 16],
    ['version 1 has one', { ...V1, ...v1('docker/abc', 200_000) }, 2],
    ['version 1 has one at what a container sees as the root', { ...V1, ...v1('', 600_000) }, 6],
    ['the file is torn', { ...V2, [at('system.slice', 'cpu.max')]: '' }, 16],
  ])('where %s', (_, files, expected) => {
    expect(usableCores({ root: linuxRoot(files), parallelism: 16 })).toBe(expected)
  })
})

it.each([
  [1, 1],
  [2, 2],
  [16, 2],
])('%i cores train %i jobs side by side, of which each takes half of them', (cores, jobs) => {
  expect(jobsAtOnce(cores)).toBe(jobs)
})
