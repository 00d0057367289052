/** Memory of machines and containers, from files as Linux shows them and from what a Mac prints. */
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { type AvailableMemoryOptions, availableMemoryBytes, inMegabytes, memoryBytes } from '#base/machine/memory.js'
import { linuxRoot } from '../../../support/linux-root.js'

const MB = 2 ** 20
const MACHINE = { 'proc/meminfo': `MemTotal: 8192000 kB\nMemFree: 1024 kB\nMemAvailable: ${4096 * 1024} kB\n` }

interface Group {
  readonly limit: number | 'max'
  readonly used: number
  readonly inactiveFile?: number
  readonly activeFile?: number
}

/** Files of a group of version 2, in MB. */
function v2(path: string, { limit, used, inactiveFile = 0, activeFile = 0 }: Group): Record<string, string> {
  const at = (name: string): string => join('sys/fs/cgroup', path, name)
  return {
    'proc/self/cgroup': '0::/pod/main\n',
    [at('memory.max')]: `${limit === 'max' ? limit : limit * MB}\n`,
    [at('memory.current')]: `${used * MB}\n`,
    [at('memory.stat')]: `anon 5\nfile 7\ninactive_file ${inactiveFile * MB}\nactive_file ${activeFile * MB}\nslab 3\n`,
  }
}

/** Of version 1, where the groups below have a share of their own in the sums. */
function v1(path: string, { limit, used, inactiveFile = 0, activeFile = 0 }: Group): Record<string, string> {
  const at = (name: string): string => join('sys/fs/cgroup/memory', path, name)
  return {
    'proc/self/cgroup': '5:cpu:/\n4:memory:/docker/abc\n0::/\n',
    [at('memory.limit_in_bytes')]: limit === 'max' ? '9223372036854771712\n' : `${limit * MB}\n`,
    [at('memory.usage_in_bytes')]: `${used * MB}\n`,
    [at('memory.stat')]:
      `inactive_file 1\nactive_file 2\ntotal_inactive_file ${inactiveFile * MB}\ntotal_active_file ${activeFile * MB}\n`,
  }
}

const withoutStat = (files: Record<string, string>): Record<string, string> =>
  Object.fromEntries(Object.entries(files).filter(([path]) => !path.endsWith('memory.stat')))

const FULL_OF_FILES = { limit: 1024, used: 1023, inactiveFile: 700, activeFile: 200 }

describe('available memory on Linux', () => {
  it.each<readonly [string, Record<string, string>, number | null]>([
    ['no group has a limit', MACHINE, 4096],
    ['there is nothing to read', {}, null],
    ['only free pages are told', { 'proc/meminfo': 'MemFree: 1024 kB\n' }, null],
    ['a container is full of files', { ...MACHINE, ...v2('pod/main', FULL_OF_FILES) }, 901],
    ['a container of version 1 is full of files', { ...MACHINE, ...v1('docker/abc', FULL_OF_FILES) }, 901],
    ['a container sees its own group as the root', { ...MACHINE, ...v2('', FULL_OF_FILES) }, 901],
    ['a container of version 1 sees its own group as the root', { ...MACHINE, ...v1('', FULL_OF_FILES) }, 901],
    ['a container computes with all it has', { ...MACHINE, ...v2('pod/main', { limit: 1024, used: 1020 }) }, 4],
    ['there is no limit', { ...MACHINE, ...v2('pod/main', { ...FULL_OF_FILES, limit: 'max' }) }, 4096],
    ['there is no limit in version 1', { ...MACHINE, ...v1('docker/abc', { ...FULL_OF_FILES, limit: 'max' }) }, 4096],
    [
      'a group above leaves less',
      {
        ...MACHINE,
        ...v2('pod/main', { limit: 1024, used: 100 }),
        ...v2('pod', { limit: 1024, used: 900, inactiveFile: 100 }),
      },
      224,
    ],
    ['the limit is more than the machine has left', { ...MACHINE, ...v2('pod', { limit: 90_000, used: 1 }) }, 4096],
    ['a group does not tell what is files', { ...MACHINE, ...withoutStat(v2('pod/main', FULL_OF_FILES)) }, 4096],
  ])('where %s', (_, files, expected) => {
    const bytes = availableMemoryBytes({ platform: 'linux', root: linuxRoot(files), availableBytes: () => 1 })
    expect(bytes === null ? null : bytes / MB).toBe(expected)
  })
})

const VM_STAT = `Mach Virtual Memory Statistics: (page size of 16384 bytes)
Pages free:                                3000.
Pages active:                            300000.
Pages inactive:                          200000.
Pages speculative:                         1000.
Pages throttled:                              0.
Pages wired down:                         90000.
Pages purgeable:                           5000.
"Translation faults":                1234567890.
`

describe('available memory elsewhere', () => {
  const mac = (given: AvailableMemoryOptions): number | null =>
    availableMemoryBytes({ platform: 'darwin', libuv: '1.46.0', availableBytes: () => 20e6, ...given })

  it('of a Mac counts the pages that are given away on demand', () => {
    expect(mac({ vmStat: () => VM_STAT })).toBe(204_000 * 16_384)
  })

  it.each([
    ['vm_stat cannot be run', null],
    ['vm_stat prints something else', 'Pages free: many'],
  ])('of a Mac is unknown, not its free pages, where %s', (_, printed) => {
    expect(mac({ vmStat: () => printed })).toBeNull()
  })

  it.each(['1.52.0', '1.60.1', '2.0.0'])('of a Mac is what Node says with libuv %s', (libuv) => {
    expect(mac({ libuv, vmStat: () => VM_STAT })).toBe(20e6)
  })

  it('is what Node says, and unknown where it does not know', () => {
    expect(availableMemoryBytes({ platform: 'win32', availableBytes: () => 5 })).toBe(5)
    expect(availableMemoryBytes({ platform: 'win32', availableBytes: () => 0 })).toBeNull()
  })
})

describe('memory there is', () => {
  it.each([
    ['no limit is set', v2('pod/main', { limit: 'max', used: 1 }), 100],
    ['no limit is set in version 1', v1('docker/abc', { limit: 'max', used: 1 }), 100],
    ['a container has less than the machine', v2('pod/main', { limit: 30, used: 1 }), 30],
    ['a container of version 1 has less than the machine', v1('docker/abc', { limit: 30, used: 1 }), 30],
    [
      'a group above has less',
      { ...v2('pod/main', { limit: 'max', used: 1 }), ...v2('pod', { limit: 20, used: 1 }) },
      20,
    ],
    [
      'a group is slowed down from less on',
      { ...v2('pod', { limit: 30, used: 1 }), 'sys/fs/cgroup/pod/main/memory.high': `${10 * MB}\n` },
      10,
    ],
    ['there is nothing to read', {}, 100],
  ])('where %s', (_, files, expected) => {
    expect(memoryBytes({ root: linuxRoot(files), machineBytes: 100 * MB }) / MB).toBe(expected)
  })
})

it.each([
  [312_000, '0.3 MB'],
  [20e6, '20 MB'],
  [2.5e9, '2500 MB'],
])('%d bytes are %s', (bytes, text) => {
  expect(inMegabytes(bytes)).toBe(text)
})
