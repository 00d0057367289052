import { expect, test } from 'vitest'
import { productShares } from '#numerics/runtime/product-shares.js'

const of = (model: string, arch = 'x64') => ({ model, arch, cores: 8 })

test('a product is divided into as many parts as there are threads', () => {
  expect(productShares(3, of('AMD EPYC 9B14'))).toBe(3)
  expect(productShares(3, of('Intel(R) Xeon(R) Platinum 8488C'))).toBe(3)
})

test('threads are those of the session, or as many as the machine has cores', () => {
  expect(productShares(null, of('AMD Ryzen 7 7840U'))).toBe(8)
})

test('cores that may be of several kinds take four parts each', () => {
  expect(productShares(2, of('12th Gen Intel(R) Core(TM) i7-1260P'))).toBe(8)
  expect(productShares(2, of('Apple M2', 'arm64'))).toBe(8)
  expect(productShares(null, of('Apple M2', 'arm64'))).toBe(32)
})
