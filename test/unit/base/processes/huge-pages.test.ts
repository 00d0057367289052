import { describe, expect, it } from 'vitest'
import { withHugePages } from '#base/processes/huge-pages.js'

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
