/**
 * Pydantic's lax scalars and the published problem shape.
 */

import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { toJsonPath, toValidationProblems } from '#contract/wire/errors.js'
import { laxBoolean, laxInt64, laxInteger, laxNumber } from '#contract/wire/lax.js'

function problems(schema: z.ZodType, value: unknown) {
  const result = schema.safeParse(value)
  return result.success ? [] : toValidationProblems(result.error.issues, 'body')
}

describe('lax scalars', () => {
  it.each([
    [laxBoolean(), 'true', true],
    [laxBoolean(), 'OFF', false],
    [laxBoolean(), 1, true],
    [laxInteger(), '5', 5],
    [laxInteger(), 5.0, 5],
    [laxInteger(), ' -12 ', -12],
    [laxInteger(), true, 1],
    [laxNumber(), '1e-3', 0.001],
    [laxNumber(), 1, 1],
    [laxInt64(), 9223372036854775807n, 9223372036854775807n],
    [laxInt64(), '-9223372036854775808', -9223372036854775808n],
  ])('reads case %#', (schema, input, expected) => {
    expect(schema.parse(input)).toBe(expected)
  })

  it.each([
    [laxBoolean(), 'maybe', 'bool_parsing'],
    [laxBoolean(), [], 'bool_type'],
    [laxInteger(), 5.5, 'int_from_float'],
    [laxInteger(), 'five', 'int_parsing'],
    [laxInteger(), null, 'int_type'],
    [laxInteger({ min: 1 }), 0, 'greater_than_equal'],
    [laxInteger({ max: 3 }), 4, 'less_than_equal'],
    [laxInteger(), 2n ** 60n, 'int_parsing_size'],
    [laxNumber(), Number.NaN, 'finite_number'],
    [laxNumber(), '1e999', 'finite_number'],
    [laxNumber(), 'x', 'float_parsing'],
    [laxNumber(), {}, 'float_type'],
    [laxInt64(), 2n ** 63n, 'less_than_equal'],
    [laxInt64({ min: -1n }), -2, 'greater_than_equal'],
  ])('refuses case %# with the pydantic type', (schema, input, type) => {
    expect(problems(schema, input)).toEqual([{ loc: ['body'], msg: expect.any(String), type }])
  })

  it.each([
    [laxNumber(), '1'],
    [laxNumber(), ' '],
    [laxInteger(), '1'],
    [laxInteger(), '_1'],
    [laxInt64(), '0'],
  ])('refuses a megabyte of text at once: case %#', (schema, part) => {
    // minutes, where each of its digits is looked at once for each before it
    expect(schema.safeParse(`1${part.repeat(1_000_000 / part.length)}x`).success).toBe(false)
    expect(schema.safeParse('1'.repeat(1_000_000)).success).toBe(false)
  })

  it('treats null and absence of an optional field alike', () => {
    const schema = z.object({ n: laxInteger().nullish() })
    expect(schema.parse({})).toEqual({})
    expect(schema.parse({ n: null }).n ?? undefined).toBeUndefined()
  })
})

describe('validation problems', () => {
  it('names a missing field, a wrong type and a wrong literal as pydantic does', () => {
    const schema = z.object({ a: z.string(), b: z.array(z.object({ c: z.guid() })), d: z.enum(['x', 'y']) })
    expect(problems(schema, { b: [{ c: 'no' }], d: 'z' })).toEqual([
      { loc: ['body', 'a'], msg: 'Field required', type: 'missing' },
      { loc: ['body', 'b', 0, 'c'], msg: 'Input should be a valid UUID', type: 'uuid_parsing' },
      { loc: ['body', 'd'], msg: "Input should be 'x' or 'y'", type: 'literal_error' },
    ])
    expect(problems(schema, { a: 1, b: {}, d: 'x' }).map((problem) => problem.type)).toEqual([
      'string_type',
      'list_type',
    ])
  })

  it('writes a location as a JSON path', () => {
    expect(toJsonPath(['trajectory_groups', 2, 'reward'])).toBe('trajectory_groups[2].reward')
  })

  it('reports every branch of a union', () => {
    expect(problems(z.union([z.string(), z.array(z.string())]), [1])).toEqual([
      { loc: ['body'], msg: 'Input should be a valid string', type: 'string_type' },
      { loc: ['body', 0], msg: 'Input should be a valid string', type: 'string_type' },
    ])
  })

  it('answers at most fifty problems however many there are', () => {
    expect(problems(z.array(z.string()), Array(1000).fill(1))).toHaveLength(50)
  })
})
