/**
 * Every operator against the float64 reference, and every gradient rule against central differences. See
 * `test/support/reference/op-case.ts`.
 */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { GRADIENT_RULES } from '#numerics/autodiff/gradient-rules.js'
import { SIGNATURES } from '#numerics/graph/signatures/table.js'
import { coveredOperators } from '../../support/reference/op-case.js'
import { attentionCases } from './cases/attention.js'
import { elementwiseCases } from './cases/elementwise.js'
import { indexingCases } from './cases/indexing.js'
import { matmulCases } from './cases/matmul.js'
import { normalizeCases } from './cases/normalize.js'
import { shapeCases } from './cases/shape.js'

describe('attention', attentionCases)
describe('elementwise', elementwiseCases)
describe('matmul', matmulCases)
describe('normalize', normalizeCases)
describe('shape', shapeCases)
describe('indexing', indexingCases)

describe('coverage', () => {
  test('every operator with a signature has a case', () => {
    expect([...SIGNATURES.keys()].filter((op) => !coveredOperators.has(op))).toEqual([])
  })

  test('every operator with a gradient rule has a case', () => {
    expect([...GRADIENT_RULES.keys()].filter((op) => !coveredOperators.has(op))).toEqual([])
  })

  test('every operator that graph/ops makes has a signature', async () => {
    const directory = join(import.meta.dirname, '../../../src/numerics/graph/ops')
    const made = new Set<string>()
    for (const file of await readdir(directory)) {
      const source = await readFile(join(directory, file), 'utf8')
      for (const [, op] of source.matchAll(/(?:g\.node|only|reduce)\((?:g, )?'(\w+)'/g)) made.add(op!)
    }
    expect(made.size).toBeGreaterThan(40)
    expect([...made].filter((op) => !SIGNATURES.has(op))).toEqual([])
  })
})
