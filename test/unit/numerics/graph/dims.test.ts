/**
 * The algebra of symbolic sizes.
 */
import { describe, expect, test } from 'vitest'
import { GraphError } from '#base/errors/errors.js'
import {
  addDims,
  canonicalDim,
  canonicalShape,
  dimTerms,
  divideDims,
  elementCountDim,
  isSameShape,
  multiplyDims,
  subtractDims,
} from '#numerics/graph/dims.js'

describe('canonical text', () => {
  test.each([
    ['S+C', 'C+S'],
    ['S*2', '2*S'],
    ['T*B', 'B*T'],
    ['S+S', '2*S'],
    ['1+S', 'S+1'],
    ['S-1', 'S-1'],
    ['2*S-S-S', 0],
    ['2*3', 6],
    ['0*S+4', 4],
    ['B*S+B*C', 'B*C+B*S'],
  ])('%s is %s', (given, expected) => {
    expect(canonicalDim(given)).toBe(expected)
  })

  test.each([-1, 1.5, '', 'S+', 'S**2', '2S', 'B T', '*S'])('%s is refused', (given) => {
    expect(() => canonicalDim(given)).toThrow(GraphError)
  })
})

test('sums, differences and products cancel and collect terms', () => {
  expect(addDims('C', 'S')).toBe('C+S')
  expect(addDims('S', -1)).toBe('S-1')
  expect(subtractDims('C+S', 'S')).toBe('C')
  expect(subtractDims('S', 'S')).toBe(0)
  expect(multiplyDims('C+S', 'B')).toBe('B*C+B*S')
  expect(multiplyDims('S-1', 'S+1')).toBe('S*S-1')
  expect(multiplyDims('S', 0)).toBe(0)
})

test('division is exact or refused', () => {
  expect(divideDims('6*B*S', '2*S')).toBe('3*B')
  expect(divideDims('B*C*D+B*D*S', 'C+S')).toBe('B*D')
  expect(divideDims('S*S-1', 'S-1')).toBe('S+1')
  expect(divideDims(12, 4)).toBe(3)
  expect(divideDims(12, 5)).toBeNull()
  expect(divideDims('S', 2)).toBeNull()
  expect(divideDims('C+S', 'C')).toBeNull()
  expect(divideDims('S', 0)).toBeNull()
  expect(divideDims(0, 'S')).toBe(0)
})

test('division undoes multiplication for all pairs of sizes', () => {
  const sizes = [1, 3, 'B', '2*S', 'C+S', 'B*T-1', 'C+2*S+3']
  for (const a of sizes) {
    for (const b of sizes) expect(divideDims(multiplyDims(a, b), b)).toBe(canonicalDim(a))
  }
})

test('element counts and terms of a shape', () => {
  expect(elementCountDim([])).toBe(1)
  expect(elementCountDim(['B', 'C+S', 4])).toBe('4*B*C+4*B*S')
  expect(dimTerms('2*B*S-1')).toEqual([
    { coefficient: 2, symbols: ['B', 'S'] },
    { coefficient: -1, symbols: [] },
  ])
  expect(isSameShape(canonicalShape(['S+C', 2]), canonicalShape(['C+S', 2]))).toBe(true)
})
