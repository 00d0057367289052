/**
 * What children are told about memory: added to what the user says, never instead of it.
 */
import { describe, expect, it } from 'vitest'
import { withHugePages, withMemoryGivenBack } from '#base/processes/malloc-tunables.js'

describe('withHugePages', () => {
  it('asks glibc for large pages and keeps the rest of the environment', () => {
    expect(withHugePages({ PATH: '/bin' })).toEqual({ PATH: '/bin', GLIBC_TUNABLES: 'glibc.malloc.hugetlb=1' })
  })

  it('joins what else is tuned', () => {
    const { GLIBC_TUNABLES } = withHugePages({ GLIBC_TUNABLES: 'glibc.malloc.arena_max=2' })
    expect(GLIBC_TUNABLES).toBe('glibc.malloc.arena_max=2:glibc.malloc.hugetlb=1')
  })

  it('leaves alone what the user has decided', () => {
    const given = { GLIBC_TUNABLES: 'glibc.malloc.hugetlb=0' }
    expect(withHugePages(given)).toBe(given)
  })
})

describe('withMemoryGivenBack', () => {
  it('adds what the user has not decided, one by one', () => {
    const all = withMemoryGivenBack(withHugePages({}))
    expect(all['GLIBC_TUNABLES']).toBe(
      'glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=65536:glibc.malloc.arena_max=1',
    )
    const { GLIBC_TUNABLES } = withMemoryGivenBack({ GLIBC_TUNABLES: 'glibc.malloc.arena_max=8' })
    expect(GLIBC_TUNABLES).toBe('glibc.malloc.arena_max=8:glibc.malloc.mmap_threshold=65536')
    expect(withMemoryGivenBack(all)).toBe(all)
  })
})
